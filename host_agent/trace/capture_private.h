/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files that make a source of capture files. */
#ifndef BRAID_TRACE_CAPTURE_PRIVATE_H
#define BRAID_TRACE_CAPTURE_PRIVATE_H

#include "host_agent/capture/capture.h"
#include "host_agent/trace/capture_extents.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/hash.h"

#define BRAID_MAX_STREAMS	4096u		/* in one source */
#define BRAID_MAX_CPUS		4096u
#define BRAID_MAX_HOST_BYTES	(1u << 20)	/* of a tracefs sub-buffer */
#define BRAID_MAX_SCHEMA_BYTES	(64u << 20)	/* of format texts in one stream */
#define BRAID_MAX_TABLE		(4u << 20)	/* comms, symbols, notes in one stream */
#define BRAID_MAX_KALLSYMS	(64u << 20)	/* bytes of all streams of a file, decompressed */
#define BRAID_MAX_FILE_CPUS	(1u << 18)	/* of all streams of a file */
#define BRAID_MAX_MARKS		8192u		/* of one stream: a clock has far fewer epochs */
#define BRAID_MAX_FILES		1024u

/* What precedes an extent's bytes in its chunk. */
#define BRAID_PAGE_AT		sizeof(struct braid_chunk)
#define BRAID_PAGE_DATA_AT	(BRAID_PAGE_AT + sizeof(struct braid_chunk_page))

/* What precedes a host's sub-buffer in its chunk. */
#define BRAID_HOST_PAGE_AT	(sizeof(struct braid_chunk) + sizeof(struct braid_chunk_host_page))

struct braid_capture_source;
struct braid_capture_stream;
struct braid_trace_dat;
struct braid_dat_times;
struct braid_capture_visit;
struct braid_text;
struct braid_capture_apart;

/* The range of a ring's sequence covered by a RING_END. */
struct braid_ring_part {
	u64 from_seq;
	u64 to_seq;
	u64 reach;		/* the farthest to_seq of this part and those before it */
	u64 gaps;		/* events between parts, before this one: sum from the first part on */
	struct braid_chunk_ring_end end;
};

/* Host times of a host's CPU, the ends included. */
struct braid_span_ns {
	u32 cpu;
	s64 from_ns;
	s64 to_ns;
};

/* What all cursors over captures have in common. */
struct braid_capture_ring {
	struct braid_ring ring;
	struct braid_ring_part *parts;		/* by seq, once all is indexed */
	size_t nr_parts, parts_capacity;
	struct braid_capture_source *source;
	struct braid_extents extents;
	bool unordered;				/* extents are not in the order of the ring */
	bool back;				/* time_stamps go back; known by an index only */
	u64 bytes;				/* of the extents' chunks; likewise */
	bool types_differ;			/* from the index: it was reported */
	u32 file;				/* of the last extent */
	u64 numbers;				/* of a host: sequence numbers taken so far */
	bool own_clock;				/* a trace.dat's: not the source's clock of the trace */
	const struct braid_clock *clock;	/* but this one; NULL: its stamps are host times */
	const struct braid_dat_times *times;	/* what makes them ns before that; NULL: they are */
	bool ticks;				/* they count ticks */
	u64 own_bound_ns;			/* how far off those times may be; or
						   BRAID_BOUND_UNKNOWN */
	u64 stated_lost;			/* of a trace.dat, in all, by the kernel's count */
	struct braid_span_ns *left_out;		/* of a host: what another capture holds; in order */
	size_t nr_left_out;

	u8 *chunk;				/* what braid_capture_fetch() read */
	u32 chunk_bytes;			/* allocated */

	/* Where the cursor is: */
	struct braid_extent_cursor at;		/* the current extent */
	u32 epoch;				/* of the clock; no later event is of an earlier one */
	size_t stay;				/* of a guest that moved between hosts; likewise */
};

/* New, unprocessed data of a stream of a growing capture. */
#define BRAID_NEWS_CLOCK	(1u << 0)
#define BRAID_NEWS_TABLES	(1u << 1)
#define BRAID_NEWS_ROWS		(1u << 2)	/* threads, cgroups */

