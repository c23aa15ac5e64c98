/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between the files that read a trace.dat of trace-cmd, versions 6 and 7.
 *
 * Not by libtracecmd: it hands out neither the formats' text nor the symbols, and it trusts the
 * content of the file. Its pages are decoded like those that tracebraid records from the host's
 * tracefs.
 */
#ifndef BRAID_TRACE_TRACE_DAT_H
#define BRAID_TRACE_TRACE_DAT_H

#include "host_agent/trace/capture_private.h"
#include "host_agent/trace/trace_dat_ids.h"

#define BRAID_DAT_MAX_SECTION	BRAID_MAX_SCHEMA_BYTES	/* of files that are not traces */
#define BRAID_DAT_MAX_CHUNK	(8u << 20)	/* of pages that are compressed together */
#define BRAID_DAT_MAX_CACHE	(512u << 20)	/* of such pages, in memory, one chunk of each ring */
#define BRAID_DAT_MOST_TIMES	256u		/* times its size that a file may unpack to ... */
#define BRAID_DAT_LEAST_BYTES	(16u << 20)	/* ... beside this */

#define BRAID_DAT_COMPRESSED	1u	/* of a section's flags */

/* Bytes that are taken from the front: of a section in memory, or of the file. */
struct braid_dat_input {
	struct braid_trace_dat *dat;
	const u8 *memory;	/* NULL: the file */
	u64 at;
	u64 end;
	int err;		/* the first failure, with braid_fail(); after it all that is taken is 0 */
};

/* Pages that were compressed together; the latest one of each ring. */
struct braid_dat_cache {
	u64 place;		/* 0: none */
	u8 *data;		/* NULL: it can't be unpacked */
	u32 bytes;
};

/* How a guest's clock differed from its host's when trace-cmd compared them. */
struct braid_dat_shift {
	u64 time;		/* of the guest */
	s64 offset;
	u64 scale;		/* host time = guest's * scale >> fraction, + offset */
	u64 fraction;
};

struct braid_dat_shifts {
	struct braid_dat_shift *at;	/* in order of time */
	u32 nr;
};

/* How the stamps become times: shifted to the host's clock, then converted to ns, then offset. */
struct braid_dat_times {
	struct braid_dat_shifts *cpus;	/* of a guest */
	u32 nr_cpus;
	u64 peer_id;			/* of a guest: of its host's trace */
	bool interpolate;		/* the offsets between two samples */
	u32 multiplier, shift;		/* ns = ticks * multiplier >> shift; 0: not known */
	s64 offset_ns;
};

/* A guest that the host's file lists. */
struct braid_dat_guest {
	char name[64];			/* sanitized */
	u64 trace_id;
	struct braid_vcpu_thread *threads;	/* by vCPU */
	u32 nr_threads;
};

/* Events of a buffer's CPU that were overwritten or dropped. */
struct braid_dat_lost {
	char buffer[BRAID_NAME_BYTES];
	u32 cpu;
	u64 events;
};

struct braid_dat_buffer {
	char name[BRAID_NAME_BYTES];	/* sanitized */
	char clock[24];			/* likewise */
	u64 at;				/* its section, or its table of CPUs (version 6) */
	u32 page_bytes;
	u32 nr_cpus;
	struct braid_dat_cpu {
		u32 cpu;
		u64 at;
		u64 bytes;
	} *cpus;			/* version 7 */
};

struct braid_trace_dat {
	struct braid_capture_source *source;
	struct braid_capture_stream *stream;
	u32 file;			/* its number in the source */
	int fd;
	char path[256];			/* sanitized */
	u64 file_bytes;
	u64 bytes_left;		/* remaining budget for unpacked sections and pages */
	u64 cache_bytes;	/* of the largest chunk of each ring */
	bool sections;			/* version 7 */
	bool zlib;			/* what is compressed is so by zlib; else by zstd */
	u32 page_bytes;
	u32 nr_cpus;
	bool of_guest;			/* its times are shifted to a host's */
	struct braid_trace_dat *host;	/* whose guest it is; NULL: none of the files' */
	u64 trace_id;			/* 0: none */
	struct braid_dat_guest *guests;	/* of a host's */
	size_t nr_guests, guests_capacity;
	struct braid_dat_times times;
	char clock[24];			/* where a buffer has none */
	char release[64];
	char host_name[64];
	char machine[32];
	u64 places[BRAID_DAT_IDS];	/* of sections; 0: none */
	struct braid_dat_buffer buffers[BRAID_MAX_BUFFERS];
	u32 nr_buffers;
	char stats_of[BRAID_NAME_BYTES];	/* the buffer whose statistics follow */
	struct braid_dat_lost *lost;
	size_t nr_lost, lost_capacity;
	struct braid_dat_cache *caches;	/* by ring */
	size_t nr_caches, caches_capacity;
};

/*
 * trace_dat.c: opens the file, and makes a stream of it. Return: 0, or -errno with braid_fail();
 * braid_trace_dat_close() is needed in either case.
 */
