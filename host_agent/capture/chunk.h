/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The capture file: every byte of it. This header is the specification. */
#ifndef BRAID_CAPTURE_CHUNK_H
#define BRAID_CAPTURE_CHUNK_H

#include "tracebraid/abi.h"

/*
 * A capture is a sequence of chunks, appended and never rewritten. All words are
 * little endian; each chunk begins at a multiple of 8 bytes.
 *
 *   +--------------------+----------------------+---------+
 *   | struct braid_chunk | payload              | 0..7 x0 |   repeated
 *   +--------------------+----------------------+---------+
 *
 * The first chunk is FILE. A stream's STREAM precedes all chunks that refer to it.
 * A cut-off file is good up to its last whole chunk; FILE_END marks a clean end.
 * Unknown types are skipped by a reader of the same major version.
 */
#define BRAID_CHUNK_MAGIC	0x4b435242u	/* the bytes "BRCK" */
#define BRAID_CHUNK_MAX_BYTES	(16u << 20)	/* of payload */
#define BRAID_CAPTURE_MAJOR	1
#define BRAID_CAPTURE_MINOR	12	/* 1: BUFFER; pages have the type of their stamps. 2:
					   CLOCK_*, VCPUS. 3: WINDOW, and its counts in RING_END;
					   VCPU_THREADS; flags of a CLOCK_PAIR. 4: CLOCK_VM,
					   BRAID_MARK_DISRUPTED. 5: COMPLETE, INDEX, INDEX_BLOCKS.
					   6: numbers of a host's events in INDEX. 7: TYPES,
					   BRAID_STREAM_VM, BRAID_END_DRIVER, BRAID_CLOCK_READ. 8:
					   CGROUPS, THROTTLED, HOST_STEAL, BRAID_MARK_UNSEEN. 9:
					   HOST, PEER. 10: DECLARED. 11: STACKS. 12: ACCOUNTS */