struct braid_note {
	u64 host_ns;
	u64 bound_ns;			/* of another host's clock */
	u32 order;
	char *text;
};

/* A stream, and its state while it is being assembled. */
struct braid_capture_stream {
	struct braid_stream stream;
	struct braid_capture_source *source;
	struct braid_superblock superblock;	/* GUEST: checked */
	u32 file;				/* of its STREAM chunk */
	u64 own_end_ns;				/* stream.end_ns, by its host's clock */
	u32 subbuf_bytes;			/* HOST */
	struct braid_round_trip *round_trips;
	size_t nr_round_trips, round_trips_capacity;
	bool read;				/* some are of looks at a guest's memory */
	struct braid_round_trip *exchanged;	/* NULL, or what they were before the clock was refined */
	size_t nr_exchanged;
	struct braid_clock_offset *offsets;
	size_t nr_offsets, offsets_capacity;
	struct braid_clock_mark *marks;
	size_t nr_marks, marks_capacity;
	struct braid_clock_mark *breaks;	/* disruptions, and times without samples */
	size_t nr_breaks, breaks_capacity;
	struct braid_clock_pair *pairs;
	size_t nr_pairs, pairs_capacity;
	size_t threads_capacity, others_capacity, cgroups_capacity, throttled_capacity;
	struct braid_hash accounts_by_name[BRAID_ACCOUNT_KINDS];
	size_t accounts_capacity[BRAID_ACCOUNT_KINDS];
	char **blocks;				/* memory that formats point into */
	size_t nr_blocks, blocks_capacity;
	u64 schema_bytes;
	size_t formats_capacity, comms_capacity, symbols_capacity, rings_capacity;
	struct braid_ring_leaf **ring_leaves[BRAID_MAX_BUFFERS];	/* capture_index.c: rings by CPU */
	struct braid_note *notes;
	size_t nr_notes, notes_capacity;
	u32 news;				/* BRAID_NEWS_* */
	size_t kept_comms;			/* when they were thinned out last */
	u64 taken_ns;				/* when its first page was read; 0: none yet ... */
	u64 taken_counter;			/* ... and where that begins */
	bool text_start_known;			/* by its kernel symbols: */
	u64 text_start;				/* 0: unknown */
	struct braid_capture_visit *visits;	/* of a guest */
	size_t nr_visits, visits_capacity;
	bool more_visits;			/* than these */
	size_t visit;				/* the last one that was looked for */
	size_t parts_capacity, stays_capacity;
	size_t nr_stays;			/* found; it is the stream's once all is placed */
};

/* A host, as it is known while captures are opened. */
struct braid_capture_host {
	struct braid_host host;
	u8 id[BRAID_HOST_ID_BYTES];	/* all 0: its captures do not tell */
	struct braid_chunk_file head;	/* of its first capture */
	struct braid_host_clocks clocks;	/* of all but the first host */
	u32 steps;			/* by messages, from the first host, which has 1; 0: none */
	struct braid_host_round_trips {
		struct braid_round_trip *items;
		size_t nr, capacity;
	} round_trips[BRAID_HOST_CLOCK_KINDS];	/* by enum braid_host_clock_kind */
	struct braid_capture_peer {	/* what it says of messages to and from another one */
		u8 id[BRAID_HOST_ID_BYTES];
		struct braid_peer_crossing *items;
		size_t nr, capacity;
	} *peers;
	size_t nr_peers, peers_capacity;
	struct braid_capture_declared {	/* what a source declares of its time */
		struct braid_declared_time *items;
		size_t nr, capacity;
		u32 flags;		/* of any of them */
		double bound_ns;	/* mean */
		struct braid_clock clock;	/* of UTC, on the host's; no tracks: none */
		bool contradicts_itself;
		bool lies;
	} declared[BRAID_DECLARED_KINDS];
	int tie_err;			/* of its tie by messages; 1: of a part of the time */
	bool proven;			/* its tie is by messages; or it is the first host */
	s64 first_ns, last_ns;		/* when it was recorded, by its clock */
	s64 end_ns;			/* the latest one of its streams, likewise; 0: not known */
};

