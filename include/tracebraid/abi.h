/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The region: every byte that a guest and its host share. This header is the specification. */
#ifndef TRACEBRAID_ABI_H
#define TRACEBRAID_ABI_H

#include "tracebraid/mailbox.h"

/*
 * One contiguous range of shared memory, whatever the transport. All words are
 * little endian, naturally aligned, and 0 where reserved. "G" is written by the
 * guest alone, "H" by the host alone, "C" by both with compare-and-swap, "R" by
 * the ring's reader, whichever side that is.
 *
 *   0x0000 +------------------------------+
 *          | struct braid_superblock    G |  what is where; state; identity
 *   0x1000 +------------------------------+
 *          | struct braid_mailbox     H+G |  commands of the host, answers of the guest
 *   0x2000 +------------------------------+
 *          | struct braid_clock_cells H+G |  the exchange that ties the two clocks
 *   0x3000 +------------------------------+
 *          | comm table                 G |  pid -> comm, with the time it became true
 *          +------------------------------+
 *          | symbol table               G |  address -> name, for printing
 *          +------------------------------+
 *          | event directory            G |  ids, names, format texts
 *          +------------------------------+
 *          | stack table                G |  stacks that events refer to: see stack.h
 *          +------------------------------+
 *          | buffer 0, vCPU 0             |  private_bytes, in whole pages:
 *          |   struct braid_ring_private  |
 *          |   u64 slot[nr_slots]       C |    the slot table
 *          |   struct braid_subbuf_state  |    one for each sub-buffer
 *          |                              |  then what user space maps:
 *          |   struct braid_meta          |    one page (= struct trace_buffer_meta, then zeros)
 *          |   sub-buffer 0             G |    data = meta + meta_page_size
 *          |   sub-buffer 1             G |           + id * subbuf_size
 *          |   ...                        |
 *          +------------------------------+
 *          | buffer 0, vCPU 1 ...         |
 *          +------------------------------+
 *
 * Sections are page aligned and never overlap; their places are in the superblock.
 */

#define BRAID_MAGIC		0x4449415242435254ULL	/* the bytes "TRCBRAID" */
/*
 * The host's invitation, in place of the magic: a driver lays out a region in host memory only if
 * that memory begins with this mark or with the magic of a former region.
 */
#define BRAID_MARK		0x4B52414D42435254ULL	/* the bytes "TRCBMARK" */
#define BRAID_VERSION_MAJOR	1	/* a reader refuses another major */
/*
 * A reader accepts any minor. 1: vCPUs, poll samples and the wall pair's source in the clock cells;
 * sub-buffers begin with a TIME_STAMP. 2: the wake words of the mailbox. 3, which readers of less
 * refuse: the private part of a ring precedes its meta page; braid_buffer_desc.private_bytes; a
 * sub-buffer's state has dropped_before, and its first_seq, dropped_before and dropped hold before
 * its predecessor is final; the counter may jump back between sub-buffers; wall_flags. 4, which
 * readers of 3 refuse: meta pages and private parts are multiples of the guest's page size, if that
 * is larger than BRAID_PAGE_BYTES. 5: poll_marker, poll_flags, vm_* in the clock cells; off_* of a
 * ring; BRAID_TEXT_ID. 6: filters. 7: probes, reasons. 8: triggers, RESHAPE. 9: CHOOSE, cgroups.
 * 10: SAMPLE. 11: STACKS, the table of stacks. 12: names of a probe's arguments, HITS,
 * BRAID_ONLY_SEEN.
 */
#define BRAID_VERSION_MINOR	12

#define BRAID_PAGE_BYTES	4096u
#define BRAID_MAX_PAGE_BYTES	65536u	/* of a guest's page */
#define BRAID_CACHELINE_BYTES	64u

/* Superblock ---------------------------------------------------------------- */