enum braid_chunk_type {
	BRAID_CHUNK_FILE = 1,		/* struct braid_chunk_file */
	BRAID_CHUNK_STREAM = 2,		/* struct braid_chunk_stream, then the superblock of a
					   guest, or struct braid_chunk_vm */
	BRAID_CHUNK_STREAM_END = 3,	/* struct braid_chunk_stream_end */
	BRAID_CHUNK_PAGE = 4,		/* struct braid_chunk_page, then its bytes: a guest's */
	BRAID_CHUNK_HOST_PAGE = 5,	/* struct braid_chunk_host_page, then a tracefs sub-buffer */
	BRAID_CHUNK_EVENTS = 6,		/* more of a guest's directory: braid_dir_entry after another */
	BRAID_CHUNK_COMMS = 7,		/* struct braid_comm[]; a host's too */
	BRAID_CHUNK_SYMBOLS = 8,	/* struct braid_symbol[]; a guest's */
	BRAID_CHUNK_CLOCK = 9,		/* struct braid_clock_sample[] */
	BRAID_CHUNK_RING_END = 10,	/* struct braid_chunk_ring_end: a ring's accounting */
	BRAID_CHUNK_TEXT = 11,		/* struct braid_chunk_text, then its bytes: a host's */
	BRAID_CHUNK_NOTE = 12,		/* struct braid_chunk_note, then text: what happened to a
					   stream */
	BRAID_CHUNK_FILE_END = 13,	/* nothing; or struct braid_chunk_end */
	BRAID_CHUNK_BUFFER = 14,	/* struct braid_chunk_buffer: it was added or reshaped */
	BRAID_CHUNK_CLOCK_VCPU = 15,	/* struct braid_chunk_clock_vcpu, then struct braid_clock_sample[] */
	BRAID_CHUNK_CLOCK_OFFSET = 16,	/* struct braid_clock_offset[]: KVM's offset of a guest's counter */
	BRAID_CHUNK_CLOCK_MARK = 17,	/* struct braid_clock_mark[]: what happened to a guest's
					   time */
	BRAID_CHUNK_CLOCK_PAIR = 18,	/* struct braid_clock_pair[]: a guest's counter and wall time */
	BRAID_CHUNK_HOST_CLOCK = 19,	/* struct braid_chunk_host_clock, then struct braid_clock_sample[];
					   of stream 0 */
	BRAID_CHUNK_VCPUS = 20,		/* struct braid_vcpu_untimed[]; later ones replace; minor 2 */
	BRAID_CHUNK_WINDOW = 21,	/* struct braid_chunk_window; of stream 0 */
	BRAID_CHUNK_VCPU_THREADS = 22,	/* struct braid_vcpu_thread[]; later ones add */
	BRAID_CHUNK_CLOCK_VM = 23,	/* struct braid_clock_vm[]: the contents of a guest's vmclock page */
	BRAID_CHUNK_PACKED = 24,	/* struct braid_chunk_packed, then a segment of a capture,
					   or its rest; see below */
	BRAID_CHUNK_PACKED_INDEX = 25,	/* struct braid_chunk_packed_place[] */
	BRAID_CHUNK_COMPLETE = 26,	/* struct braid_chunk_complete; of stream 0 */
	BRAID_CHUNK_INDEX = 27,		/* struct braid_chunk_index, then where chunks before it lie */
	BRAID_CHUNK_INDEX_BLOCKS = 28,	/* struct braid_index_block[]; of stream 0 */
	BRAID_CHUNK_PACKED_SMALL = 29,	/* struct braid_chunk_packed_small, then a segment's chunks
					   that are not pages; PACKED with the rest is next */
	BRAID_CHUNK_TYPES = 30,		/* struct braid_chunk_types, then types of a ring's pages */
	BRAID_CHUNK_CGROUPS = 31,	/* struct braid_cgroup[]: of a guest's vCPUs */
	BRAID_CHUNK_THROTTLED = 32,	/* struct braid_throttled[]: of a guest's */
	BRAID_CHUNK_HOST_STEAL = 33,	/* struct braid_host_steal; of a host: at its start, and end */
	BRAID_CHUNK_HOST = 34,		/* struct braid_chunk_host; of stream 0, the second chunk */
	BRAID_CHUNK_PEER = 35,		/* struct braid_chunk_peer, then braid_peer_crossing[];
					   of stream 0 */
	BRAID_CHUNK_DECLARED = 36,	/* struct braid_declared_time[]; of stream 0 */
	BRAID_CHUNK_STACKS = 37,	/* struct braid_chunk_stack, then its frames; another... */
	BRAID_CHUNK_ACCOUNTS = 38,	/* struct braid_account[]: account.h */
};

/* A stack that a guest's records refer to. */
struct braid_chunk_stack {
	u32 id;
	u32 nr;		/* u64 that follow: addresses, the innermost first */
};

struct braid_chunk {
	u32 magic;
	u16 type;			/* enum braid_chunk_type */
	u16 reserved0;
	u32 payload_bytes;		/* without the padding to 8 */
	u32 stream;			/* a number given by STREAM, from 1; 0: the file itself */
	u64 number;			/* of the chunk in the file, from 0 */
	u64 checksum;			/* XXH3, 64 bits, of the 24 bytes before, then of the payload */
};

/** braid_chunk_bytes - of a chunk in the file: header, payload, and padding to 8 bytes */
static inline u64 braid_chunk_bytes(u64 payload_bytes)
{
	return sizeof(struct braid_chunk) + ((payload_bytes + 7) & ~7ULL);
}

struct braid_chunk_file {
	u16 version_major;
	u16 version_minor;
	u32 reserved0;
	u64 start_host_ns;		/* host clock at the start ... */
	u64 start_realtime_ns;		/* ... and CLOCK_REALTIME */
	char clock[32];			/* the host trace clock that all host times are of: "mono_raw";
					   "realtime" where only guests of before that clock's
					   beginning are in it, or of another host (recovered) */
	char host_name[64];
	char kernel_release[64];
	char machine[32];
	char agent_version[32];
};

#define BRAID_HOST_ID_BYTES	16

/* What the file's clock is of: times of files with the same id are of one clock. */
struct braid_chunk_host {
	u8 id[BRAID_HOST_ID_BYTES];	/* of a boot of a machine; not all 0 */
};