struct braid_capture_source {
	struct braid_source source;
	void (*say)(void *arg, const char *line);	/* NULL: not reported */
	void *say_arg;
	size_t nr_files;
	struct braid_window_edges {		/* of each of the source's windows */
		u32 file;
		bool noted_start, noted_stop;
	} *edges;
	size_t edges_capacity, windows_capacity;
	u32 file;				/* being indexed */
	const char *path;
	struct braid_capture_file {		/* both are NULL if it was given before: */
		struct braid_capture_reader *reader;	/* NULL for a trace.dat */
		struct braid_trace_dat *dat;	/* NULL for a capture */
		bool is_dat;
		u16 minor;			/* of its version */
		u32 host;			/* number of its host */
		u64 device, inode;		/* what it is known by */
		struct braid_capture_stream **by_number;	/* as the file numbers them */
		size_t nr;
		size_t window;		/* number of its window + 1; 0: none */
		bool by_index;		/* pages were not read at open; each is checked when read */
	} *files;
	u64 kallsyms_bytes;			/* of that file's streams, decompressed */
	u64 nr_cpus;				/* of that file's streams */
	struct braid_extents others;		/* that file's chunks other than pages */
	struct braid_index_block *blocks;	/* its INDEX chunks */
	size_t nr_blocks, blocks_capacity;
	bool index_agrees;			/* what was read with its INDEX chunks */
	u64 types_at;				/* after the last of them, which has: */
	u32 types_nr;				/* places */
	struct braid_types_page *types;		/* NULL: they are not checked */
	struct braid_capture_stream **guests;	/* by incarnation and boot */
	size_t nr_guests, guests_capacity;
	bool force_clock;
	enum braid_clock_kind clock;
	bool may_trust;				/* files' indexes */
	u32 keep_samples;		/* of each clock, while the source grows */
	bool unordered;
	double wander;
	const struct braid_capture_apart *apart;	/* NULL: none is known */
	struct braid_capture_apart *twins;	/* found: it must be opened again with these */
	const struct braid_packet_pairs *packets;	/* NULL: not known yet */
	size_t hosts_capacity;
	size_t streams_capacity;
	size_t nr_followed;			/* of a growing capture's streams: known to all */
	u32 next_order;				/* likewise, of its rings */
};

/* capture_open.c: an empty source. NULL: out of memory. */
struct braid_capture_source *braid_capture_new(const struct braid_source_options *options);

/* One chunk, by its type. Return: 0 or -ENOMEM. */
int braid_capture_take_chunk(struct braid_capture_source *cs, const struct braid_chunk_view *v);

/* The file is read up to its end. */
void braid_capture_report_damage(struct braid_capture_source *cs, const char *path,
				 const struct braid_capture_damage *d);

/* A later incarnation of a guest knows the one before. Return: 0 or -ENOMEM. */
int braid_capture_link(struct braid_source *source);

/*
 * capture_by_index.c: opens the current file by its index, without its pages. Return: 1; 0: it has
 * none that can be used, and nothing was done; -errno with braid_fail().
 */
typedef int braid_take_chunk_fn(struct braid_capture_source *cs, const struct braid_chunk_view *v);
int braid_capture_by_index(struct braid_capture_source *cs, braid_take_chunk_fn *take_chunk);

/* While all chunks are read: any; INDEX, INDEX_BLOCKS; before each file. Return: 0 or -ENOMEM. */
int braid_capture_note_other(struct braid_capture_source *cs, const struct braid_chunk_view *v);
int braid_capture_take_index(struct braid_capture_source *cs, const struct braid_chunk_view *v);
void braid_capture_take_blocks(struct braid_capture_source *cs, const struct braid_chunk_view *v);
void braid_capture_end_index(struct braid_capture_source *cs);

/* Whether a file's index has the sequence numbers of a host's events. */
static inline bool braid_capture_numbers_hosts(const struct braid_capture_source *cs, u32 file)
{
	return !cs->source.grows && cs->files[file].minor >= 6;
}

/*
 * capture_page.c: whether the @nr places of an INDEX chunk, @n bytes, are of pages that can be.
 * *bytes: their chunks' are added.
 */
