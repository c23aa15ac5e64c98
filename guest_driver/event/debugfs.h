/* SPDX-License-Identifier: GPL-2.0 */
/* The tree under debugfs: what the guest's user sees and switches. */
#ifndef BRAID_EVENT_DEBUGFS_H
#define BRAID_EVENT_DEBUGFS_H

#include "guest_driver/event/event.h"

/** braid_debugfs_init - make tracebraid/; a kernel without debugfs goes on without */
void braid_debugfs_init(void);

/** braid_debugfs_exit - remove it with all in it */
void braid_debugfs_exit(void);

/**
 * braid_debugfs_attach - make tracebraid/<buffer>/: buffers/enabled, stats
 * @buffer: of a live region
 */
void braid_debugfs_attach(struct braid_buffer *buffer);

/** braid_debugfs_detach - remove what braid_debugfs_attach() made; no user is inside on return */
void braid_debugfs_detach(void);

/** braid_debugfs_add - make trace/events/<system>/<event>/{enable,id,format} */
void braid_debugfs_add(struct braid_event *ev);

/** braid_debugfs_remove - remove an event's files; no user is inside on return */
void braid_debugfs_remove(struct braid_event *ev);

#endif /* BRAID_EVENT_DEBUGFS_H */