/* What crossed between this host and another one, whose recorder had a nonce. */
struct braid_chunk_peer {
	u8 id[BRAID_HOST_ID_BYTES];	/* the other host's, as in its own files */
	u64 nonce;
	char name[64];			/* where it was reached */
};

#define BRAID_CROSSING_TO	(1u << 0)	/* sent by this host; else by the other one */

/* A message: it was sent before it was received, each by the clock of its host. */
struct braid_peer_crossing {
	u64 own_ns;			/* of the file's clock: not later than sent, or not earlier
					   than received */
	u64 peer_ns;			/* of the other host's clock, likewise */
	u32 flags;			/* BRAID_CROSSING_* */
	u32 reserved0;
};

enum braid_declared_kind {
	BRAID_DECLARED_CHRONY = 1,	/* chronyd */
	BRAID_DECLARED_PTP = 2,		/* ptp4l */
	BRAID_DECLARED_VMCLOCK = 3,	/* the hypervisor of this host */
	BRAID_DECLARED_NTP = 4,		/* the kernel, as set by a daemon: adjtimex() */
	BRAID_DECLARED_KINDS
};

#define BRAID_DECLARED_UNSYNCHRONIZED	(1u << 0)	/* as it says itself */
#define BRAID_DECLARED_UNCONFIRMED	(1u << 1)	/* not since the clock was set, or
							   its counter disrupted */
#define BRAID_DECLARED_NO_ERROR		(1u << 2)	/* it states no error */

/* What a source declares: at a moment from h1_ns to h2_ns it was time_ns, to within bound_ns. */
struct braid_declared_time {
	u64 h1_ns;			/* of the file's clock */
	u64 h2_ns;
	u64 time_ns;			/* UTC, since 1970 */
	u64 bound_ns;			/* if flags are 0 */
	u64 measured_ns;		/* when it measured last, likewise; 0: not known */
	u32 kind;			/* enum braid_declared_kind */
	u32 flags;			/* BRAID_DECLARED_* */
};

enum braid_stream_kind {
	BRAID_STREAM_GUEST = 1,
	BRAID_STREAM_HOST = 2,
	BRAID_STREAM_VM = 3,		/* a guest without the driver: only its process and the
					   threads of its vCPUs are known; minor 7 */
};

/*
 * One incarnation of a guest's driver is one stream; a reboot begins another. A VM is a stream
 * while no driver runs in it.
 */
struct braid_chunk_stream {
	u32 kind;			/* enum braid_stream_kind */
	u32 nr_cpus;			/* VM: as many as were known then: VCPU_THREADS may
					   add some */
	u32 subbuf_bytes;		/* HOST: of a tracefs sub-buffer, header included */
	u32 reserved0;
	u64 host_ns;			/* when it was found */
	char name[64];
	/* GUEST: struct braid_superblock follows; of earlier minors, with fewer buffers[] */
	/* VM: struct braid_chunk_vm follows */
};

/* The process that runs a VM. Streams of several captures with the same one are one. */
struct braid_chunk_vm {
	s32 pid;			/* of the host */
	u32 reserved0;
	u64 start_ticks;		/* when it began, as /proc/PID/stat has it: clock ticks
					   since the host's boot */
};

/* Precedes all pages of the buffer; later ones of the same index replace it. */
struct braid_chunk_buffer {
	u32 index;			/* in the superblock */
	u32 reserved0;
	struct braid_buffer_desc desc;
};

enum braid_end_reason {
	BRAID_END_STOPPED = 1,		/* the recording ended */
	BRAID_END_DOWN = 2,		/* the driver was unloaded */
	BRAID_END_REINIT = 3,		/* the driver restarted: reload or reboot */
	BRAID_END_GONE = 4,		/* the region has ended; VM: its process */
	BRAID_END_BROKEN = 5,		/* the guest violated the protocol */
	BRAID_END_DRIVER = 6,		/* VM: its driver was loaded, and a guest's stream continues
					   it; minor 7 */
};