int braid_trace_dat_open(struct braid_trace_dat **out, struct braid_capture_source *cs, u32 file,
			 const char *path);
void braid_trace_dat_close(struct braid_trace_dat *dat);

/* Gives its stream a name that no other one has. @name: cleaned here. */
void braid_dat_name_stream(struct braid_trace_dat *dat, const char *name);

/* trace_dat_bytes.c: complains of a file that is not what it says. Return: -EBADMSG. */
int braid_dat_broken(const struct braid_trace_dat *dat, const char *what);

/* Likewise, unless something failed before. Return: in->err. */
int braid_dat_refuse(struct braid_dat_input *in, const char *what);

/* The file from a place on. */
struct braid_dat_input braid_dat_at(struct braid_trace_dat *dat, u64 at);

/* Takes bytes; a little-endian number of 1, 2, 4 or 8 bytes; a string with its NUL. */
void braid_dat_take(struct braid_dat_input *in, void *to, u64 bytes);
u64 braid_dat_number(struct braid_dat_input *in, u32 bytes);
void braid_dat_take_string(struct braid_dat_input *in, char *to, size_t size);

/* Takes bytes into new memory, with a NUL after them; NULL: it failed. */
void *braid_dat_take_new(struct braid_dat_input *in, u64 bytes);

/* What they unpack to, exactly @bytes; else it fails with @what. */
void *braid_dat_take_packed(struct braid_dat_input *in, u64 packed_bytes, u64 bytes,
			    const char *what);

#define BRAID_DAT_PLACE_SHIFT	3	/* extents are at multiples of 8, pages anywhere */

/* The lengths of a compressed chunk, which are before it. */
void braid_dat_take_lengths(struct braid_dat_input *in, u64 *packed, u64 *bytes);

/* Reads a page. Return: 0; -EBADMSG, or another -errno, with braid_fail(). */
int braid_dat_load(struct braid_trace_dat *dat, const struct braid_extent *extent, void *to,
		   u32 bytes);

/* trace_dat_tables.c: takes what one section holds; failures are in->err. */
void braid_dat_take_header(struct braid_dat_input *in);
void braid_dat_take_formats(struct braid_dat_input *in, bool ftrace);
void braid_dat_take_kallsyms(struct braid_dat_input *in);
void braid_dat_take_printk(struct braid_dat_input *in);
void braid_dat_take_comms(struct braid_dat_input *in);

/* An option of a host: one of its guests. */
void braid_dat_take_guest(struct braid_dat_input *in);
void braid_dat_free_guests(struct braid_trace_dat *dat);

/* Takes an option; gives each ring its losses. Return: 0, or -errno with braid_fail(). */
int braid_dat_take_stats(struct braid_trace_dat *dat, const char *text);
void braid_dat_spread_stats(struct braid_trace_dat *dat);

/* trace_dat_pages.c: indexes the pages. Return: 0, or -errno with braid_fail(). */
int braid_dat_index_buffer(struct braid_trace_dat *dat, u32 number);

/* trace_dat_time.c: takes an option. */
int braid_dat_take_offset(struct braid_trace_dat *dat, const char *text, s64 unit);
void braid_dat_take_scale(struct braid_dat_input *in);
void braid_dat_take_shifts(struct braid_dat_input *in);
void braid_dat_free_shifts(struct braid_dat_times *times);

/*
 * How a guest's times were shifted to its host's. @counter: they count ticks. *exact: set: to the
 * tick.
 */
const char *braid_dat_judge_shifts(const struct braid_trace_dat *dat, bool counter, bool *exact);

/* The time of a stamp, which counts ticks or ns. Return: false: out of range. */
bool braid_dat_time(const struct braid_dat_times *times, bool ticks, u32 cpu, u64 stamp, u64 *ns);

/*
 * trace_dat_guests.c: makes guests of the files whose host's is among them, by the numbers of their
 * traces: with the name and the threads that the host's lists. Return: 0, or -errno with
 * braid_fail().
 */
int braid_dat_tie_guests(struct braid_capture_source *cs);

/* Two errors that add up. */
static inline u64 braid_dat_add_bounds(u64 a, u64 b)
{
	return a == BRAID_BOUND_UNKNOWN || b == BRAID_BOUND_UNKNOWN ? BRAID_BOUND_UNKNOWN : a + b;
}

/* trace_dat_clock.c: sets each buffer's clock name; "": unknown. */
void braid_dat_name_clocks(struct braid_trace_dat *dat);

/* The clock that the file is of: its first buffer's with events in it. */
const char *braid_dat_clock(const struct braid_trace_dat *dat);

/*
 * Puts all trace.dats on the timeline, when the host's clocks are fitted.
 * Return: 0; -EXDEV when one can't be, with braid_fail().
 */
int braid_dat_place(struct braid_trace_dat *dat);

#endif /* BRAID_TRACE_TRACE_DAT_H */
