/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Asks hosts of the fleet.
 *
 * Invariants:
 * - A host that was named, by the user or by 'hosts' of the configuration, has a result, or a line
 *   that says why it has none; so has one that has answered the first question, "who is there?".
 * - What hosts send is not trusted: their number, messages and waits have limits.
 * - A message that was lost is noticed by its number: its host has failed then.
 */
#ifndef BRAID_FLEET_CLIENT_H
#define BRAID_FLEET_CLIENT_H

#include <signal.h>

#include "host_agent/fleet/link.h"

#define BRAID_FLEET_MOST_HOSTS	1500u	/* a message of each is in the link's queue */
#define BRAID_FLEET_ID		36u

struct braid_fleet_host {
	char name[BRAID_FLEET_NAME];
	enum { BRAID_FLEET_IDLE, BRAID_FLEET_ASKED, BRAID_FLEET_DONE, BRAID_FLEET_FAILED } state;
	u32 found;		/* answers to the first question */
	char why[512];		/* FAILED */
	char id[BRAID_FLEET_ID];	/* of the request */
	char instance[20];
	u64 seq;		/* of its next message */
	u64 asked_ns, heard_ns;
	u64 rows;		/* lines that were taken */
	u64 lines;		/* received of its answer, counted from 0 if it is sent again */
	u64 again_ns;		/* when the answer is requested again; 0: it is not */
};

struct braid_fleet_client {
	struct braid_fleet_link *link;
	struct braid_fleet_host *hosts;
	size_t nr, capacity;
	u64 timeout_ns;			/* without any message of a host */
	const volatile sig_atomic_t *stop;
	u32 asked;			/* requests so far */
	/* Set after braid_fleet_client_open(): requests continue after a lost connection. */
	u64 until_ns;			/* at the latest until then; 0: they fail */
	void (*say)(const char *line);	/* called when it is lost, and when it is made again */
	u64 connections;		/* that were made after the first one */
	bool away;			/* the connection is lost, and say() was called */
	u64 dropped;
	struct braid_text out;
};

struct braid_fleet_client_options {
	const struct braid_fleet_conf *conf;
	const char *hosts;		/* names and globs, separated by commas; NULL: all */
	u64 timeout_ns;
	const volatile sig_atomic_t *stop;	/* set by a signal */
	int (*confine)(void);
};

/** braid_fleet_client_open - connect, find the hosts. Return: 0, or -errno with braid_fail() */
int braid_fleet_client_open(struct braid_fleet_client *c,
			    const struct braid_fleet_client_options *o);

/** braid_fleet_client_close - requests that are not done are cancelled */
void braid_fleet_client_close(struct braid_fleet_client *c);

struct braid_fleet_field {
	const char *key;
	const char *value;
};

/**
 * braid_fleet_client_ask - send a host a request
 * @what: "sql", ...
 * @fields: of the request; the last one has no key
 * @body: text
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_fleet_client_ask(struct braid_fleet_client *c, struct braid_fleet_host *host,
			   const char *what, const struct braid_fleet_field *fields,
			   const char *body);

/** braid_fleet_client_ask_all - likewise all hosts */
int braid_fleet_client_ask_all(struct braid_fleet_client *c, const char *what,
			       const struct braid_fleet_field *fields, const char *body);

struct braid_fleet_event {
	struct braid_fleet_host *host;
	/* Rows, data, status; to be freed. NULL: the host is done, or has failed. */
	struct braid_fleet_packet *packet;
	struct braid_fleet_message message;
};

/**
 * braid_fleet_client_next - wait for an event
 *
 * Return: 1; 0: all hosts are done; or -errno with braid_fail().
 */
int braid_fleet_client_next(struct braid_fleet_client *c, struct braid_fleet_event *e);

/**
 * braid_fleet_client_is_new - whether the next line of an answer is received for the first time
 *
 * Must be called for each line of a request that continues after a lost connection.
 */
bool braid_fleet_client_is_new(struct braid_fleet_host *host);

/** braid_fleet_client_grant - let a host send one message more */
int braid_fleet_client_grant(struct braid_fleet_client *c, const struct braid_fleet_host *host);

/** braid_fleet_client_fail - a host's answer is not valid: it is not asked further */
void braid_fleet_client_fail(struct braid_fleet_client *c, struct braid_fleet_host *host,
			     const char *why);

#endif /* BRAID_FLEET_CLIENT_H */