/*
 * State of the region, in braid_superblock.state:
 *
 *   mark --driver loads--> INIT --layout done--> LIVE --driver unloads--> DOWN
 *
 * INIT: nothing but magic, version, state and incarnation means anything.
 * LIVE: the guest writes. A guest that died stays LIVE; its heartbeat stops.
 * DOWN: the guest wrote its last word; everything committed is still there.
 */
enum braid_region_state {
	BRAID_STATE_INIT = 1,
	BRAID_STATE_LIVE = 2,
	BRAID_STATE_DOWN = 3,
};

enum braid_counter_type {
	BRAID_COUNTER_TSC = 1,		/* x86 time stamp counter */
	BRAID_COUNTER_CNTVCT = 2,	/* arm64 virtual counter */
	BRAID_COUNTER_SYNTHETIC = 3,	/* tests: counter_hz gives the unit */
	BRAID_COUNTER_TSC_EMULATED = 4,	/* of QEMU's TCG: occasionally runs slightly ahead */
};

enum braid_section_id {
	BRAID_SECTION_MAILBOX = 0,
	BRAID_SECTION_CLOCK = 1,
	BRAID_SECTION_COMMS = 2,
	BRAID_SECTION_SYMBOLS = 3,
	BRAID_SECTION_DIRECTORY = 4,
	BRAID_SECTION_RINGS = 5,
	BRAID_SECTION_STACKS = 6,	/* since minor 11, between DIRECTORY and RINGS */
	BRAID_NR_SECTIONS = 8,
};

struct braid_section {
	u64 offset;			/* bytes from the region's start */
	u64 bytes;			/* 0: section absent */
};

/* braid_buffer_desc.flags */
#define BRAID_BUFFER_OVERWRITE	(1u << 0)	/* flight recorder; else producer/consumer */
#define BRAID_BUFFER_ABSOLUTE	(1u << 1)	/* time_delta holds the counter's 27 low bits */
#define BRAID_BUFFER_RAW	(1u << 2)	/* payloads are bytes, without struct braid_record */
#define BRAID_BUFFER_CLOSING	(1u << 3)	/* no longer written; soon reused */

#define BRAID_NAME_BYTES	32
#define BRAID_MAX_BUFFERS	32

/*
 * One buffer: nr_rings rings of one shape, ring_stride bytes apart. Buffers come and go while the
 * region is LIVE. An entry belongs to one name for a whole incarnation: a buffer that is freed and
 * recreated, or resized, keeps its entry; its rings continue with the next position and sequence
 * number, and layout is incremented.
 */
struct braid_buffer_desc {
	char name[BRAID_NAME_BYTES];
	u32 flags;
	u32 subbuf_bytes;		/* of one sub-buffer, its 16-byte header included */
	u32 nr_slots;			/* power of two; a ring has nr_slots + 1 sub-buffers */
	u32 meta_bytes;			/* of one meta page: the guest's page size; before minor 3,
					   a multiple of BRAID_PAGE_BYTES */
	u64 rings_offset;		/* of ring 0, from the region's start */
	u64 ring_stride;
	u32 nr_rings;			/* one per possible vCPU; 0: no rings at present */
	u32 layout;			/* incremented each time the rings are placed */
	u32 events_of;			/* index of the buffer whose directory entries define its
					   ids */
	u32 private_bytes;		/* of a ring's private part, which precedes its meta page; 0
					   (before minor 3): inside the meta page */
	u64 reserved[2];
};

struct braid_superblock {
	u64 magic;
	u16 version_major;
	u16 version_minor;
	u32 state;			/* enum braid_region_state */
	u64 incarnation;		/* different at each init, never 0 */
	u64 features;			/* none defined yet: 0 */
	u64 region_bytes;
	u32 nr_vcpus;			/* possible, not online */
	u32 counter_type;		/* enum braid_counter_type */
	u64 counter_hz;
	u64 init_counter;		/* the counter at init */
	u8 boot_id[16];			/* as /proc/sys/kernel/random/boot_id */
	char guest_name[64];		/* nodename */
	char kernel_release[64];
	char machine[32];
	struct braid_section sections[BRAID_NR_SECTIONS];
	u32 nr_buffers;			/* used entries of buffers[]; some may be free again */
	u32 buffers_seq;		/* odd while buffers[] and nr_buffers change */
	struct braid_buffer_desc buffers[BRAID_MAX_BUFFERS];
};

