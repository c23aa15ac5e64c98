/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The recorder that the service starts. */
#ifndef BRAID_SERVE_RECORDER_H
#define BRAID_SERVE_RECORDER_H

#include "host_agent/library/program.h"
#include "host_agent/serve/conf.h"

#define BRAID_RECORDED_MOST	(BRAID_CONF_WORDS + BRAID_RULES_MOST + 1)

/* The guests' events that a recorder was started with. */
struct braid_recorded {
	char words[BRAID_RECORDED_MOST][BRAID_CONF_WORD];	/* "--event=sched,irq" */
	size_t nr, nr_added;	/* the first nr_added are those of conditions and defaults */
	bool probes;		/* and some of --kprobe or --uprobe */
};

/**
 * braid_recorder_start - start one
 * @p: the process
 * @conf: what it records
 * @directory: for its files
 * @program: tracebraid
 * @recorded: set
 *
 * Events that rules name are recorded, too. Return: 0, or -errno with braid_fail().
 */
int braid_recorder_start(struct braid_program *p, const struct braid_conf *conf,
			 const char *directory, const char *program,
			 struct braid_recorded *recorded);

/**
 * braid_recorder_records - whether the event that a rule names is recorded
 * @recorded: of the recorder
 * @rule: any
 *
 * Return: 0; or -ENOENT with braid_fail().
 */
int braid_recorder_records(const struct braid_recorded *recorded, const struct braid_rule *rule);

#endif /* BRAID_SERVE_RECORDER_H */
