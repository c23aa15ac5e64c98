/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sends commands to a guest's driver by the mailbox; matches its events.
 *
 * Invariants:
 * - Nothing waits: braid_control_begin() touches no shared memory, braid_control_poll() does what is possible now.
 * - One command is in flight. It is sent after the guest has answered the former one, even if a dead agent sent that.
 *   The caller's mapping is exclusive, so no other agent sends.
 * - An answer counts only if the region is still LIVE, and of the same incarnation, after the result was loaded.
 * - The guest's words are claims: the result is clamped, and no word is used as an address or a length.
 * - A command that timed out after it was sent may still be executed.
 * - A line about a guest's events holds names that the guest chose, cut but not sanitized: whoever prints it does
 *   that.
 */
#ifndef BRAID_CONTROL_CONTROL_H
#define BRAID_CONTROL_CONTROL_H

#include "host_agent/capture/chunk.h"
#include "host_agent/transport/directory.h"
#include "host_agent/transport/transport.h"

#define BRAID_CONTROL_TIMEOUT_NS	2000000000ULL

/* SYSTEM[:EVENT], each a glob; an empty event matches all. */
struct braid_pattern {
	char system[BRAID_PATTERN_BYTES];
	char event[BRAID_PATTERN_BYTES];
	const char *filter;	/* records that pass it alone; NULL: all */
	const struct braid_probe *probe;	/* the event is to be made of it; NULL: it exists */
	bool stacks;		/* its records are to have stacks */
};

/**
 * braid_pattern_parse - read SYSTEM[:EVENT]
 * @p: filled on success
 * @text: what was typed; "*" and "all" are everything
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_pattern_parse(struct braid_pattern *p, const char *text);

/**
 * braid_pattern_check - refuse a pattern that looks like a filter
 * @text: what was typed
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_pattern_check(const char *text);

/** braid_pattern_matches - whether an event matches, by fnmatch()'s globs */
bool braid_pattern_matches(const struct braid_pattern *p, const char *system, const char *event);

/* One command under way. */
struct braid_control {
	const struct braid_mapping *mapping;
	struct braid_mailbox *box;
	u64 incarnation;
	u32 minor;		/* of the region */
	u32 seq;		/* of the command sent */
	bool sent;
	u64 sent_ns;
	u64 begun_ns, timeout_ns;
	u64 beat;		/* the guest's heartbeat as last seen */
	u64 beat_ns;		/* when it moved, or when the command was begun */
	u32 command;
	u64 arg0;
	struct braid_pattern pattern;
	/*
	 * FILTER, TRIGGER, PROBE, RESHAPE: set before the first poll, if the mailbox's section has
	 * the room for it; must outlive the command.
	 */
	const struct braid_filter_program *program;
	const struct braid_trigger *trigger;	/* besides @program */
	const struct braid_probe *probe;
	const struct braid_reshape *reshape;
};

/* What the guest answered. */
struct braid_control_answer {
	s32 result;		/* 0 or -errno, clamped to that range */
	u32 matched;		/* events that matched */
	u32 unseen;		/* ENABLE: those that were listed after its generation */
	struct braid_clock_sample sample;	/* wide, but valid: the guest's counter in
						   between */
	struct braid_filter_account account;	/* ACCOUNT */
	struct braid_probe_hits hits;		/* HITS; 0 from earlier drivers */
	char reason[BRAID_REASON_BYTES];	/* why result is not 0; sanitized; "": none given */
};

/**
 * braid_control_begin - start a command
 * @c: filled; free again once braid_control_poll() returned anything but -EAGAIN
 * @m: a writable, locked mapping
 * @sb: the validated copy of its superblock
 * @command: enum braid_command
 * @arg0: the command's argument
 * @pattern: may be NULL: everything
 * @timeout_ns: how long the guest's heartbeat may stand still until it answers. A long command
 *	moves the heartbeat; its answer is waited for at most 15 times as long
 */
void braid_control_begin(struct braid_control *c, const struct braid_mapping *m,
			 const struct braid_superblock *sb, u32 command, u64 arg0,
			 const struct braid_pattern *pattern, u64 timeout_ns);

/**
 * braid_control_poll - continue a command; under braid_guard_run()
 * @c: the command
 * @answer: filled on success
 *
 * Return: 0 answered; -EAGAIN not yet; -ETIMEDOUT the guest does not answer; -ESTALE the region was
 * reinitialized or is down. The last two with braid_fail().
 */
int braid_control_poll(struct braid_control *c, struct braid_control_answer *answer);

/**
 * braid_pattern_count - number of matching events in a directory
 * @p: the pattern
 * @copy: the directory
 */
u32 braid_pattern_count(const struct braid_pattern *p, const struct braid_directory_copy *copy);

/**
 * braid_directory_suggest - report that no event matches, with suggestions
 * @copy: the directory
 * @pattern: matches none of its events
 * @guest: its name
 *
 * Return: -ENOENT, with braid_fail(): up to three similar names.
 */
int braid_directory_suggest(const struct braid_directory_copy *copy,
			    const struct braid_pattern *pattern, const char *guest);

#endif /* BRAID_CONTROL_CONTROL_H */
