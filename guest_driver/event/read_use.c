// SPDX-License-Identifier: GPL-2.0
/* Uses a buffer by its files, which may outlive it. */
#include <linux/slab.h>

#include "guest_driver/event/read_files.h"

struct braid_buffer *braid_read_enter(struct braid_read_files *files, int *index)
{
	struct braid_buffer *buffer;

	*index = srcu_read_lock(&files->users);
	buffer = READ_ONCE(files->buffer);
	if (!buffer)
		srcu_read_unlock(&files->users, *index);
	else
		__release(&files->users);	/* sparse cannot follow a conditional lock */
	return buffer;
}

void braid_read_leave(struct braid_read_files *files, int index)
{
	__acquire(&files->users);
	srcu_read_unlock(&files->users, index);
}

static void braid_read_files_free(struct kref *kref)
{
	struct braid_read_files *files = container_of(kref, struct braid_read_files, kref);

	cleanup_srcu_struct(&files->users);
	kfree(files);
}

void braid_read_files_put(struct braid_read_files *files)
{
	kref_put(&files->kref, braid_read_files_free);
}
