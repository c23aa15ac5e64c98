/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A connection to the fleet's server, by libnats, without its threads' being seen: what they
 * receive is queued, and taken from there by the one thread that uses the link.
 */
#ifndef BRAID_FLEET_LINK_H
#define BRAID_FLEET_LINK_H

#include "host_agent/fleet/message.h"

#define BRAID_FLEET_PATH	256u
#define BRAID_FLEET_HOSTS	(64u << 10)	/* of a list of names */
#define BRAID_FLEET_SUBJECTS	"tracebraid.v1."
#define BRAID_FLEET_ALARMS	"tracebraid.v1.alarm"	/* conditions that hold */
#define BRAID_FLEET_SUBJECT	256u
#define BRAID_FLEET_PAYLOAD	(768u << 10)	/* most bytes of a message */
#define BRAID_FLEET_MS		1000000ULL

enum braid_fleet_streams {
	BRAID_FLEET_STREAMS_NOTHING,
	BRAID_FLEET_STREAMS_ASKED,	/* snapshots, and what was asked for */
	BRAID_FLEET_STREAMS_ALL,	/* the whole recording */
};

/* [fleet] of the configuration */
struct braid_fleet_conf {
	char server[BRAID_FLEET_PATH];		/* "nats://HOST:PORT", "tls://..."; "": none */
	char name[BRAID_FLEET_PATH];		/* of this host; "": its hostname */
	char credentials[BRAID_FLEET_PATH];	/* a file; "": none */
	char ca[BRAID_FLEET_PATH];		/* a file of certificates; "": the system's */
	char inbox[BRAID_FLEET_PATH];		/* of subjects for answers; "": _INBOX */
	char hosts[BRAID_FLEET_HOSTS];		/* that must answer, separated by blanks */
	char join[BRAID_FLEET_PATH];		/* take a snapshot when these hosts do: a glob */
	enum braid_fleet_streams streams;	/* what goes into the store */
	u64 stream_bytes;			/* of files that wait for the store */
	u64 stream_sync_ns;	/* from an acknowledgement until a file is removed */
};

struct braid_fleet_link;

struct braid_fleet_packet {
	char subject[BRAID_FLEET_SUBJECT];
	char reply[BRAID_FLEET_SUBJECT];	/* "": none is wanted */
	bool no_responders;	/* no program has subscribed to the subject of the request */
	/* What the store answers with a message of its own: */
	bool missing;		/* there is no such message */
	u64 sequence;		/* of the message; 0: it is not one of the store */
	char of[BRAID_FLEET_SUBJECT];	/* the message's subject */
	size_t bytes;
	char data[];
};

/**
 * braid_fleet_open - connect
 * @out: set on success
 * @conf: to which server, with which credentials: they are read now
 * @name: of the connection, for the server
 * @confine: called before the library begins its threads; 0 or -errno with braid_fail(); or NULL
 * @waits: if the server is away, return 0, and connect when it is there
 *
 * A connection that breaks is made again, for as long as the link is open.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_fleet_open(struct braid_fleet_link **out, const struct braid_fleet_conf *conf,
		     const char *name, int (*confine)(void), bool waits);

/** braid_fleet_close - NULL is fine */
void braid_fleet_close(struct braid_fleet_link *link);

/** braid_fleet_subscribe - to a subject. Return: 0, or -errno with braid_fail() */
int braid_fleet_subscribe(struct braid_fleet_link *link, const char *subject);

/**
 * braid_fleet_publish - send a message
 * @reply: where answers are wanted; NULL: nowhere
 *
 * Return: 0; -EAGAIN: the server is away, and what waits for it has no more room; -errno with
 * braid_fail().
 */
int braid_fleet_publish(struct braid_fleet_link *link, const char *subject, const char *reply,
			const char *data, size_t bytes);

/**
 * braid_fleet_publish_to_store - send a message that the store takes once
 * @id: the same of a repeated message
 * @after: the sequence of the last message of this subject; 0: there is none. If that is not so,
 * the store refuses it
 *
 * Otherwise as braid_fleet_publish().
 */
int braid_fleet_publish_to_store(struct braid_fleet_link *link, const char *subject,
				 const char *reply, const struct braid_text *data, const char *id,
				 u64 after);

/** braid_fleet_flush - wait until all is at the server. Return: 0, or -errno with braid_fail() */
int braid_fleet_flush(struct braid_fleet_link *link);

/** braid_fleet_fd - is readable when braid_fleet_take() has something */
int braid_fleet_fd(const struct braid_fleet_link *link);

/** braid_fleet_take - the next message, to be freed; NULL: none. It does not wait */
struct braid_fleet_packet *braid_fleet_take(struct braid_fleet_link *link);

/** braid_fleet_is_connected - now; else @why is what the library says, perhaps nothing */
bool braid_fleet_is_connected(struct braid_fleet_link *link, char why[BRAID_FLEET_SUBJECT]);

/** braid_fleet_connections - how often it was connected again: what was under way may be lost */
u64 braid_fleet_connections(struct braid_fleet_link *link);

/** braid_fleet_denied - take what the server has refused since then. Return: false: nothing */
bool braid_fleet_denied(struct braid_fleet_link *link, char line[BRAID_FLEET_SUBJECT]);

/** braid_fleet_dropped - messages that came while too many waited; never forgotten */
u64 braid_fleet_dropped(struct braid_fleet_link *link);

/** braid_fleet_inbox - the prefix of this link's own subjects for answers */
const char *braid_fleet_inbox(const struct braid_fleet_link *link);

#endif /* BRAID_FLEET_LINK_H */