struct braid_places {
	struct braid_extent first, last;
	bool unordered;			/* among themselves; of a guest's ring */
	u64 bytes;			/* of their chunks */
};
bool braid_capture_check_places(const char *data, u32 n, u32 nr, enum braid_stream_kind kind,
				u64 limit, u64 *bytes, struct braid_places *places);

/* Two extents of a guest's ring; the order of all, as qsort_r() has it, from *(u64 *)@arg on. */
bool braid_capture_in_order(const struct braid_extent *before, const struct braid_extent *extent);
int braid_capture_by_position(const void *a, const void *b, void *arg);

/* Why a PAGE or HOST_PAGE is not valid, or NULL. @bytes: with its head. */
const char *braid_capture_page_fault(const struct braid_capture_stream *s,
				     const struct braid_chunk_page *page, u32 bytes);
const char *braid_capture_host_page_fault(const struct braid_capture_stream *s,
					  const struct braid_chunk_host_page *page, u32 bytes);

/* Reads a ring's (@arg) INDEX chunk, for its extents. Bytes, or -errno with braid_fail(). */
s64 braid_capture_read_places(void *arg, const struct braid_index_place *place, char **to,
			      struct braid_extents_types **types);

/*
 * Whether a page that was not read before is that of the index: @to: struct braid_chunk and @bytes.
 * Return: 0, -EBADMSG with braid_fail().
 */
int braid_capture_check_page(const struct braid_capture_ring *ring, u32 file, const void *to, u32 bytes);

/*
 * capture_types.c: moves the cursor over whole pages of left-out types, if the index is trusted.
 * Nothing lost is unreported; of a guest's ring: its clock has one epoch, and the sub-buffer at
 * @position is decoded up to @covered; @part as for braid_capture_find_part().
 */
void braid_capture_pass_guest(struct braid_capture_ring *ring, u64 position, u32 covered,
			      size_t *part);
void braid_capture_pass_host(struct braid_capture_ring *ring);

/* Whether a page that was just fetched has the types that the index says; false once for a ring. */
bool braid_capture_has_types(struct braid_capture_ring *ring, const void *chunk);

/* While all chunks are read: TYPES. */
void braid_capture_take_types(struct braid_capture_source *cs, const struct braid_chunk_view *v);

/* capture_join.c: whether a file was given before; it is then skipped and reported. */
bool braid_capture_given_before(struct braid_capture_source *cs, char *const *paths, u32 file);

/*
 * Skips host events of captures at times covered by a capture named before them. The host's clocks
 * are fitted. Return: 0 or -errno with braid_fail(), except -ENOMEM.
 */
int braid_capture_join_hosts(struct braid_capture_source *cs, char *const *paths);

/* capture_stream.c: chunks that describe a stream. Return: 0 or -ENOMEM. */
int braid_capture_take_stream(struct braid_capture_source *cs, const struct braid_chunk_view *v);
int braid_capture_take_buffer(struct braid_capture_stream *s, const struct braid_chunk_view *v);
int braid_capture_take_events(struct braid_capture_stream *s, const struct braid_chunk_view *v);
int braid_capture_take_table(struct braid_capture_stream *s, const struct braid_chunk_view *v);
int braid_capture_keep_printk(struct braid_capture_stream *s, const void *text, u32 bytes);
int braid_capture_take_text(struct braid_capture_stream *s, const struct braid_chunk_view *v);
/* symbols.c: a host's kernel symbols, as they are stored. Return: 0 or -ENOMEM. */
int braid_capture_take_kallsyms(struct braid_capture_stream *s, u32 raw_bytes, const u8 *data,
				u32 bytes);

void braid_capture_take_end(struct braid_capture_stream *s, const struct braid_chunk_view *v);
struct braid_capture_stream *braid_capture_stream_of(struct braid_capture_source *cs, u32 number);
void braid_capture_sort_tables(struct braid_capture_stream *s);

/* A new, empty stream. NULL: out of memory. */
struct braid_capture_stream *braid_capture_add_stream(struct braid_capture_source *cs);

