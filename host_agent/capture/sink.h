/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The destination of a capture's chunks: a file, or the history of a recording without a file. */
#ifndef BRAID_CAPTURE_SINK_H
#define BRAID_CAPTURE_SINK_H

#include "host_agent/capture/capture.h"

/* As the functions of capture.h that call them. */
struct braid_capture_ops {
	int (*put)(struct braid_capture_writer *w, u16 type, u32 stream, const void *head,
		   u32 head_bytes, const void *body, u32 body_bytes);
	void *(*reserve)(struct braid_capture_writer *w, u32 head_bytes, u32 bytes);
	int (*flush)(struct braid_capture_writer *w);
	int (*settle)(struct braid_capture_writer *w);
	int (*publish)(struct braid_capture_writer *w);
	int (*close)(struct braid_capture_writer *w);	/* after FILE_END; frees nothing */
	u64 (*bytes)(const struct braid_capture_writer *w);
	u64 (*written)(const struct braid_capture_writer *w);
	bool (*full)(const struct braid_capture_writer *w);
	void (*free)(struct braid_capture_writer *w);
};

/* The first member of each kind. */
struct braid_capture_writer {
	const struct braid_capture_ops *ops;
	int error;		/* of the failed write; all later ones fail with it */
	bool sync_at_end;
};

#endif /* BRAID_CAPTURE_SINK_H */