/* Polling ----------------------------------------------------------------------- */

/* A live guest polls the mailbox and the clock cells at least this often. */
#define BRAID_POLL_MS		50u	/* no agent present; before minor 1: 250 */
#define BRAID_POLL_ACTIVE_MS	20u	/* agent_heartbeat advances */

/* Clock cells ------------------------------------------------------------------ */

/* braid_clock_cells.wall_source: the owner of the wall pair's CLOCK_REALTIME */
enum braid_pair_source {
	BRAID_PAIR_UNKNOWN = 0,		/* no pair yet, or a guest of minor 0: its own */
	BRAID_PAIR_GUEST_REALTIME = 1,
	BRAID_PAIR_HOST_REALTIME = 2,	/* by KVM's clock pairing */
};

/* braid_clock_cells.wall_flags, from minor 3 on */
#define BRAID_WALL_TSC_UNSTABLE	(1u << 0)	/* marked so by the guest's kernel; never cleared */

/* braid_clock_cells.poll_flags: poll_marker was the same before and after poll_counter was read */
#define BRAID_POLL_MARKER	(1u << 0)
/* braid_clock_cells.vm_flags: what the guest's vmclock page provides */
#define BRAID_VM_TIME		(1u << 0)	/* vm_time_ns, of vm_time_type */
#define BRAID_VM_BOUND		(1u << 1)	/* vm_bound_ns */
#define BRAID_VM_GENERATION	(1u << 2)	/* vm_generation */
/* As in the kernel's vmclock-abi.h, from 0; UTC and TAI are since 1970 */
enum braid_vm_time_type {
	BRAID_VM_UTC, BRAID_VM_TAI, BRAID_VM_MONOTONIC, BRAID_VM_TIME_TYPES
};
enum braid_vm_status {
	BRAID_VM_UNKNOWN, BRAID_VM_INITIALIZING, BRAID_VM_SYNCHRONIZED, BRAID_VM_FREERUNNING,
	BRAID_VM_UNRELIABLE, BRAID_VM_STATUSES
};

/*
 * Ping-pong. The host sets burst to a new number and waits until ready equals it; the guest then
 * spins for a short time. For each ping the host reads its clock (h1), then stores ping; the guest
 * sees it, reads its counter, stores pong_counter and pong_vcpu, then pong = ping; the host sees
 * pong and reads its clock again (h2). Whatever the delays: h1 <= (host time of pong_counter) <=
 * h2.
 *
 * Poll sample. The host stores its clock in host_ns periodically. At each poll the guest loads
 * host_ns, then reads its counter, and stores both. For a host that reads them at h2: poll_host_ns
 * <= (host time of poll_counter) <= h2. guest_heartbeat is stored before (docs/clock.md, "Reads").
 *
 * A vCPU is encoded as its number + 1; 0: unknown (minor 0).
 */