/* An event's format, as tracefs has it. Return: 0 or -ENOMEM. */
int braid_capture_add_format(struct braid_capture_stream *s, const char *system, const void *text,
			     u32 bytes);
void braid_capture_free_stream(struct braid_capture_stream *s);

/*
 * capture_notes.c: takes a note of the capture; adds those of a stream's clock, which is
 * fitted, and sorts all. Return: 0 or -ENOMEM.
 */
int braid_capture_take_note(struct braid_capture_stream *s, const struct braid_chunk_view *v);
int braid_capture_finish_notes(struct braid_capture_stream *s);

/* Moves those of a part to its stream, both are placed; then they are to be sorted. Likewise. */
int braid_capture_move_notes(struct braid_capture_stream *s, struct braid_capture_stream *part);
void braid_capture_sort_notes(struct braid_capture_stream *s);

/* "2.013 s", "3.2 ms" */
void braid_capture_put_duration(struct braid_text *t, u64 ns);

/*
 * capture_window.c: takes a start or stop of the recording; adds the pending ones as notes to the
 * first stream, once there is one. Return: 0 or -ENOMEM.
 */
int braid_capture_take_window(struct braid_capture_source *cs, const struct braid_chunk_view *v);
int braid_capture_note_windows(struct braid_capture_source *cs);

/* When the recording of a file stopped, or went on in another file; INT64_MAX: not known. */
s64 braid_capture_window_stop(struct braid_capture_source *cs, u32 file);

/* Something of a file was recorded at a time: its recording did not end before. */
void braid_capture_note_recorded(struct braid_capture_source *cs, u32 file, u64 ns);

/* Ties each window to the streams of its file, once all files are indexed. Return: 0 or -ENOMEM. */
int braid_capture_tie_windows(struct braid_capture_source *cs);

/* capture_notes.c: adds one. Return: 0 or -ENOMEM. */
int braid_capture_add_note(struct braid_capture_stream *s, u64 host_ns, const char *text,
			   size_t bytes);

/*
 * capture_hosts.c: finds the host of a file whose reader is open, by its id or head: sets ->host.
 * Return: 0, or -errno with braid_fail().
 */
int braid_capture_find_host(struct braid_capture_source *cs, u32 file, const char *path,
			    const struct braid_chunk_file *head);

/* Takes PEER. Return: 0 or -ENOMEM. */
int braid_capture_take_peer(struct braid_capture_source *cs, const struct braid_chunk_view *v);

/* A packet went from a host to another one: by the clock of each. */
struct braid_packet_pairs {
	struct braid_packet_pair {
		u32 from, to;		/* numbers of hosts */
		s64 sent_ns, received_ns;
	} *items;
	size_t nr, capacity;
};

/* capture_packets.c: whether there are several hosts, and some recorded packets. */
bool braid_capture_has_packets(const struct braid_source *source);

/* Return: 0, or -errno with braid_fail(). */
int braid_capture_pair_packets(struct braid_source *source, struct braid_packet_pairs *pairs);

/* The pairs of two hosts, in both directions; @pairs: or NULL, then there are none. */
const struct braid_packet_pair *braid_packet_pairs_of(const struct braid_packet_pairs *pairs,
						      u32 a, u32 b, size_t *nr);

/* capture_declared.c. Return: 0 or -ENOMEM. */
int braid_capture_take_declared(struct braid_capture_source *cs, const struct braid_chunk_view *v);

/* Finds which sources can be used, when it is known which ties are proven. Return: 0 or -ENOMEM. */
int braid_capture_fit_declared(struct braid_capture_source *cs);

/* Ties a host to the first one by what both declare. Return: as braid_clock_wander(). */
int braid_capture_tie_declared(struct braid_capture_source *cs, struct braid_capture_host *host);

/* Whether a host has a source that can be used; and why not. */
bool braid_capture_declares(const struct braid_capture_host *host);
void braid_capture_declared_lack(const struct braid_capture_host *host, char *text, size_t size);

void braid_capture_free_declared(struct braid_capture_host *host);

/*
 * Puts all hosts on the timeline: first finds their clocks on it; then, with all their own clocks
 * fitted, changes what is known of their streams and windows to it. Return: 0 or -errno with
 * braid_fail().
 */
