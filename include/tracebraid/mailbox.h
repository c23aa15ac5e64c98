/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The mailbox: the section of the region where the host asks, and the guest answers. */
#ifndef TRACEBRAID_MAILBOX_H
#define TRACEBRAID_MAILBOX_H

#include "tracebraid/filter.h"
#include "tracebraid/probe.h"
#include "tracebraid/stack.h"
#include "tracebraid/trigger.h"

enum braid_command {
	BRAID_CMD_NONE = 0,		/* no operation: the answer 0 shows that it lives */
	BRAID_CMD_ENABLE = 1,		/* enable matching events for the host */
	BRAID_CMD_DISABLE = 2,		/* disable matching events for the host */
	BRAID_CMD_RECORD_ON = 3,	/* buffer[arg0] records (as record_enable) */
	BRAID_CMD_RECORD_OFF = 4,	/* buffer[arg0] stops recording (as record_disable) */
	BRAID_CMD_FILTER = 5,		/* matching events of buffer[arg0] get the program */
	BRAID_CMD_ACCOUNT = 6,		/* the sums of the filters of those events */
	BRAID_CMD_PROBE = 7,		/* the event system:event is a probe */
	BRAID_CMD_TRIGGER = 8,		/* matching events of buffer[arg0] get a trigger's test */
	BRAID_CMD_RESUME = 9,		/* a trigger has fired: rings are written again */
	BRAID_CMD_RESHAPE = 10,		/* buffer[arg0] gets new, empty rings */
	BRAID_CMD_CHOOSE = 11,		/* task arg0, and what it forks later */
	BRAID_CMD_SAMPLE = 12,		/* matching events sample as arg0 says: see stack.h */
	BRAID_CMD_STACKS = 13,		/* matching events have stacks, as arg0 says: likewise */
	BRAID_CMD_HITS = 14,		/* what became of the probe system:event */
};

#define BRAID_PATTERN_BYTES	64
#define BRAID_REASON_BYTES	128
#define BRAID_ONLY_SEEN		4u	/* arg0 of ENABLE: see below */
#define BRAID_ONLY_SEEN_MINOR	12u	/* of the region */
#define BRAID_SEEN_SHIFT	8
#define BRAID_CHOOSE_NONE		(~0ULL)	/* arg0 of CHOOSE: no task is, any more */
#define BRAID_CONFIRM_TABLES	1u	/* arg0 of NONE and DISABLE; earlier drivers ignore it */
#define BRAID_CONFIRM_MS	1500u

/*
 * One command at a time. The host fills command, arg and patterns, then stores command_seq with
 * release. The guest sees that command_seq differs from done_seq, makes a private copy, acts,
 * stores result and matched, then done_seq = command_seq. The patterns are globs; an empty one
 * matches all. BRAID_CONFIRM_TABLES: the guest acts at once, and stores these when directory and
 * symbols have what the records before the command refer to, at most BRAID_CONFIRM_MS later.
 *
 * BRAID_ONLY_SEEN, with the directory's generation above BRAID_SEEN_SHIFT: only events that were
 * listed by then are enabled. The host has set nothing yet for those that were listed later, such
 * as a filter: the answer has their number in unseen, and the host reads the directory again.
 * Earlier drivers ignore the flag.
 *
 * Wake. Where the transport has a doorbell, an agent that goes to sleep stores wake_permille and
 * wake_doorbell, then increments wake_seq with release. When a writer opens a sub-buffer and at
 * least that share of its ring is unread, it rings the doorbell, once per wake_seq and ring. While
 * wake_doorbell is 0, no writer rings.
 *
 * RESHAPE. As when the guest's user does it: an agent is announced the end of the rings, and may
 * drain them. -EBUSY: a ring is read or mapped in the guest; -ENOSPC: no room; -EINVAL: no such
 * buffer or size. The buffer is then unchanged.
 */
struct braid_reshape {
	u64 ring_bytes;			/* of sub-buffers; 0: unchanged, as far as possible */
	u32 subbuf_bytes;		/* 0: unchanged */
	u32 set, clear;			/* of BRAID_BUFFER_OVERWRITE */
	u32 reserved;
};

struct braid_mailbox {
	/* H */
	u32 command_seq;
	u32 command;			/* enum braid_command */
	u64 arg0;
	char system[BRAID_PATTERN_BYTES];
	char event[BRAID_PATTERN_BYTES];
	u64 agent_heartbeat;		/* incremented while an agent follows the region */
	u64 agent_drained;		/* incarnation whose rings it has drained, after DOWN */
	u32 agent_buffers_seq;		/* the last buffers_seq that the agent has processed:
					   CLOSING buffers are drained, new ones are followed */
	u32 wake_seq;			/* incremented for each new wake request */
	u32 wake_permille;		/* full, unread sub-buffers of a ring; 1 to 1000 */
	u32 wake_doorbell;		/* 0: no wake requested; ivshmem: the value for its Doorbell
					   register; virtio: 1 */
	u8 reserved0[1024 - 176];
	/* G, at 1024 */
	u32 done_seq;
	s32 result;			/* 0 or -errno */
	u32 matched;			/* events that matched */
	u32 unseen;			/* ENABLE: those that were listed later; since minor 12 */
	u64 guest_heartbeat;		/* the guest's counter at its last poll, and while it
					   executes a long command: read between command_seq
					   and done_seq; see BRAID_POLL_MS */
	struct braid_filter_account account;	/* ACCOUNT's answer */
	char reason[BRAID_REASON_BYTES];	/* why result is not 0, or "": since minor 7 */
	/* Since minor 8: see trigger.h. */
	u32 trigger_state;		/* enum braid_trigger_state; stored after the counts */
	u32 trigger_last;		/* index of the one that fired last */
	struct braid_probe_hits hits;	/* HITS' answer: since minor 12 */
	u8 reserved2[512 - 88 - BRAID_REASON_BYTES];
	struct braid_trigger_count trigger_counts[BRAID_TRIGGERS];	/* at 1536 */
	union {				/* H, at 2048: what the command has beside its words */
		struct {
			/* FILTER, since minor 6: see filter.h; TRIGGER */
			struct braid_filter_program program;
			struct braid_trigger trigger;	/* TRIGGER, since minor 8 */
		};
		struct braid_probe probe;		/* PROBE, since minor 7: see probe.h */
		struct braid_reshape reshape;		/* RESHAPE, since minor 8 */
	};
};

static_assert(offsetof(struct braid_mailbox, wake_seq) == 164, "mailbox H part");
static_assert(offsetof(struct braid_mailbox, done_seq) == 1024, "mailbox G part");
static_assert(offsetof(struct braid_mailbox, trigger_counts) == 1536, "mailbox G part");
static_assert(offsetof(struct braid_mailbox, program) == 2048, "mailbox H part");

#endif /* TRACEBRAID_MAILBOX_H */