struct braid_clock_cells {
	/* H */
	u64 burst;
	u64 ping;
	u64 host_ns;			/* the host's clock when it stored this; 0: none */
	u32 burst_vcpu;			/* stored before burst: the vCPU asked to answer, 0: any. A
					   hint: an offline vCPU cannot; pong_vcpu identifies the
					   one that did */
	u32 reserved0;
	u64 burst_over;			/* the burst that the host has ended */
	u8 reserved5[BRAID_CACHELINE_BYTES - 40];
	/* G, at 64 */
	u64 ready;
	u64 pong_counter;
	u64 pong;
	u32 pong_vcpu;			/* where pong_counter was read; stored before pong */
	u8 reserved1[BRAID_CACHELINE_BYTES - 28];
	/* G, at 128: wall time that belongs to a counter value; even wall_seq = stable, 0 = none */
	u32 wall_seq;
	u32 wall_source;		/* enum braid_pair_source: source of wall_realtime_ns */
	u64 wall_counter;
	u64 wall_realtime_ns;
	u64 wall_boottime_ns;		/* always the guest's own */
	u32 wall_flags;			/* BRAID_WALL_* */
	u8 reserved3[BRAID_CACHELINE_BYTES - 36];
	/* G, at 192: the guest's last poll sample; even poll_seq = stable, 0 = none */
	u32 poll_seq;
	u32 poll_vcpu;			/* where poll_counter was read */
	u64 poll_host_ns;		/* host_ns as loaded; 0: the host stored none */
	u64 poll_counter;		/* read after that load */
	u64 poll_marker;		/* vmclock's disruption marker at poll_counter */
	u32 poll_flags;			/* BRAID_LOOK_* */
	u8 reserved4[BRAID_CACHELINE_BYTES - 36];
	/* G, at 256: vmclock, renewed with the wall pair; even vm_seq = stable, 0 = none */
	u32 vm_seq;
	u32 vm_flags;			/* BRAID_VM_* */
	u64 vm_marker;			/* the disruption marker */
	u64 vm_counter;			/* read while the page had these values */
	u64 vm_time_ns;			/* the page's time at vm_counter */
	u64 vm_bound_ns;		/* the maximum error that the page states for vm_time_ns */
	u64 vm_generation;		/* changes where the guest was loaded from a snapshot */
	u32 vm_changes;			/* of the marker, that this driver has seen */
	u8 vm_time_type, vm_status;	/* enum braid_vm_time_type, enum braid_vm_status */
	u8 reserved6[BRAID_CACHELINE_BYTES - 54];
};

/* The section of a guest of minor 0 ends here; zeros follow in its page. */
#define BRAID_CLOCK_CELLS_LEAST	offsetof(struct braid_clock_cells, poll_seq)

/* Comm table ---------------------------------------------------------------------- */

#define BRAID_COMM_BYTES	16

/* Direct mapped: entry pid % nr_entries. Even seq = stable, 0 = never used. */
struct braid_comm {
	u32 seq;
	s32 pid;
	u64 since_counter;		/* the counter when pid took this comm; 0: before the driver
					   loaded */
	char comm[BRAID_COMM_BYTES];
};

struct braid_comm_table {
	u64 generation;			/* incremented at each change */
	u32 nr_entries;
	u32 reserved0;
	u64 reserved[6];
	struct braid_comm entries[];
};

/* Symbol table ---------------------------------------------------------------------- */

#define BRAID_SYMBOL_BYTES	56

struct braid_symbol {
	u64 address;
	char name[BRAID_SYMBOL_BYTES];	/* "symbol+0x1/0x2" or "symbol+0x1/0x2 [module]" */
};

/* Append only: entries [0, nr_used) are complete and final. */
struct braid_symbol_table {
	u32 nr_used;			/* stored with release */
	u32 nr_entries;			/* capacity */
	u64 missed;			/* addresses that did not fit: a lower bound */
	u64 reserved[6];
	struct braid_symbol entries[];
};

/* Event directory --------------------------------------------------------------------- */

/* braid_dir_entry.flags, rewritten as events come and go */
#define BRAID_EVENT_GUEST_ON	(1u << 0)	/* enabled in the guest */
#define BRAID_EVENT_HOST_ON	(1u << 1)	/* enabled through the mailbox */
#define BRAID_EVENT_GONE	(1u << 2)	/* unregistered: the id may be reassigned, and the
						   same event may reuse this entry */
/*
 * A sub-event: records of the event with this id whose number field, an unsigned little endian
 * integer in the record, has this sub-event's value. The field's place is never rewritten.
 */
#define BRAID_EVENT_SUB		(1u << 3)
#define BRAID_SUB_BYTES_SHIFT	8	/* of the number: 1, 2, 4 or 8; 0: not in the record */
#define BRAID_SUB_BYTES_MASK	0xfu
#define BRAID_SUB_OFFSET_SHIFT	16	/* from the start of struct braid_record */
#define BRAID_TEXT_ID		0xffffu	/* of an entry that is a text */