#define BRAID_END_UNCONFIRMED	(1u << 0)	/* the guest did not confirm its events: it may have
						   traced others */

struct braid_chunk_stream_end {
	u32 reason;			/* enum braid_end_reason */
	u32 flags;			/* BRAID_END_*; minor 3 */
	u64 host_ns;
};

#define BRAID_PAGE_FINAL	(1u << 0)	/* the sub-buffer is complete */
#define BRAID_PAGE_ABSOLUTE	(1u << 1)	/* as BRAID_BUFFER_ABSOLUTE; minor 0: as its buffer */
#define BRAID_PAGE_RAW		(1u << 2)	/* as BRAID_BUFFER_RAW */
#define BRAID_PAGE_PLACED	(1u << 3)	/* other readers consumed the bytes before
						   from_bytes: time_stamp and first_seq apply to
						   from_bytes */

/* Bytes [from, to) of the data of the sub-buffer at a ring's position. */
struct braid_chunk_page {
	u16 buffer;
	u16 vcpu;
	u32 flags;			/* BRAID_PAGE_* */
	u64 position;
	u32 from_bytes;
	u32 to_bytes;
	u64 time_stamp;
	u64 first_seq;			/* of the sub-buffer's first event, not of the bytes' */
	u64 lost_before;		/* events lost before these bytes */
	u64 dropped;			/* events lost after them, when final */
	u64 host_ns;			/* when it was taken: no event in it is younger */
};

struct braid_chunk_host_page {
	u32 cpu;
	u32 bytes;			/* of the sub-buffer, header included */
	u64 lost_before;
};

/* h1 <= host time of counter <= h2, whatever the delays */
struct braid_clock_sample {
	u64 h1_ns;
	u64 counter;
	u64 h2_ns;
};

/* The samples of a CLOCK_VCPU chunk were answered by one vCPU; those of CLOCK by any. */
struct braid_chunk_clock_vcpu {
	u32 vcpu;
	u32 flags;			/* BRAID_CLOCK_*; minor 7 */
};

#define BRAID_CLOCK_READ	(1u << 0)	/* the guest learned nothing of h1 */

#define BRAID_OFFSET_LOST	255u	/* it was set too often to be followed */

/*
 * guest counter = (host counter * ratio >> ratio_bits) + offset, modulo 2^64. Valid from between
 * two values of the host's counter; a repetition confirms it.
 */
struct braid_clock_offset {
	u32 vcpu;
	u32 ratio_bits;			/* 0: not scaled; BRAID_OFFSET_LOST: no longer known */
	u64 ratio;
	u64 offset;
	u64 after_counter;		/* not before ...; 0: since the start, as far as known */
	u64 from_counter;		/* ... and seen to hold here */
};

enum braid_clock_mark_kind {
	BRAID_MARK_PAUSED = 1,		/* no vCPU ran from ... */
	BRAID_MARK_RESUMED = 2,		/* ... to */
	BRAID_MARK_DISRUPTED = 3,	/* vmclock's marker changed. from_ns is h1 of the last sample with
					   the former marker, to_ns h2 of the first with the new one;
					   minor 4 */
	BRAID_MARK_UNSEEN = 4,		/* it was not followed, as while it migrated: likewise
					   the samples before and after; minor 8 */
};

struct braid_clock_mark {
	u32 kind;			/* enum braid_clock_mark_kind */
	u32 reserved0;
	u64 from_ns;			/* it happened between these */
	u64 to_ns;
};

/* As in the clock cells. */
struct braid_clock_pair {
	u64 counter;
	u64 realtime_ns;
	u32 source;			/* enum braid_pair_source */
	u32 flags;			/* BRAID_WALL_*; minor 3 */
};

/* As in the clock cells. */
struct braid_clock_vm {
	u64 host_ns;			/* when it was read */
	u64 marker;
	u64 counter;
	u64 time_ns;
	u64 bound_ns;
	u64 generation;
	u32 flags;			/* BRAID_VM_* */
	u32 changes;
	u8 time_type;			/* enum braid_vm_time_type */
	u8 status;			/* enum braid_vm_status */
	u8 reserved0[6];
};

