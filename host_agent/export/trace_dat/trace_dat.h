/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files that write trace-cmd's trace.dat. */
#ifndef BRAID_EXPORT_TRACE_DAT_TRACE_DAT_H
#define BRAID_EXPORT_TRACE_DAT_TRACE_DAT_H

#include <sys/stat.h>

#include "host_agent/walk/options.h"
#include "host_agent/format/format.h"
#include "host_agent/util/text.h"

#define BRAID_DAT_OUT_PAGE_BYTES	4096u	/* of a page; grows when an event needs more */

/* What each format of ours begins with. */
#define BRAID_DAT_OUT_COMMON \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n" \
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n" \
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n" \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

/* Ids in a file: of generated events, then of the trace's types in order of occurrence. */
enum braid_dat_out_id {
	BRAID_DAT_OUT_NOTE = 1,		/* text: what happened to the stream */
	BRAID_DAT_OUT_BYTES = 2,	/* a label and bytes: an event that no format explains */
	BRAID_DAT_OUT_STATE = 3,	/* a vCPU's state, in a buffer of its own */
	BRAID_DAT_OUT_KERNEL_STACK = 4,	/* as ftrace has it */
	BRAID_DAT_OUT_USER_STACK = 12,
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
	u64 bytes;		/* of the file, including buffer; a multiple of page_bytes */
	u32 needed_bytes;	/* after -EMSGSIZE: a page that takes the event */
};

/**
 * braid_dat_out_pages_begin - begin to write pages
 * @p: filled
 * @fd: positioned at @start
 * @page_bytes: a power of two
 * @start: in the file; a multiple of @page_bytes
 *
 * Return: 0 or -ENOMEM with braid_fail(); braid_dat_out_pages_end() is needed in either case.
 */
int braid_dat_out_pages_begin(struct braid_dat_out_pages *p, int fd, u32 page_bytes, u64 start);

/**
 * braid_dat_out_pages_put - reserve space for an event
 * @p: the pages
 * @ns: its time, not before that of the last event since braid_dat_out_pages_close()
 * @bytes: of its record
 * @record: set to the record's place, 4-byte aligned
 *
 * Return: 0; -EMSGSIZE when it does not fit a page; -errno with braid_fail().
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

/**
 * braid_dat_out_pages_skip - leave a page's space free
 * @p: closed
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_dat_out_pages_skip(struct braid_dat_out_pages *p);

/** braid_dat_out_pages_flush - write what is complete; 0, or -errno with braid_fail() */
int braid_dat_out_pages_flush(struct braid_dat_out_pages *p);

/** braid_dat_out_pages_end - free the buffer */
void braid_dat_out_pages_end(struct braid_dat_out_pages *p);

/* The place of a CPU's pages. */
struct braid_dat_out_cpu {
	u64 offset;
	u64 bytes;
};

/* Event formats of a file. */
struct braid_dat_out_formats {
	struct braid_text text;
	u32 nr;
};

/* A file under way. */
struct braid_dat_out_file {
	const struct braid_stream *stream;	/* NULL: a host that was not recorded */
	bool is_host;
	u32 host;		/* number of the host: itself, or where the guest was first */
	const char *label;	/* in its name; NULL: the only host's */
	char *path;
	char *part;		/* its name in the folder until it is whole */
	struct stat made;	/* of that file; st_mode is 0 if there is none yet */
	int fd;
	u64 trace_id;
	u32 page_bytes;
	u64 data_start;		/* of the first CPU's pages */
	u64 data_end;		/* of all pages */
	u32 nr_cpus;
	struct braid_dat_out_cpu *cpus;
	bool has_states;	/* a second buffer, of vCPUs' states: */
	u64 states_start;	/* of its pages; its section's header ends there */
	struct braid_dat_out_cpu *states;	/* by CPU */
	bool any;		/* an event, so that these are set: */
	u64 first_ns, last_ns;
	u32 nr_types;		/* that have ids */
	struct braid_dat_out_formats ftrace, events;	/* of the system "ftrace", and of others */
};

/* An export under way. */
struct braid_dat_out {
	const struct braid_source *source;
	struct braid_format *format;
	u32 version;			/* 6 or 7 */
	struct braid_dat_out_file *files;	/* those of hosts first, by number */
	size_t nr_files;
	int folder;			/* that all are in; -1: not opened yet */
};

/**
 * braid_dat_out_make_id - a number for a file
 * @source: the trace
 * @stream: NULL: of a host that was not recorded
 * @number: of the file in the export
 *
 * Derived from its content, so that the same capture always gives the same number. Return: not 0.
 */
u64 braid_dat_out_make_id(const struct braid_source *source, const struct braid_stream *stream,
			  u32 number);

/** braid_dat_out_head_bytes - bytes before the first CPU's pages, or a guess for version 6 */
u64 braid_dat_out_head_bytes(const struct braid_dat_out *d,
			     const struct braid_dat_out_file *file);

/**
 * braid_dat_out_put_head - write all except the pages
 * @d: the export
 * @file: its pages are written
 *
 * Return: 0; -EAGAIN when the pages must begin later: file->data_start is increased; -errno with
 * braid_fail().
 */
int braid_dat_out_put_head(const struct braid_dat_out *d, struct braid_dat_out_file *file);

/** braid_dat_out_put_format - write a format of ours or of the trace's */
void braid_dat_out_put_format(struct braid_dat_out_file *file, const char *system,
			      const char *text, size_t bytes);

#endif /* BRAID_EXPORT_TRACE_DAT_TRACE_DAT_H */
