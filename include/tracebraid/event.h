/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The API for kernel modules of the guest: register an event, record it. Source: S1. */
#ifndef TRACEBRAID_EVENT_H
#define TRACEBRAID_EVENT_H

#include "tracebraid/types.h"

struct braid_buffer;

/* What an event is. The strings are the caller's until the event is unregistered. */
struct braid_event_desc {
	const char *system;	/* a name; groups events */
	const char *name;
	/*
	 * The lines of a tracefs format file for the payload, with offsets from 8 on, where
	 * it begins: "\tfield:u64 n;\toffset:8;\tsize:8;\tsigned:0;\n". NULL: printed as hex.
	 */
	const char *fields;
	const char *print_fmt;	/* "\"n=%llu\", REC->n"; NULL only with fields NULL */
};

/**
 * braid_register_event - make an event known
 * @buffer: the buffer it is recorded in; NULL: the buffer "trace"
 * @event_id: the id wanted, or 0 for any that is free
 * @desc: what it is
 *
 * It is off at first; the guest's user or the host turns it on.
 *
 * Context: may sleep.
 * Return: its id; -EBUSY (the id is taken), -ENOSPC (none is left, or the directory is
 * full), -EINVAL (a name is missing), -EOPNOTSUPP (no such buffer), -ENOMEM.
 */
int braid_register_event(struct braid_buffer *buffer, u16 event_id,
			 const struct braid_event_desc *desc);

/**
 * braid_unregister_event - make it unknown again
 * @buffer: as registered
 * @event_id: its id
 *
 * Others may be recording it: none is inside on return.
 *
 * Context: may sleep. Return: 0 or -ENOENT.
 */
int braid_unregister_event(struct braid_buffer *buffer, u16 event_id);

/**
 * braid_record_event - record one event
 * @buffer: as registered
 * @event_id: its id
 * @length: bytes of @payload, 0 to 992
 * @payload: copied
 *
 * Context: any, NMI included.
 * Return: 0; -EAGAIN (the event or its buffer is off), -ENOENT (no such event), -EMSGSIZE (too
 * long, not counted), -ENOSPC (dropped and counted).
 */
int braid_record_event(struct braid_buffer *buffer, u16 event_id, u32 length,
		       const void *payload);

#endif /* TRACEBRAID_EVENT_H */
