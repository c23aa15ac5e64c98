/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Filters: checks a program as if an enemy had written it, and runs it over a record. */
#ifndef BRAID_SHARED_FILTER_H
#define BRAID_SHARED_FILTER_H

#include "shared/platform.h"
#include "tracebraid/abi.h"

/* Steps of globs in one run; a program that needs more has no verdict. */
#define BRAID_FILTER_GLOB_STEPS	65536u

enum braid_filter_verdict {
	BRAID_FILTER_DROP,
	BRAID_FILTER_PASS,
	BRAID_FILTER_UNJUDGED,	/* to be written too: never drop what can't be judged */
};

/* Questions about tasks, by their numbers; in any context. */
struct braid_filter_tasks {
	bool (*in_cgroup)(s32 task, u64 id);
	bool (*is_chosen)(s32 task);
};

/* What a program sees. All is memory that the peer can't change. */
struct braid_filter_record {
	const u8 *bytes;	/* from struct braid_record on */
	u32 nr_bytes;
	u32 cpu;
	const char *comm;	/* of BRAID_COMM_BYTES; may change meanwhile */
	const struct braid_filter_tasks *tasks;
};

/**
 * braid_filter_check - whether a program is safe to run
 * @program: a private copy
 *
 * Return: 0; -EINVAL; -EOPNOTSUPP: another version.
 */
int braid_filter_check(const struct braid_filter_program *program);

/**
 * braid_filter_run - decide on a record
 * @program: checked, with instructions
 * @record: the record
 *
 * Context: any. Each instruction runs once at most.
 */
enum braid_filter_verdict braid_filter_run(const struct braid_filter_program *program,
					   const struct braid_filter_record *record);

/**
 * braid_filter_glob - whether a glob matches a whole string
 * @glob: ends with NUL
 * @text: ends with NUL or after @bytes
 * @steps: how many are left; decremented, and when 0 the result means nothing
 */
bool braid_filter_glob(const char *glob, const char *text, u32 bytes, u32 *steps);

#endif /* BRAID_SHARED_FILTER_H */