enum braid_host_clock_kind {
	BRAID_HOST_CLOCK_COUNTER = 1,	/* the raw counter: TSC, CNTVCT */
	BRAID_HOST_CLOCK_REALTIME = 2,	/* CLOCK_REALTIME; ns in the place of the counter */
	BRAID_HOST_CLOCK_TRACE = 3,	/* the clock of the host's trace when it is not that of the file */
	BRAID_HOST_CLOCK_KINDS
};

struct braid_chunk_host_clock {
	u32 kind;			/* enum braid_host_clock_kind */
	u32 reserved0;
	char name[24];			/* as the kernel calls it: "tsc", "realtime", "local" */
};

struct braid_vcpu_untimed {
	u32 vcpu;
	s32 tid;			/* of the host */
};

#define BRAID_VCPU_ALL	0xfffffffeu	/* instead of a vCPU: the thread runs all of them in turn */
#define BRAID_VCPU_NONE	0xfffffffdu	/* it runs none: of a guest, it is another thread of its VMM;
					   of a host, one of the recorder */

/* A thread of the host is a vCPU, until another row of that vCPU or thread holds. */
struct braid_vcpu_thread {
	u32 vcpu;			/* or BRAID_VCPU_ALL, BRAID_VCPU_NONE */
	s32 tid;			/* of the host */
	u64 from_ns;			/* 0: since before the stream began */
};

/*
 * A vCPU's thread is in this cgroup, or in one below it, and the cgroup has a CPU quota. All rows
 * of a thread that have one from_ns hold until its next ones.
 */
struct braid_cgroup {
	u64 id;				/* inode number of its folder; 0: the thread has none */
	u64 from_ns;			/* the first rows of a thread: since before that */
	s32 tid;			/* of the host */
	u32 reserved0;
	char path[104];			/* below the hierarchy's; the end of a longer one */
};

/* The cgroup's cpu.stat: its run queues were throttled for ns in all, within [from, to]. */
struct braid_throttled {
	u64 id;
	u64 from_ns;
	u64 to_ns;
	u64 ns;
};

/* What /proc/stat says that the host's own host took from it, if it is a virtual machine itself. */
struct braid_host_steal {
	u64 host_ns;
	u64 steal_ns;			/* of all its CPUs, since its boot */
};

/* System of the host's events that are moments of quotas, by our own probes; our PID follows */
#define BRAID_QUOTA_SYSTEM	"tracebraid_quota_"

/* Likewise of packets: `sent` and `received`, each with its first bytes as `head` */
#define BRAID_PACKETS_SYSTEM	"tracebraid_packets_"

#define BRAID_VCPUS_UNKNOWN \
	"vCPU threads unknown (needs KVM, or QEMU with -name debug-threads=on)"

enum braid_window_edge {
	BRAID_WINDOW_START = 1,
	BRAID_WINDOW_STOP = 2,
};

/*
 * The recording started or stopped. The start is noted before the first ring's position, the stop
 * after the last one's: all recorded events lie between the two.
 */
struct braid_chunk_window {
	u32 edge;			/* enum braid_window_edge */
	u32 after_ns;			/* of a start: since its recording's former file
					   stopped; both together lack nothing of that
					   time. 0: there is no such file */
	u64 host_ns;
};

/*
 * written = read + lost + left; events since the ring's init. One per period in which the recording
 * was the ring's reader: events between first_seq + (read - read_before) + lost_within of one and
 * first_seq of the next was read by others. Of the recording: written = before + (read -
 * read_before) + lost_within + left_within + after.
 */
struct braid_chunk_ring_end {
	u16 buffer;			/* HOST: 0 */
	u16 vcpu;
	u32 broken;			/* enum braid_ring_fault, the guest's word */
	u64 written;			/* events offered */
	u64 read;			/* by this and former recordings, and in the guest */
	u64 lost;
	u64 left;
	u64 first_seq;			/* where this recording began in the ring's sequence */
	u64 fault;			/* enum braid_reader_fault, the agent's word */
	u64 read_before;		/* of read: by others, before */
	u64 lost_before;		/* of lost: likewise */
	/* Since minor 3; in earlier captures the struct ends here, without a window. */
	u64 before;			/* of written: before the start */
	u64 after;			/* of written: after the stop */
	u64 lost_within;		/* of lost: from start to stop */
	u64 left_within;		/* of left: from start to stop */
};