int braid_capture_tie_hosts(struct braid_capture_source *cs);

/* A time by another host's clock, on the timeline. */
static inline struct braid_clock_time braid_capture_tied(const struct braid_clock *tie, s64 ns)
{
	return braid_clock_convert(tie, 0, (u64)ns, BRAID_TAKEN_UNKNOWN, 0);
}

/* capture_place.c: what follows from it. */
void braid_capture_place_hosts(struct braid_capture_source *cs);

/* The range on the timeline of a time by another host's clock. */
struct braid_capture_range {
	s64 ns;				/* where it is, without its own bound */
	s64 from_ns, to_ns;		/* INT64_MIN, INT64_MAX: unknown */
	bool sure;
};
struct braid_capture_range braid_capture_tied_range(const struct braid_clock *tie, s64 ns,
						    u64 bound_ns);

/* A stream's clock was fitted: its bound on the timeline includes that of its host's clock. */
void braid_capture_add_tie(struct braid_capture_stream *s);

/* Converts a sample's times to the stream's host's clock. Return: whether they are known. */
bool braid_capture_own_sample(const struct braid_stream *stream, struct braid_clock_sample *sample);

void braid_capture_free_hosts(struct braid_capture_source *cs);

static inline struct braid_capture_host *braid_capture_host(const struct braid_capture_source *cs,
							    u32 host)
{
	static_assert(offsetof(struct braid_capture_host, host) == 0, "cast");
	return (struct braid_capture_host *)cs->source.hosts[host];
}

/* The host of the file that is being indexed, or that a stream is of; and its clocks. */
static inline struct braid_capture_host *
braid_capture_host_now(const struct braid_capture_source *cs)
{
	return braid_capture_host(cs, cs->files[cs->file].host);
}

static inline struct braid_host_clocks *braid_capture_clocks(struct braid_capture_source *cs,
							     u32 host)
{
	return host ? &braid_capture_host(cs, host)->clocks : &cs->source.clocks;
}

static inline struct braid_host_clocks *
braid_capture_stream_clocks(const struct braid_capture_stream *s)
{
	return braid_capture_clocks(s->source, s->source->files[s->file].host);
}

/* A time of the timeline by a ring's host's clock, or some before; INT64_MIN: not known. */
s64 braid_capture_own_ns(const struct braid_capture_ring *ring, s64 ns);

/* capture_clock.c: chunks with clock data. Return: 0 or -ENOMEM. */
int braid_capture_take_clock(struct braid_capture_stream *s, const struct braid_chunk_view *v);
int braid_capture_take_host_clock(struct braid_capture_source *cs, const struct braid_chunk_view *v);

/* capture_quota.c: chunks about CPU time that was held back; others are left out. Likewise. */
int braid_capture_take_quota(struct braid_capture_stream *s, const struct braid_chunk_view *v);

/* capture_accounts.c: takes accounts of a guest's filters and probes; frees them. Likewise. */
int braid_capture_take_accounts(struct braid_capture_stream *s, const struct braid_chunk_view *v);
void braid_capture_free_accounts(struct braid_capture_stream *s);

/* Sorts a stream's threads without vCPU, and its cgroups. */
void braid_capture_sort_rows(struct braid_capture_stream *s);

/* Fits the hosts' clocks, which must be first; and a stream's. Return: 0 or -ENOMEM. */
int braid_capture_fit_host(struct braid_capture_source *cs);
int braid_capture_fit_clock(struct braid_capture_stream *s);
void braid_capture_free_clock(struct braid_capture_stream *s);

/* capture_pairs.c: those of a chunk: 0 or -ENOMEM; and those in a guest's rings: 0 or -errno. */
int braid_capture_take_pairs(struct braid_capture_stream *s, const struct braid_chunk_view *v);
int braid_capture_find_pairs(struct braid_capture_stream *s);

