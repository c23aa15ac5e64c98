/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The host's filters of events.
 *
 * A filter is in effect while the host alone has its event on: what the guest's user wants to see
 * is not filtered away. A program runs over a private copy of the record, because shared memory is
 * write-only and a reservation can't be given back; only a record that passes reaches the ring.
 */
#ifndef BRAID_EVENT_FILTER_H
#define BRAID_EVENT_FILTER_H

#include "guest_driver/event/event.h"
#include "shared/filter.h"

/**
 * braid_filter_set_matching - set or remove the filters of events
 * @buffer: index of their buffer in the region; BRAID_ANY_BUFFER: any
 * @system: a glob, "" for all
 * @name: likewise
 * @program: a private copy, not yet checked; NULL: remove filters
 * @matched: how many matched, set on success and on failure
 *
 * Context: may sleep. Return: 0 or the first error: -EINVAL, -EOPNOTSUPP (another version, or
 * events that are not reserved by braid_event_reserve()), -ENOMEM.
 */
int braid_filter_set_matching(u64 buffer, const char *system, const char *name,
			      const struct braid_filter_program *program, u32 *matched);

/**
 * braid_filter_account_matching - what the filters of events have counted
 * @buffer: as of braid_filter_set_matching()
 * @system: likewise
 * @name: likewise
 * @account: set to the sum
 *
 * Records of events that were disabled before the call are all counted. Context: may sleep.
 * Return: the number of filters.
 */
u32 braid_filter_account_matching(u64 buffer, const char *system, const char *name,
				  struct braid_filter_account *account);

/**
 * braid_filter_follow - put an event's filter into effect, or not
 * @ev: the event
 * @flags: which it will have, with either WANTED
 *
 * Must hold braid_registry_lock().
 */
void braid_filter_follow(struct braid_event *ev, u32 flags);

/** braid_event_divert - renew ev->diverted. Must hold braid_registry_lock() */
void braid_event_divert(struct braid_event *ev);

/**
 * braid_filter_next - iterate over the events of an attached region that match
 * @buffer: of the event before; NULL at first
 * @ev: the event before; NULL at first
 * @index: as of braid_filter_set_matching()
 * @system: likewise
 * @name: likewise
 *
 * Must hold braid_buffers_lock() and braid_registry_lock(). Return: the event or NULL.
 */
struct braid_event *braid_filter_next(struct braid_buffer **buffer, struct braid_event *ev,
				      u64 index, const char *system, const char *name);

/** braid_filter_make_scratch - what records are set aside in. Must hold the lock. 0 or -ENOMEM */
int braid_filter_make_scratch(void);

/* What writers use, with preemption off, in any context: */
struct braid_event_filter {
	struct braid_filter_program program;
	struct braid_filter_account __percpu *account;
	struct braid_event_filter *next;	/* of those that a command has replaced */
};

/* A record that is assembled in private memory. */
struct braid_aside {
	const struct braid_event_filter *filter;	/* NULL: it passes */
	const struct braid_event_filter *passed;	/* or NULL: it has passed this one */
	const struct braid_trigger_test *tests;		/* or NULL */
	struct braid_buffer *buffer;
	u32 bytes;
	u16 id;
	u8 stacks;					/* BRAID_STACKS_* */
	u8 record[BRAID_FILTER_RECORD] __aligned(8);
};

/** braid_filter_take_aside - memory for a record; NULL: none. Given back in reverse order */
struct braid_aside *braid_filter_take_aside(u32 bytes);
void braid_filter_give_aside(void);

/** braid_filter_judge - whether a record passes; counted if not, and if that is not known */
bool braid_filter_judge(const struct braid_event_filter *filter,
			const struct braid_filter_record *record);

/** braid_filter_count - count a record that passed, by a filter or (NULL) none */
void braid_filter_count(const struct braid_event_filter *filter, bool written);

/** braid_filter_free - free the filter of an event that is off, whose writers have left */
void braid_filter_free(struct braid_event *ev);

/** braid_filter_free_scratch - free the private memory; no filter is in effect. May sleep */
void braid_filter_free_scratch(void);

#endif /* BRAID_EVENT_FILTER_H */