enum braid_text_kind {
	BRAID_TEXT_FORMAT = 1,		/* an event's format file; name: its system */
	BRAID_TEXT_HEADER_PAGE = 2,	/* events/header_page */
	BRAID_TEXT_KALLSYMS = 3,	/* /proc/kallsyms, zstd */
	BRAID_TEXT_PRINTK = 4,		/* printk_formats */
};

struct braid_chunk_text {
	u32 kind;			/* enum braid_text_kind */
	u32 raw_bytes;			/* before compression */
	char name[56];
};

struct braid_chunk_note {
	u64 host_ns;
};

/* COMPLETE, for programs that read the capture while it grows. */
struct braid_chunk_complete {
	s64 until_ns;			/* events before this are in earlier chunks, but for those of a
					   ring that the recorder could not read for long */
};

static_assert(sizeof(struct braid_chunk) == 32, "chunk");
static_assert(sizeof(struct braid_chunk_file) == 248, "file");
static_assert(sizeof(struct braid_chunk_peer) == 88, "peer");
static_assert(sizeof(struct braid_peer_crossing) == 24, "crossing");
static_assert(sizeof(struct braid_declared_time) == 48, "declared");
static_assert(sizeof(struct braid_chunk_stream) == 88, "stream");
static_assert(sizeof(struct braid_chunk_vm) == 16, "vm");
static_assert(sizeof(struct braid_chunk_buffer) == 104, "buffer");
static_assert(sizeof(struct braid_chunk_page) == 64, "page");
static_assert(sizeof(struct braid_clock_sample) == 24, "sample");
static_assert(sizeof(struct braid_clock_offset) == 40, "offset");
static_assert(sizeof(struct braid_clock_mark) == 24, "mark");
static_assert(sizeof(struct braid_clock_pair) == 24, "pair");
static_assert(sizeof(struct braid_clock_vm) == 64, "vmclock");
static_assert(sizeof(struct braid_chunk_host_clock) == 32, "host clock");
static_assert(sizeof(struct braid_vcpu_thread) == 16, "vCPU thread");
static_assert(sizeof(struct braid_cgroup) == 128, "cgroup");
static_assert(sizeof(struct braid_throttled) == 32, "throttled");
static_assert(sizeof(struct braid_chunk_window) == 16, "window");
static_assert(sizeof(struct braid_chunk_ring_end) == 104, "ring end");
static_assert(sizeof(struct braid_chunk_text) == 64, "text");

/*
 * The index, minor 5. An INDEX chunk has the places of a ring's pages since the last one of that
 * ring, in the order of the file; of stream 0: of the chunks that are neither pages nor INDEX. Each
 * place differs from the one before it, the first one from 0, by (extent.h): a byte that says what
 * follows, then numbers of seven bits to a byte. INDEX_BLOCKS, just before the end, has the places of
 * all INDEX chunks. A reader that does not trust the index reads all chunks.
 */
#define BRAID_INDEX_BYTES	4096u	/* of places in an INDEX chunk, about, or ... */
#define BRAID_INDEX_PLACES	512u	/* ... places */

struct braid_chunk_index {
	u16 buffer;			/* HOST, and stream 0: 0 */
	u16 cpu;
	u32 nr;				/* places */
	u64 ns;				/* guest: the latest braid_chunk_page.host_ns of these pages;
					   host: time_stamp of the first one; stream 0: 0 */
};

#define BRAID_INDEX_UNORDERED	(1u << 0)	/* a page's position is before that of its predecessor */
#define BRAID_INDEX_BACK	(1u << 1)	/* its time_stamp is */
#define BRAID_INDEX_HOST	(1u << 2)	/* the places are of HOST_PAGE */

