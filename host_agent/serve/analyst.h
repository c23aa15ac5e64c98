/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process that follows the recording: it sums up, compares with rules, and answers scrapes.
 *
 * Invariants:
 * - It reads what guests have written, so it has no capability, starts no process, and writes no
 *   file.
 * - It learns of the recording from the files alone. One that it was too slow for is gone, and
 *   counted.
 * - It sends the service a line for each rule that fires, and regularly that it is alive.
 */
#ifndef BRAID_SERVE_ANALYST_H
#define BRAID_SERVE_ANALYST_H

#include <sys/types.h>

#include "host_agent/serve/conf.h"
#include "host_agent/serve/exporter.h"

/* A message to the service. */
struct braid_analyst_message {
	enum { BRAID_ANALYST_ALIVE, BRAID_ANALYST_FIRED, BRAID_ANALYST_WATCHES } kind;
	bool records;			/* it has found a file of the recording */
	u32 guests;			/* in it */
	u32 watch;			/* WATCHES, FIRED: its number; 0: none */
	/* FIRED: */
	char guest[64];
	char rule[BRAID_RULE_TEXT];
	char what[16];			/* for a file's name: "stolen" */
	char line[BRAID_RULE_LINE];
	u64 host_ns;			/* when, by the host's clock */
};

/* What the service says of itself, for the metrics. */
struct braid_analyst_news {
	u64 magic;			/* BRAID_ANALYST_NEWS: it is no text */
	u64 snapshots;
	pid_t recorder;			/* 0: none */
	pid_t fleet, store;		/* likewise: what speaks to the server; to its store */
	bool streams;			/* captures go into that, */
	u64 stored, waiting, lost;	/* in bytes */
};

#define BRAID_ANALYST_NEWS	0xff7377656e2d62ffULL

/* A condition that the fleet waits for. */
struct braid_analyst_watch {
	u64 magic;			/* BRAID_ANALYST_WATCH: it is no text */
	u32 number;			/* not 0 */
	bool over;
	char text[BRAID_RULE_TEXT];	/* it is valid */
	char guests[64];
};

#define BRAID_ANALYST_WATCH	0xff68637461772dffULL
#define BRAID_ANALYST_MOST_WATCHES	4u

struct braid_analyst_options {
	const char *directory;		/* of the recording's files: window-1.braid, ... */
	struct braid_conf *conf;
	struct braid_exporter *exporter;	/* listens */
	int fd;				/* of a SOCK_SEQPACKET; its end ends this process. From it
					   come struct braid_analyst_news and _watch, and the text
					   of another configuration, of which the rules count */
	int (*confine)(void);		/* 0 or -errno with braid_fail() */
};

/**
 * braid_analyst_run - follow the recording, until the service ends
 *
 * Return: 0 or -errno with braid_fail().
 */
int braid_analyst_run(const struct braid_analyst_options *o);

/** braid_analyst_clean - make a message plain texts: a confined process is not trusted */
void braid_analyst_clean(struct braid_analyst_message *m);

/** braid_analyst_number - parse the number in a file's name. Return: 0: another kind of file */
u32 braid_analyst_number(const char *name);

#endif /* BRAID_SERVE_ANALYST_H */