/* capture_index.c: chunks that belong to a ring */
int braid_capture_take_page(struct braid_capture_stream *s, const struct braid_chunk_view *v);
int braid_capture_take_host_page(struct braid_capture_stream *s, const struct braid_chunk_view *v);
int braid_capture_take_ring_end(struct braid_capture_stream *s, const struct braid_chunk_view *v);
/* The ring of a buffer and CPU: whether there can be one; made at first use; NULL: out of memory */
bool braid_capture_has_ring(const struct braid_capture_stream *s, u32 buffer, u32 cpu);
struct braid_capture_ring *braid_capture_ring_of(struct braid_capture_stream *s, u32 buffer, u32 cpu);

/* The same if it was made, or NULL. */
struct braid_capture_ring *braid_capture_ring_at(const struct braid_capture_stream *s, u32 buffer,
						 u32 cpu);
/* Called before an extent of the current file, or a block of them, is added to the ring. */
void braid_capture_note_file(struct braid_capture_ring *ring);

int braid_capture_sort_extents(struct braid_capture_source *cs);
void braid_capture_free_leaves(struct braid_capture_stream *s);

/* Rings by kind. Return: the ring, NULL when memory is out. */
struct braid_capture_ring *braid_capture_guest_ring(struct braid_capture_stream *s, u32 buffer,
						    u32 cpu);
struct braid_capture_ring *braid_capture_host_ring(struct braid_capture_stream *s, u32 cpu);
struct braid_capture_ring *braid_capture_note_ring(struct braid_capture_stream *s);

/*
 * capture_host.c: whether the stamps of a host's pages are host times, since the trace has the
 * file's clock, and the index has the sequence number of the first event of each.
 */
bool braid_capture_host_can_skip(const struct braid_capture_ring *ring);

/* capture_ring.c ------------------------------------------------------------------- */

/* Counts an event that no RING_END accounts for; @part: the first that ends after it, moved on. */
void braid_capture_find_part(struct braid_capture_ring *base, size_t *part, u64 seq);

/*
 * Adds a ring to its stream, before the notes' ring: @bytes, all 0, which begin with struct
 * braid_capture_ring. NULL: out of memory.
 */
void *braid_capture_add_ring(struct braid_capture_stream *s, size_t bytes, u32 cpu,
			     const struct braid_ring_ops *ops);
void braid_capture_free_ring(struct braid_capture_ring *ring);

/* Back to the start; @bytes at @cursor are where the ring's own cursor is, and become 0. */
void braid_capture_rewind(struct braid_capture_ring *ring, void *cursor, size_t bytes);

/* Events of [from, to) that are in no known part: others read them. */
u64 braid_capture_elsewhere(const struct braid_capture_ring *ring, u64 from, u64 to);

/* BRAID_BUFFER_* of a page: those of minor 0 do not say them, as the stream's buffers were. */
u32 braid_capture_page_flags(const struct braid_capture_source *cs,
			     const struct braid_extent *extent,
			     const struct braid_chunk_page *page, u32 stream_flags);

/* Reads an extent's chunk into ->chunk: its header and @bytes of payload, which is all of it. */
int braid_capture_fetch(struct braid_capture_ring *ring, const struct braid_extent *extent,
			u32 bytes);

/* Whether one model gives all times of a guest. */
static inline bool braid_capture_is_plain(const struct braid_stream *stream)
{
	return !stream->nr_stays && braid_clock_epochs(&stream->clock) <= 1;
}

/* Whether times tell which of a ring's pages can be left out. */
bool braid_capture_can_skip(const struct braid_capture_ring *ring);

/* Moves a cursor to some blocks of the index before @ns. Return: whether it has moved. */
bool braid_capture_skip(struct braid_capture_ring *ring, s64 ns, bool first);

/*
 * The same from there on, to some pages before it. @before: whether a page begins before @ns, by
 * the first @bytes of its chunk's payload, at most BRAID_PAGE_HEAD.
 */
#define BRAID_PAGE_HEAD	sizeof(struct braid_chunk_page)
bool braid_capture_skip_pages(struct braid_capture_ring *ring, s64 ns, u32 bytes,
			      bool (*before)(const struct braid_capture_ring *ring,
					     const void *head, s64 ns));

#endif /* BRAID_TRACE_CAPTURE_PRIVATE_H */