struct braid_index_block {
	u64 offset;			/* of an INDEX chunk; these ascend */
	u64 ns;				/* as in the chunk, as what follows */
	u32 stream;
	u16 buffer;
	u16 cpu;
	u32 nr;
	u32 flags;			/* BRAID_INDEX_* */
};

struct braid_chunk_end {
	u64 index_offset;		/* of INDEX_BLOCKS */
};

/*
 * The types of events, minor 7. A TYPES chunk is next to the INDEX chunk of a ring's pages: ids of
 * events, and a number for each place, of seven bits to a byte. Its bit k + 1 says that the page
 * has events of ids[k]. A reader of some types need not read pages that have none of them, unless
 * BRAID_TYPES_READ is set.
 */
#define BRAID_TYPES_IDS		63u	/* at most */
#define BRAID_TYPES_READ	1u	/* the page says that events were lost, or has some whose
					   id is not in the chunk, or none: those of a RAW buffer */

struct braid_chunk_types {
	u32 nr;				/* places, as in INDEX */
	u32 nr_ids;			/* u16 ids[] follow, then the numbers */
};

static_assert(sizeof(struct braid_chunk_types) == 8, "types");
static_assert(sizeof(struct braid_chunk_index) == 16, "index");
static_assert(sizeof(struct braid_index_block) == 32, "index block");

/*
 * A packed capture: FILE, a copy of the capture's but with BRAID_PACKED_MAJOR, so that a reader
 * that does not know the format refuses the file; the segments; PACKED_INDEX; FILE_END, with struct
 * braid_chunk_packed_end. A segment is PACKED alone; or PACKED_SMALL with its chunks other than
 * pages, which can then be read without the pages, and PACKED with the rest. The segments'
 * contents, one after the other, are the capture, byte for byte. A file without its end is valid up
 * to its last whole segment.
 */
#define BRAID_PACKED_MAJOR	4
#define BRAID_PACKED_MAJOR_FIRST	2	/* without PACKED_SMALL; up to 3, no segment is shuffled */
#define BRAID_PACKED_SEGMENT_BYTES	(4u << 20)	/* of a segment, at most */
#define BRAID_PACKED_RATIO	64u		/* limit of a chunk's unpacked size by its size */

enum braid_packed_codec {
	BRAID_PACKED_PLAIN = 0,		/* as it is */
	BRAID_PACKED_ZSTD = 1,		/* one frame of zstd */
	BRAID_PACKED_REST = 1 << 8,	/* flag: the rest of a segment, after PACKED_SMALL */
	BRAID_PACKED_SHUFFLED = 1 << 9,	/* flag: struct braid_packed_shuffle, then bytes reordered */
};

/* Whether a file of this version is a packed capture. */
static inline bool braid_packed_is_major(u16 major)
{
	return major >= BRAID_PACKED_MAJOR_FIRST && major <= BRAID_PACKED_MAJOR;
}

struct braid_chunk_packed {
	u64 at;				/* in the capture: the end of the segment before */
	u32 bytes;			/* unpacked; never 0 */
	u32 codec;			/* enum braid_packed_codec */
};

/*
 * The header words of events are apart. After this: the bytes without them; then of all words the
 * lowest byte, then the second one, ... A word's lowest 5 bits are exchanged with its upper 27.
 */
struct braid_packed_shuffle {
	u32 skip;			/* bytes before the first chunk */
	u32 nr;				/* words */
};

/* Unpacks to struct braid_packed_range[], ascending and disjoint, then the ranges' bytes. */
struct braid_chunk_packed_small {
	struct braid_chunk_packed packed;	/* bytes: of all ranges together */
	u32 nr;				/* number of ranges; never 0 */
	u32 reserved;
};

struct braid_packed_range {
	u32 at;				/* in the segment */
	u32 bytes;
};

struct braid_chunk_packed_place {
	u64 offset;			/* of the segment's first chunk in the file */
	u64 at;				/* as in the chunk */
};

struct braid_chunk_packed_end {
	u64 index_offset;		/* of PACKED_INDEX; 0: no index */
	u64 bytes;			/* of the capture */
};

#endif /* BRAID_CAPTURE_CHUNK_H */
