/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options that select what a guest records: of `record`, and of tracebraid-select. */
#ifndef BRAID_CLI_RECORD_SELECTION_H
#define BRAID_CLI_RECORD_SELECTION_H

#include "host_agent/cli/options.h"
#include "host_agent/record/record.h"

/* Of a struct braid_record_options, ... */
braid_option_take braid_take_probe, braid_take_pid, braid_take_cpus, braid_take_trigger,
		  braid_take_buffer_size, braid_take_subbuf_size, braid_take_mode;
/* ... and of a struct braid_record_patterns. */
braid_option_take braid_take_events, braid_take_filter;

#define BRAID_EVENTS(type, member) \
	BRAID_TAKE(braid_take_events, struct braid_record_patterns, type, member)
#define BRAID_SELECTS(function, type, member) \
	BRAID_TAKE(function, struct braid_record_options, type, member)

/* Rows of a table, whose state has the options as a member. */
#define BRAID_RECORD_SELECTION(type, member) \
	{ 'e', "event", "SYSTEM[:EVENT]", BRAID_EVENTS(type, member.events), \
	  "events to enable in the guests; globs; may be repeated, or separated by commas. Default: " \
	  BRAID_GUEST_EVENTS, .values = "@event" }, \
	{ 'f', "filter", "FILTER", \
	  BRAID_TAKE(braid_take_filter, struct braid_record_patterns, type, member.events), \
	  "of the events of the last -e, record only those that match, as 'prev_prio < 100 && " \
	  "next_comm ~ \"nginx*\"': the guest decides, before an event takes room. Fields of numbers " \
	  "with == != < <= > >= and & (a bit of a mask is set), of strings with == != and ~ (a " \
	  "glob); ! && || ( ); CPU and COMM are the CPU and the name of the current task. The last -e that matches an event " \
	  "decides. While the guest's user has the event enabled too, all are recorded. At the end " \
	  "each filter's account is printed: offered = filtered + written + lost" }, \
	{ 0, "kprobe", "PROBE", BRAID_SELECTS(braid_take_probe, type, member), \
	  "an event at a function of the guests' kernel, as 'do_sys_openat2 file=+0(%si):string', in " \
	  "the syntax of tracefs' kprobe_events (docs/probes.md). 'vfs_read $arg*' records all arguments " \
	  "by name; 'r FUNCTION $retval' is an event when the function returns. May be repeated, and " \
	  "followed by -f. Removed when the recording ends" }, \
	{ 0, "uprobe", "PROBE", BRAID_SELECTS(braid_take_probe, type, member), \
	  "likewise, an event in a program of the guests, in the syntax of uprobe_events, as " \
	  "'/usr/bin/bash:readline' or '/usr/bin/bash:0x4245 n=%di:s32'" }, \
	{ 'P', "pid", "PID", BRAID_SELECTS(braid_take_pid, type, member), \
	  "only events of this task of the guests, by its number in the guest's initial namespace; may be " \
	  "repeated. A switch concerns both tasks, a wake-up also the one that is woken. Applies to all " \
	  "events of the guests, before -f" }, \
	{ 0, "children", NULL, BRAID_FLAG(type, member.who.children), \
	  "with --pid: also events of the tasks that these fork from then on, and those of theirs" }, \
	{ 0, "cgroup", "CGROUP", BRAID_STRING(type, member.who.cgroup), \
	  "likewise, only events of tasks in this cgroup of the guests (version 2) or below it: a path, as " \
	  "/system.slice/nginx.service, or an id" }, \
	{ 0, "comm", "GLOB", BRAID_STRING(type, member.who.comm), \
	  "likewise, only events of tasks with such a name" }, \
	{ 0, "cpus", "LIST", BRAID_SELECTS(braid_take_cpus, type, member), \
	  "likewise, only events on these vCPUs, as in 0-3,5" }, \
	{ 0, "trigger", "TRIGGER", BRAID_SELECTS(braid_take_trigger, type, member), \
	  "act at once in a guest, at a record of an event: 'EVENT if FILTER: ACTION' or, when a task takes " \
	  "longer than TIME from one event to another, 'EVENT..EVENT > TIME if FILTER: ACTION', as " \
	  "'syscalls:sys_enter_fsync..sys_exit_fsync > 50ms: snapshot'. The guest stops writing its rings, so " \
	  "that they keep what led there. ACTION is traceoff (until the recording ends), stop (the recording " \
	  "ends) or snapshot: with --snapshot take one, with --rotate record the contents of the rings; then " \
	  "they are written again. With 'after NUMBER' the guest writes so " \
	  "many more events before it stops. FILTER as for -f, of the first event. May be given up to 8 times" }, \
	{ 0, "sample", "HZ", BRAID_COUNT(type, member.sample_hz), \
	  "also sample what the guests' vCPUs execute, HZ times a second each, for `tracebraid analyze profile`; " \
	  "99 is usual", .least = 1, .most = BRAID_SAMPLE_MAX_HZ }, \
	{ 'T', "stacks", NULL, BRAID_FLAG(type, member.stacks), \
	  "also record the guests' kernel stack with each of their events (docs/stacks.md)" }, \
	{ 0, "user-stacks", NULL, BRAID_FLAG(type, member.user_stacks), \
	  "with --sample or -T: also record the user stacks of the guests' tasks, by frame " \
	  "pointers" }, \
	{ 0, "buffer-size", "SIZE", BRAID_SELECTS(braid_take_buffer_size, type, member), \
	  "give each ring of these buffers so many bytes (256K, 4M), rounded up to a power of two of sub-buffers. " \
	  "The rings are replaced by empty ones; what was unread is lost without --backlog. A guest whose " \
	  "memory has no room keeps its rings, and a line says so. The buffers keep their size afterwards" }, \
	{ 0, "subbuf-size", "SIZE", BRAID_SELECTS(braid_take_subbuf_size, type, member), \
	  "likewise, the bytes of a sub-buffer: 256 to 64K, a multiple of 8" }, \
	{ 0, "mode", "MODE", BRAID_SELECTS(braid_take_mode, type, member), \
	  "likewise: overwrite (a full ring overwrites its oldest events) or consume (it drops the newest)", \
	  .values = "overwrite consume" }

/**
 * braid_record_selection_check - whether what is selected makes sense
 * @o: all options were taken
 *
 * Return: 0, or -EINVAL or -ENOMEM with braid_fail().
 */
int braid_record_selection_check(const struct braid_record_options *o);

#endif /* BRAID_CLI_RECORD_SELECTION_H */
