/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files that write trace-cmd's trace.dat. */
#ifndef BRAID_EXPORT_TRACE_DAT_H
#define BRAID_EXPORT_TRACE_DAT_H

#include "host_agent/export/export.h"
#include "host_agent/format/format.h"
#include "host_agent/util/text.h"

#define BRAID_DAT_OUT_PAGE_BYTES	4096u	/* of a page; grows when an event needs more */

/* Ids in a file: of what is no event of the trace's own, then of its kinds as they come. */
enum braid_dat_out_id {
	BRAID_DAT_OUT_NOTE = 1,		/* text: what befell the stream */
	BRAID_DAT_OUT_BYTES = 2,	/* a label and bytes: an event that no format explains */
	BRAID_DAT_OUT_FIRST_KIND = 16,
	BRAID_DAT_OUT_MAX_ID = 32767,	/* KernelShark takes more for negative */
};

/* Pages of today's ring buffer under way into a file, of one CPU after another. */
struct braid_dat_out_pages {
	int fd;
	u32 page_bytes;
	u8 *buffer;
	u32 buffer_bytes;
	u32 filled;		/* of buffer: pages that are complete */
	bool open;		/* one more is not: */
	u32 used;		/* of its data */
	u64 ns;			/* of its last event */
	u64 lost_in;		/* events lost before the page's first */
	u64 lost;		/* and before the next event */
	u64 bytes;		/* of the file, with what is in buffer; a multiple of page_bytes */
	u32 needed_bytes;	/* after -EMSGSIZE: a page that takes the event */
};

/**
 * braid_dat_out_pages_begin - get ready
 * @p: filled
 * @fd: positioned at @start
 * @page_bytes: a power of two
 * @start: in the file; a multiple of @page_bytes
 *
 * Return: 0 or -ENOMEM with braid_fail(); braid_dat_out_pages_end() is needed in either case.
 */
int braid_dat_out_pages_begin(struct braid_dat_out_pages *p, int fd, u32 page_bytes, u64 start);

/**
 * braid_dat_out_pages_put - make room for an event
 * @p: the pages
 * @ns: its time, not before that of the last event since braid_dat_out_pages_close()
 * @bytes: of its record
 * @record: set to where that goes, 4-byte aligned
 *
 * Return: 0; -EMSGSIZE when no page takes it; -errno with braid_fail().
 */
int braid_dat_out_pages_put(struct braid_dat_out_pages *p, u64 ns, u32 bytes, void **record);

/**
 * braid_dat_out_pages_lose - say that events were lost before the next one
 * @p: the pages
 * @lost: how many, or BRAID_LOST_SOME
 */
void braid_dat_out_pages_lose(struct braid_dat_out_pages *p, u64 lost);

/** braid_dat_out_pages_close - end a CPU's last page; 0, or -errno with braid_fail() */
int braid_dat_out_pages_close(struct braid_dat_out_pages *p);

/** braid_dat_out_pages_flush - write what is complete; 0, or -errno with braid_fail() */
int braid_dat_out_pages_flush(struct braid_dat_out_pages *p);

/** braid_dat_out_pages_end - free the buffer */
void braid_dat_out_pages_end(struct braid_dat_out_pages *p);

/* Where a CPU's pages lie. */
struct braid_dat_out_cpu {
	u64 offset;
	u64 bytes;
};

/* Event formats that a file tells. */
struct braid_dat_out_formats {
	struct braid_text text;
	u32 nr;
};

/* A file under way. */
struct braid_dat_out_file {
	const struct braid_stream *stream;	/* NULL: a host that was not recorded */
	char *path;
	char *part;		/* what it is called until it is whole */
	bool made;		/* there is one of that name, and it is ours */
	int fd;
	u64 trace_id;
	u32 page_bytes;
	u64 data_start;		/* of the first CPU's pages */
	u64 data_end;
	u32 nr_cpus;
	struct braid_dat_out_cpu *cpus;
	bool any;		/* an event, so that these are set: */
	u64 first_ns, last_ns;
	u32 nr_kinds;		/* that have ids */
	struct braid_dat_out_formats ftrace, events;	/* of the system "ftrace", and of others */
};

/* An export under way. */
struct braid_dat_out {
	const struct braid_source *source;
	struct braid_format *format;
	u32 version;			/* 6 or 7 */
	struct braid_dat_out_file *files;	/* the host's first */
	size_t nr_files;
};

/** braid_dat_out_head_bytes - bytes before the first CPU's pages, or a guess for version 6 */
u64 braid_dat_out_head_bytes(const struct braid_dat_out *d,
			     const struct braid_dat_out_file *file);

/**
 * braid_dat_out_put_head - write all but the pages
 * @d: the export
 * @file: its pages are written
 *
 * Return: 0; -EAGAIN when they must begin farther behind: file->data_start is moved;
 * -errno with braid_fail().
 */
int braid_dat_out_put_head(const struct braid_dat_out *d, struct braid_dat_out_file *file);

/** braid_dat_out_put_format - tell a format of ours or of the trace's */
void braid_dat_out_put_format(struct braid_dat_out_file *file, const char *system,
			      const char *text, size_t bytes);

/** braid_export_trace_dat - trace.dat of version 7, as struct braid_export_form's run() */
int braid_export_trace_dat(const char *out, struct braid_source *source,
			   const struct braid_export_options *options,
			   struct braid_export_totals *totals);

/** braid_export_trace_dat_v6 - of version 6 */
int braid_export_trace_dat_v6(const char *out, struct braid_source *source,
			      const struct braid_export_options *options,
			      struct braid_export_totals *totals);

#endif /* BRAID_EXPORT_TRACE_DAT_H */