/*
 * Entries follow one another, each 8-byte aligned, in [0, bytes_used) of data[].
 * The strings follow the entry: system, name, format; each with its NUL.
 * An entry with system "" and id BRAID_TEXT_ID is no event but a text, GONE for earlier readers:
 * "printk_formats", tracefs's file of that name, has the constant texts that a %s may point to.
 */
struct braid_dir_entry {
	u32 bytes;			/* to the next entry, a multiple of 8 */
	u32 flags;
	u16 id;				/* unique among one buffer's registered events, never 0; a
					   sub-event has its event's id */
	u16 buffer;			/* index in the superblock */
	u16 system_bytes;		/* each with its NUL */
	u16 name_bytes;
	u32 format_bytes;
	u32 number;			/* of a sub-event; else 0 */
	char strings[];
};

struct braid_directory {
	u32 bytes_used;			/* stored with release */
	u32 nr_entries;
	u64 generation;			/* incremented at each change, of flags too */
	u64 nr_reused;			/* GONE entries that were reused; since minor 3 */
	u64 reserved[5];
	u8 data[];
};

/* Rings --------------------------------------------------------------------------------- */

/*
 * A ring has one reader at a time: "R". The owner is in reader_owner: the host's agent or a reader
 * in the guest. An agent may replace NONE, HOST left by a dead agent (a file lock excludes a live
 * one), or GUEST of a guest that is silent or DOWN. The guest may replace NONE, or HOST when
 * agent_heartbeat stops. Both restore NONE when they finish.
 */
enum braid_reader_owner {
	BRAID_READER_NONE = 0,
	BRAID_READER_HOST = 1,
	BRAID_READER_GUEST = 2,
};

/* A meta page: struct trace_buffer_meta of linux/trace_mmap.h; zeros follow it. */
struct braid_meta {
	u32 meta_page_size;
	u32 meta_struct_len;
	u32 subbuf_size;
	u32 nr_subbufs;
	struct {
		u64 lost_events;	/* R: lost before the reader's sub-buffer */
		u32 id;			/* R: id of the reader's sub-buffer */
		u32 read;		/* R: bytes of it that the reader has consumed */
	} reader;
	u64 flags;
	u64 entries;			/* R: read, lost or unread, at the reader's last swap */
	u64 overrun;			/* R: lost */
	u64 read;			/* R: read */
	u64 reserved1;
	u64 reserved2;
};

/*
 * Slot word: position:42 | state:2 | id:16 (from bit 18, 16, 0). A ring's position
 * p lives in slot p % nr_slots. Exactly one sub-buffer id is in no slot: the reader's.
 *
 *   {p-N, OPEN|EMPTY} --writer claims--> {p, CLAIMED} --writer opens--> {p, OPEN}
 *   {p, OPEN} --reader takes, leaves its spare id--> {p, EMPTY}
 */
enum braid_slot_state {
	BRAID_SLOT_EMPTY = 0,		/* the reader took this position's sub-buffer */
	BRAID_SLOT_CLAIMED = 1,		/* the writer is preparing it */
	BRAID_SLOT_OPEN = 2,		/* being written, or full and unread */
};

#define BRAID_POS_BITS		42
#define BRAID_POS_MASK		((1ULL << BRAID_POS_BITS) - 1)
#define BRAID_SLOT_POS_SHIFT	18
#define BRAID_SLOT_STATE_SHIFT	16
#define BRAID_SLOT_STATE_MASK	3u
#define BRAID_SLOT_ID_MASK	0xffffu

#define BRAID_MIN_SLOTS		2u
#define BRAID_MAX_SLOTS		(1u << 15)

