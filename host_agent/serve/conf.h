/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The service's configuration: a file of sections, or the options of `tracebraid watch`. */
#ifndef BRAID_SERVE_CONF_H
#define BRAID_SERVE_CONF_H

#include "host_agent/fleet/link.h"
#include "host_agent/serve/rules.h"

#define BRAID_CONF_FILE		"/etc/tracebraid.conf"
#define BRAID_CONF_BYTES	(64u << 10)	/* of a file, at most */
#define BRAID_CONF_PATH		256u
#define BRAID_CONF_LISTENS	8u
#define BRAID_CONF_GUESTS	(64u << 10)	/* of a list of names */
#define BRAID_CONF_NONE		"none"	/* host_events: the host is not recorded */
#define BRAID_CONF_WORDS	64u	/* of options that select what guests record */
#define BRAID_CONF_WORD		(BRAID_CONF_PATH + 16)

/* Options of `tracebraid record`, in their order: a filter belongs to the events before it. */
struct braid_conf_chosen {
	char words[BRAID_CONF_WORDS][BRAID_CONF_WORD];	/* "--event=sched" */
	int lines[BRAID_CONF_WORDS];			/* of the file */
	size_t nr;
};

struct braid_conf {
	/* [record] */
	struct braid_conf_chosen chosen;	/* what guests record */
	char host_events[BRAID_CONF_PATH];	/* "": the usual ones; or BRAID_CONF_NONE */
	char guests[BRAID_CONF_GUESTS];		/* names, separated by blanks; "": all */
	char peers[BRAID_CONF_GUESTS];		/* hosts to exchange times with, likewise */
	char peer_listen[BRAID_CONF_PATH];	/* [ADDRESS:]PORT; "": others are not answered */
	u64 peer_rate;				/* in a second; 0: the usual one */
	u64 window_bytes;			/* of events that are kept for a snapshot */
	u64 window_ns;
	/* [metrics] */
	char listens[BRAID_CONF_LISTENS][BRAID_CONF_PATH];	/* "127.0.0.1:9464", "unix:/run/..." */
	size_t nr_listens;
	u64 culprits;				/* rows of a guest */
	/* [snapshots] */
	char directory[BRAID_CONF_PATH];	/* "": none are taken */
	char hook[BRAID_CONF_PATH];		/* a program; "": none */
	u64 max_bytes;				/* of the directory; 0: any */
	u64 max_age_ns;				/* likewise */
	u64 apart_ns;				/* from one to the next */
	struct braid_fleet_conf fleet;		/* [fleet] */
	/* [watch GLOB] */
	struct braid_rules rules;
};

/**
 * braid_conf_choose - add an option that selects what guests record
 * @chosen: the options
 * @option: its name, without dashes
 * @value: its value; NULL: it has none
 * @line: of the file; 0: it has none
 *
 * Return: 0, or -errno with braid_fail(): there are too many, or the value is too long.
 */
int braid_conf_choose(struct braid_conf_chosen *chosen, const char *option, const char *value,
		      int line);

/** braid_conf_add_triggers - a rule for each chosen trigger; 0, or -ENOSPC with braid_fail() */
int braid_conf_add_triggers(struct braid_conf *conf);

/** braid_conf_default - without a file: nothing listens, nothing is watched */
void braid_conf_default(struct braid_conf *conf);

/**
 * braid_conf_text - read a file's text
 * @text: free it
 * @path: the file
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_conf_text(char **text, const char *path);

/**
 * braid_conf_read - read a file
 * @conf: filled on success; free its rules
 * @path: the file
 *
 * Return: 0, or -errno with braid_fail(): the first line that is not valid, and why.
 */
int braid_conf_read(struct braid_conf *conf, const char *path);

/**
 * braid_conf_parse - likewise, of a text
 * @name: of the file, for messages
 */
int braid_conf_parse(struct braid_conf *conf, const char *text, const char *name);

#endif /* BRAID_SERVE_CONF_H */
