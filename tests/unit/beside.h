/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A print format as the agent compiles it, beside libtraceevent. */
#ifndef BRAID_TESTS_BESIDE_H
#define BRAID_TESTS_BESIDE_H

#include <traceevent/event-parse.h>

#include "host_agent/format/program.h"

#define BESIDE_ROUNDS	400u	/* payloads; some must be valid then */

struct beside {
	struct tep_handle *tep;
	struct tep_event *event;
	struct braid_layout *layout;
	struct braid_format_program *steps;
	const char *why;		/* there are no steps */
	const char *print;
};

/**
 * beside_parse - parse a format
 * @p: set; beside_free() it in any case
 * @system: of the event
 * @format: from "format:" on
 * @library: by libtraceevent too, which crashes on some; else it has the fields alone
 *
 * Return: whether it was compiled.
 */
bool beside_parse(struct beside *p, const char *system, const char *format, bool library);

void beside_free(struct beside *p);

/** beside_holds - whether the format may print a payload */
bool beside_holds(const struct beside *p, const u8 *data, u32 bytes);

/** beside_fields - whether both have the same fields */
bool beside_fields(const struct beside *p);

/** beside_compare - whether both print the same, for random payloads */
bool beside_compare(const struct beside *p, u32 rounds);

/** beside_pick - a random number below @nr, the same ones each time */
u32 beside_pick(u32 nr);

#endif /* BRAID_TESTS_BESIDE_H */
