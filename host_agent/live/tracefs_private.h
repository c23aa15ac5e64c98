/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the host recording share among themselves. */
#ifndef BRAID_LIVE_TRACEFS_PRIVATE_H
#define BRAID_LIVE_TRACEFS_PRIVATE_H

#include <tracefs.h>

#include "host_agent/live/tracefs.h"
#include "host_agent/util/hash.h"

/* A pid's name, as it was seen last. */
struct braid_host_comms {
	struct braid_comm *items;
	size_t nr;
	size_t capacity;
	struct braid_hash by_pid;	/* numbers of items */
	u64 scan_ns;		/* when the last scan began */
};

/* One CPU of the instance. */
struct braid_host_cpu {
	u32 cpu;
	int fd;			/* trace_pipe_raw */
	struct braid_meta *meta;	/* mapped, or NULL: read() */
	size_t meta_bytes;
	u8 *data;		/* mapped sub-buffers */
	size_t data_bytes;
	u32 id;			/* of the sub-buffer that @page is a copy of */
	u32 page_bytes;		/* used of @page; 0: none */
	u64 page_lost;		/* events lost before it */
	u8 *page;		/* large enough for a sub-buffer */
	u64 read_ns;		/* read(): when a part was last taken; 0: never */
	u64 reported_read;	/* flight: by the snapshots before */
	u64 reported_lost;
	u32 put_bytes;		/* of @page, header included, that are in the capture already ... */
	u64 put_stamp;		/* ... and the time there */
	u64 extent_ns;		/* when the last extent was put */
	u64 complete_ns;	/* all events committed by then are written; 0: never yet */
};

#define BRAID_HOST_OWN	64u	/* threads of the recorder; further ones get no row */

struct braid_tracefs_source {
	struct braid_tracefs_options o;
	struct tracefs_instance *instance;
	char *stats;		/* path of its first CPU's */
	u32 stream;
	u32 subbuf_bytes;
	struct braid_host_cpu *cpus;
	u32 nr_cpus;
	u32 first_cpu;		/* of the next turn, for fairness */
	struct braid_host_comms comms;
	pid_t own[BRAID_HOST_OWN];	/* threads of the recorder that are in the capture */
	size_t nr_own;
	u8 *extent;		/* large enough for a sub-buffer */
	u64 bytes;
	u64 events;
	u64 lost;
	bool ended;
	u64 taken_ns;		/* the present file has all events of before */
};

/* tracefs_cpu.c ------------------------------------------------------------------------- */

/* Opens every CPU of the instance. 0 or -errno with braid_fail(). */
int braid_host_cpus_open(struct braid_tracefs_source *s);
void braid_host_cpus_close(struct braid_tracefs_source *s);

/* When a read() of a CPU takes something again. */
u64 braid_host_cpu_due_ns(const struct braid_tracefs_source *s, const struct braid_host_cpu *cpu);

/*
 * Takes up to @budget sub-buffers of a CPU. @rest: the unfinished one too.
 * Returns how many, or -errno with braid_fail().
 */
int braid_host_cpu_drain(struct braid_tracefs_source *s, struct braid_host_cpu *cpu, u32 budget,
			 bool rest);

/* tracefs_text.c ------------------------------------------------------------------------ */

/* Where tracefs is. 0 or -errno with braid_fail(). */
int braid_host_tracefs(const char **root);

/* Reads a whole file, also of /proc or tracefs; free(). NULL: cannot. @bytes: its size; or NULL. */
void *braid_host_read_file(const char *path, size_t *bytes);

/* Puts a chunk of the host's stream. */
int braid_host_emit(struct braid_tracefs_source *s, u16 type, const void *head, u32 head_bytes,
		    const void *body, u32 body_bytes);

/* Writes 1 to the enable files of matching events. Returns their number. */
u32 braid_host_switch_on(struct tracefs_instance *instance, const struct braid_pattern *patterns,
			 size_t nr_patterns);

/* Enables the matching events and writes their formats. -ENOENT: no match. */
int braid_host_enable_events(struct braid_tracefs_source *s, bool formats_only);

/* Puts header_page, printk_formats and kallsyms. */
int braid_host_put_texts(struct braid_tracefs_source *s);

/* Of a tracefs sub-buffer, by its header_page text; 0 when that is not understood. */
u32 braid_host_subbuf_bytes(const char *header_page);

/* tracefs_watch.c: the event's name in a line of trace_pipe; "unknown": the line has none. */
void braid_host_event_of_line(const char *line, char *to, size_t size);

/* tracefs_comms.c ------------------------------------------------------------------------ */

/*
 * Puts comms that are new or have changed: of tracefs' saved_cmdlines, and with
 * @all of every task in /proc. With @all, puts which threads are the recorder's, too.
 */
int braid_host_send_comms(struct braid_tracefs_source *s, bool all);
void braid_host_comms_free(struct braid_host_comms *c);

/* tracefs_stacks.c: samples the kernel's stacks. Return: whether it can. */
bool braid_host_sample_stacks(struct braid_tracefs_source *s);

#endif /* BRAID_LIVE_TRACEFS_PRIVATE_H */
