/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The store of the fleet: a stream of the server's JetStream, in which each capture, and each mark,
 * is a sequence of messages of a subject of its own. docs/fleet.md has their format.
 */
#ifndef BRAID_FLEET_STORE_H
#define BRAID_FLEET_STORE_H

#include <stdint.h>

#include "host_agent/fleet/link.h"

#define BRAID_STORE		"tracebraid"	/* the stream */
#define BRAID_STORE_SUBJECTS	"tracebraid.store.v1."	/* then HOST.NAME */
#define BRAID_STORE_READ	"$JS.API.DIRECT.GET." BRAID_STORE
#define BRAID_STORE_CHUNK	((size_t)256 << 10)
#define BRAID_STORE_MOST_MARK	((size_t)4 << 20)	/* bytes of a mark */
#define BRAID_STORE_MARK	"tracebraid-mark 1"	/* the first line of a mark */
#define BRAID_STORE_CHECK	20u

/* A message of a capture or a mark. */
struct braid_store_piece {
	u64 number;		/* from 0 */
	u64 from;		/* the offset of its first byte */
	bool end;		/* it has no bytes, and is the last one */
	u64 lost;		/* END: bytes that the host could not store; or: */
#define BRAID_STORE_UNKNOWN	UINT64_MAX
	char check[BRAID_STORE_CHECK];	/* END: XXH3 of all that is stored */
	const char *data;
	size_t bytes;
};

/**
 * braid_store_piece_read - parse a message of the store
 * @piece: set on success; its data is in @data
 * @data: of any content
 * @bytes: of it
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_store_piece_read(struct braid_store_piece *piece, const char *data, size_t bytes);

/** braid_store_piece_put - make one; its data, if any, is to be appended by the caller */
void braid_store_piece_put(struct braid_text *out, const struct braid_store_piece *piece);

/** braid_store_subject - of a capture or mark of a host */
void braid_store_subject(char subject[BRAID_FLEET_SUBJECT], const char *host, const char *name);

/**
 * braid_store_subject_read - take a subject apart
 * @subject: that a server sent
 * @host: set on success
 * @name: likewise
 *
 * Return: false: it is not one of the store, or has a name that is not valid.
 */
bool braid_store_subject_read(const char *subject, char host[BRAID_FLEET_NAME],
			      char name[BRAID_FLEET_NAME]);

/* What the store has answered to a message. */
struct braid_store_answer {
	u64 sequence;		/* it is stored as this one; 0: it was refused */
	bool differs;		/* because the last message of the subject is another one */
	char why[BRAID_FLEET_SUBJECT];	/* likewise, by the server */
};

/** braid_store_answer_read - parse it; @data is of any content */
void braid_store_answer_read(struct braid_store_answer *a, const char *data, size_t bytes);

/** braid_store_mark_next - the next name of a mark's text. Return: NULL: there is none */
const char *braid_store_mark_next(const char **at, const char *end, char name[BRAID_FLEET_NAME]);

/** braid_store_mark_is - whether a text is a mark; @at is set to what follows its first line */
bool braid_store_mark_is(const char *text, size_t bytes, const char **at);

#endif /* BRAID_FLEET_STORE_H */