/* Commit word: position:42 | final:1 | bytes:20 (from bit 22, 20, 0); bit 21 is 0. */
#define BRAID_COMMIT_POS_SHIFT	22
#define BRAID_COMMIT_FINAL	(1ULL << 20)	/* this sub-buffer is complete */
#define BRAID_COMMIT_BYTES_MASK	0xfffffULL

/* State of one sub-buffer, in the ring's private part; a cache line each. G. */
struct braid_subbuf_state {
	u64 commit;			/* commit word, stored with release */
	u64 first_seq;			/* sequence number of the first event */
	u64 dropped;			/* events dropped here for lack of space, up to now */
	u64 entries;			/* events in the sub-buffer; valid when final */
	u64 dropped_before;		/* events dropped in the ring before this sub-buffer; minor 3 */
	u64 reserved[3];
};

/* Lets a successor resume after a reader's death; see braid_ring_private.reader_block. */
struct braid_reader_block {
	u64 incarnation;		/* the region's at the time; if it differs, the block is
					   void */
	u64 position;			/* of the reader's sub-buffer */
	u64 bytes;			/* consumed from it */
	u64 next_seq;			/* of the next event expected */
	u64 read;			/* events taken in this incarnation */
	u64 lost;			/* events known to be lost in it */
	u64 reserved[2];
};

/* ring flags in braid_ring_private.broken: why the writer gave up */
enum braid_ring_fault {
	BRAID_RING_OK = 0,
	BRAID_RING_BAD_SLOT = 1,	/* a slot word that no correct reader writes */
	BRAID_RING_RESTLESS = 2,	/* lost the claim to the reader too often */
};

/* The private part begins with this struct; see braid_buffer_desc.private_bytes. */
struct braid_ring_private {
	/* G, constant after init */
	u64 incarnation;
	u32 vcpu, buffer;
	u32 nr_slots;
	u32 flags;			/* as braid_buffer_desc.flags */
	u64 first_position, first_seq;
	u32 slots_offset;		/* from this struct's start; before minor 3, the meta page's */
	u32 states_offset;
	u64 reserved0[2];
	/* G, updated occasionally */
	u64 written;			/* events offered before the current sub-buffer */
	u32 broken;			/* enum braid_ring_fault */
	u32 off_seq;			/* of off_*, how often and long recording was switched off
					   since the buffer was made: even = stable, 0 = none */
	u64 off_times, off_steps;	/* steps of the counter, up to the guest's last poll */
	u64 off_now, reserved2[3];	/* off_now: 1: recording is off */
	/* R */
	u32 reader_index;		/* index of the valid block; flips with release */
	u32 reserved3;
	u64 reader_owner;		/* C: enum braid_reader_owner */
	u64 reserved4[6];
	struct braid_reader_block reader_block[2];
};

#define BRAID_RING_SLOTS_OFFSET		384u	/* offset from the private part's start; states
						   follow */
#define BRAID_OLD_PRIVATE_OFFSET	128u	/* in the meta page, where private_bytes is 0 */

/* Sub-buffers ----------------------------------------------------------------------------- */

/* A sub-buffer's own header, the same as in tracefs. */
struct braid_subbuf {
	u64 time_stamp;			/* raw counter of the first event */
	u64 commit;			/* bytes of data, and the flags below */
	u8 data[];
};

#define BRAID_SUBBUF_HEADER_BYTES	16u
#define BRAID_MISSED_EVENTS	(1u << 31)	/* tracefs: events were lost before this
						   sub-buffer */
#define BRAID_MISSED_STORED	(1u << 30)	/* tracefs: their number follows the data */
#define BRAID_MIN_SUBBUF_BYTES	256u
#define BRAID_MAX_SUBBUF_BYTES	(64u * 1024)

