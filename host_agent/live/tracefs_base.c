// SPDX-License-Identifier: GPL-2.0-or-later
/* Common parts of the host's recording: tracefs' path, chunks. */
#include <errno.h>
#include <unistd.h>

#include "host_agent/discover/discover.h"
#include "host_agent/live/tracefs_private.h"
#include "host_agent/util/error.h"

int braid_host_emit(struct braid_tracefs_source *s, u16 type, const void *head, u32 head_bytes,
		    const void *body, u32 body_bytes)
{
	return braid_capture_put(s->o.sink->capture, type, s->stream, head, head_bytes, body,
				 body_bytes);
}

int braid_host_tracefs(const char **root)
{
	if (!braid_pids_of_host())
		return braid_fail(-EXDEV, "the host cannot be recorded from another PID namespace: processes have other numbers there; run this in the host's (a container: --pid=host)");
	*root = tracefs_tracing_dir();
	if (!*root)
		return braid_fail(-ENOENT, "the host cannot be recorded: tracefs is not mounted (mount -t tracefs nodev /sys/kernel/tracing)");
	if (access(*root, R_OK | W_OK | X_OK))
		return braid_fail(-EACCES, "the host cannot be recorded: no permission for %s; run as root",
				  *root);
	return 0;
}
