/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Payloads of the fleet: a first line "tracebraid VERSION", lines "KEY VALUE", an empty line, and a
 * body, which may be empty. docs/fleet.md lists the keys of each subject.
 */
#ifndef BRAID_FLEET_MESSAGE_H
#define BRAID_FLEET_MESSAGE_H

#include "host_agent/util/text.h"

#define BRAID_FLEET_VERSION	1
#define BRAID_FLEET_HEAD	2048u	/* bytes of all before the body */
#define BRAID_FLEET_FIELDS	16u

struct braid_fleet_message {
	char head[BRAID_FLEET_HEAD];
	size_t nr;
	struct { const char *key, *value; } fields[BRAID_FLEET_FIELDS];	/* in ->head */
	const char *body;		/* in what was read */
	size_t bytes;
};

/**
 * braid_fleet_message_read - parse a payload that a peer sent
 * @m: set on success
 * @data: of any content
 * @bytes: of it
 *
 * Return: 0; -EBADMSG with braid_fail(): not a payload; -EPROTO likewise: of another version.
 */
int braid_fleet_message_read(struct braid_fleet_message *m, const char *data, size_t bytes);

/** braid_fleet_message_text - a field's value, without control characters; "": it has none */
const char *braid_fleet_message_text(const struct braid_fleet_message *m, const char *key);

/** braid_fleet_message_number - likewise a number; @otherwise: it has none, or one above @most */
u64 braid_fleet_message_number(const struct braid_fleet_message *m, const char *key, u64 most,
			       u64 otherwise);

/** braid_fleet_message_begin - begin a payload */
void braid_fleet_message_begin(struct braid_text *t);

/** braid_fleet_message_put - add a field, sanitized; an empty value is left out */
void braid_fleet_message_put(struct braid_text *t, const char *key, const char *value);

/** braid_fleet_message_put_number - likewise a number */
void braid_fleet_message_put_number(struct braid_text *t, const char *key, u64 value);

/** braid_fleet_message_end - end the head; the body may follow */
void braid_fleet_message_end(struct braid_text *t);

/** braid_fleet_name_is_valid - whether a host can have this name: letters, digits, '-' and '_' */
bool braid_fleet_name_is_valid(const char *name);

#define BRAID_FLEET_NAME	64u	/* bytes of a host's name, and of other words */

/**
 * braid_fleet_service_id - the host that has answered a ping of NATS' service convention
 * @data: its JSON
 * @bytes: of it
 * @name: set on success
 *
 * Return: whether it is a service tracebraid with a valid name.
 */
bool braid_fleet_service_id(const char *data, size_t bytes, char name[BRAID_FLEET_NAME]);

#endif /* BRAID_FLEET_MESSAGE_H */