/*
 * An event: u32 type:2, len:3, time_delta:27 (from bit 0), then u32 array[].
 *
 * PADDING      the rest of the sub-buffer is unused.
 * TIME_EXTENT  len 1; 8 bytes. array[0] holds bits 27..58 of what time_delta holds
 *              bits 0..26 of: a delta, or (BRAID_BUFFER_ABSOLUTE) the counter.
 * TIME_STAMP   len 4; 20 bytes. array[0..1] the counter, array[2..3] the external
 *              time in ns that belongs to it, or 0; time_delta the counter's low bits.
 *              External time is CLOCK_REALTIME; see braid_clock_cells.wall_source.
 * DATA         len != 0: 4 * len bytes of payload in array[]. len == 0: array[0] is the
 *              payload's length in bytes, a multiple of 4, and array[1..] the payload.
 */
enum braid_event_type {
	BRAID_TYPE_PADDING = 0,
	BRAID_TYPE_TIME_EXTENT = 1,
	BRAID_TYPE_TIME_STAMP = 2,
	BRAID_TYPE_DATA = 3,
};

/*
 * Times never go back within a sub-buffer. Between consecutive sub-buffers of a ring they go back
 * only where the guest's counter jumped back, by at least this many steps.
 */
#define BRAID_JUMP_STEPS	4096u

#define BRAID_EVENT_LEN_SHIFT	2
#define BRAID_EVENT_DELTA_SHIFT	5
#define BRAID_DELTA_BITS	27
#define BRAID_DELTA_MASK	((1u << BRAID_DELTA_BITS) - 1)
#define BRAID_MAX_SMALL_BYTES	28u	/* of payload that len can express */
#define BRAID_EXTENT_BYTES	8u
#define BRAID_STAMP_BYTES	20u

/*
 * Start of each payload, except in BRAID_BUFFER_RAW: the kernel's struct trace_entry, so that
 * libtraceevent can parse it.
 */
struct braid_record {
	u16 common_type;		/* the event id */
	u8 common_flags;
	u8 common_preempt_count;
	s32 common_pid;
};

static_assert(sizeof(struct braid_buffer_desc) == 96, "buffer desc");
static_assert(offsetof(struct braid_superblock, boot_id) == 64, "superblock");
static_assert(sizeof(struct braid_superblock) <= BRAID_PAGE_BYTES, "superblock fits its page");
static_assert(offsetof(struct braid_clock_cells, ready) == 64, "clock cells");
static_assert(offsetof(struct braid_clock_cells, wall_seq) == 128, "clock cells");
static_assert(offsetof(struct braid_clock_cells, vm_seq) == 256, "clock cells");
static_assert(sizeof(struct braid_clock_cells) == 5 * BRAID_CACHELINE_BYTES, "clock cells");
static_assert(sizeof(struct braid_comm) == 32, "comm");
static_assert(sizeof(struct braid_comm_table) == 64, "comm table");
static_assert(sizeof(struct braid_symbol) == 64, "symbol");
static_assert(sizeof(struct braid_symbol_table) == 64, "symbol table");
static_assert(sizeof(struct braid_dir_entry) == 24, "directory entry");
static_assert(sizeof(struct braid_directory) == 64, "directory");
static_assert(sizeof(struct braid_meta) == 80, "struct trace_buffer_meta");
static_assert(offsetof(struct braid_meta, reader.id) == 24, "struct trace_buffer_meta");
static_assert(offsetof(struct braid_meta, entries) == 40, "struct trace_buffer_meta");
static_assert(sizeof(struct braid_subbuf_state) == BRAID_CACHELINE_BYTES, "sub-buffer state");
static_assert(sizeof(struct braid_reader_block) == BRAID_CACHELINE_BYTES, "reader block");
static_assert(offsetof(struct braid_ring_private, written) == 64, "ring private");
static_assert(offsetof(struct braid_ring_private, reader_index) == 128, "ring private");
static_assert(sizeof(struct braid_ring_private) <= BRAID_RING_SLOTS_OFFSET, "slots follow");
static_assert(sizeof(struct braid_subbuf) == BRAID_SUBBUF_HEADER_BYTES, "sub-buffer header");
static_assert(sizeof(struct braid_record) == 8, "struct trace_entry");

#endif /* TRACEBRAID_ABI_H */
