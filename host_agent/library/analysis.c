// SPDX-License-Identifier: GPL-2.0-or-later
/* Analyses of a whole trace. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/export/export.h"
#include "host_agent/library/private.h"
#include "host_agent/trace/binaries.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/analysis.h"

#define DEFAULT_TOP	10u

/* Which ----------------------------------------------------------------------------------------- */

/* Options that not every analysis takes. */
static const struct {
	const char *name;
	enum braid_analysis_option option;
} limited[] = {
	{ "by=task", BRAID_ANALYSIS_BY_TASK },
	{ "by=guest", BRAID_ANALYSIS_BY_GUEST },
	{ "by=syscall", BRAID_ANALYSIS_BY_CALL },
	{ "by=function", BRAID_ANALYSIS_BY_CALL },
	{ "folded", BRAID_ANALYSIS_FOLDED },
	{ "task", BRAID_ANALYSIS_ONE_TASK },
	{ "symbols", BRAID_ANALYSIS_SYMBOLS },
	{ "against", BRAID_ANALYSIS_COMPARES },
};

const char *braid_library_limited(size_t number)
{
	return number < sizeof(limited) / sizeof(*limited) ? limited[number].name : NULL;
}

const char *tracebraid_analysis(size_t number, const char **help)
{
	const struct braid_analysis *analysis = braid_analysis_by_number(number);

	*help = analysis ? analysis->help : "";
	return analysis ? analysis->name : NULL;
}

int tracebraid_analysis_takes(const char *name, const char *option)
{
	const struct braid_analysis *analysis = braid_analysis_by_name(name);
	size_t k;

	for (k = 0; analysis && k < sizeof(limited) / sizeof(*limited); k++)
		if (!strcmp(option, limited[k].name))
			return braid_analysis_takes(analysis, limited[k].option);
	return !analysis ? -EINVAL : braid_fail(-EINVAL, "'%.63s' is not an option that only some analyses take",
						option);
}

/* @word: as the caller wrote it; NULL: not given. Return: 0, or -EINVAL with braid_fail(). */
static int check_takes(const struct braid_analysis *analysis, enum braid_analysis_option option,
		       const char *word)
{
	char names[BRAID_ANALYSIS_NAMES];

	if (!word || braid_analysis_takes(analysis, option))
		return 0;
	return braid_fail(-EINVAL, "%.63s does not apply to %s: use it with %s", word, analysis->name,
			  braid_analysis_names(option, names));
}

static int check_limited(const struct braid_analysis *analysis, const char *const *words)
{
	const char *by = braid_library_word(words, "by");
	size_t k;
	int err = check_takes(analysis, BRAID_ANALYSIS_ONE_TASK, braid_library_word(words, "task"));

	for (k = 0; by && !err && k < sizeof(limited) / sizeof(*limited); k++)
		if (!strcmp(limited[k].name, by + strlen(braid_library_dashes(by))))
			err = check_takes(analysis, limited[k].option, by);
	return err ?: check_takes(analysis, BRAID_ANALYSIS_FOLDED, braid_library_word(words, "folded")) ?:
	       check_takes(analysis, BRAID_ANALYSIS_SYMBOLS, braid_library_word(words, "symbols"));
}

/* Which of them cannot be combined. */
static int check_combination(const struct braid_library_select *s, const char *const *words,
			     bool compares)
{
	const char *dashes = braid_library_dashes(s->word ?: "");

	if (s->folded && (s->json || s->csv))
		return braid_fail(-EINVAL, "%sfolded cannot be combined with %sjson or %scsv", dashes, dashes, dashes);
	if (s->weight && !s->folded)
		return braid_fail(-EINVAL, "%.63s needs %sfolded", braid_library_word(words, "weight"), dashes);
	if (s->speedscope && !s->folded)
		return braid_fail(-EINVAL, "%sspeedscope needs %sfolded", dashes, dashes);
	if (compares && (s->by || s->folded))
		return braid_fail(-EINVAL, "%sby and %sfolded do not apply to a comparison", dashes, dashes);
	if ((s->against[0].kind || s->against[1].kind) && !compares)
		return braid_fail(-EINVAL, "%sagainst-since and %sagainst-until need a comparison", dashes, dashes);
	if (s->json && s->csv)
		return braid_fail(-EINVAL, "%sjson cannot be combined with %scsv", dashes, dashes);
	return 0;
}

/* @s: filled; to be freed in any case. Return: 0, or -errno with braid_fail(). */
static int choose(struct braid_library_select *s, struct braid_analysis_options *wants,
		  const struct braid_analysis **analysis, const char *name,
		  const char *const *options, bool compares, enum braid_library_use use)
{
	int err = braid_library_parse(s, options, use);
	char names[BRAID_ANALYSIS_NAMES];

	*analysis = err ? NULL : braid_analysis_by_name(name);
	if (!*analysis)
		return err ?: -EINVAL;
	if (compares && !braid_analysis_takes(*analysis, BRAID_ANALYSIS_COMPARES))
		return braid_fail(-EINVAL, "%s cannot compare two captures; %s can", name,
				  braid_analysis_names(BRAID_ANALYSIS_COMPARES, names));
	if (check_limited(*analysis, options) || check_combination(s, options, compares))
		return -EINVAL;
	*wants = (struct braid_analysis_options){
		.top = s->top ?: DEFAULT_TOP, .stream = s->options.stream,
		.one_cpu = s->options.one_cpu, .cpu = s->options.cpu,
		.one_task = braid_library_word(options, "task"), .task = s->task,
		.by_task = s->by == BRAID_BY_TASK, .by_guest = s->by == BRAID_BY_GUEST,
		.by_call = s->by == BRAID_BY_SYSCALL,
		.by_function = s->by == BRAID_BY_FUNCTION,
		.folded = s->folded, .by_count = s->weight == BRAID_WEIGHT_COUNT,
		.speedscope = s->speedscope,
		.compares = (*analysis)->compares,
		.form = s->json ? BRAID_TABLE_JSON : s->csv ? BRAID_TABLE_CSV : BRAID_TABLE_TEXT,
	};
	return 0;
}

int tracebraid_analyze_check(const char *name, const char *const *options, int compares)
{
	const struct braid_analysis *analysis;
	struct braid_analysis_options wants;
	struct braid_library_select s;
	int err = choose(&s, &wants, &analysis, name, options, compares, BRAID_LIBRARY_TABLES);

	braid_library_select_free(&s);
	return err;
}

/* Running --------------------------------------------------------------------------------------- */

/* @against: to compare with; or NULL. @s: of choose(). */
static int analysis_run(FILE *to, struct tracebraid_trace *trace, struct tracebraid_trace *against,
			const struct braid_analysis *analysis, struct braid_library_select *s,
			struct braid_analysis_options *wants)
{
	struct braid_walk_options of_other;
	int err = braid_select_check(&s->options, trace->source);

	if (!err && against)
		err = braid_select_check(&s->options, against->source);
	s->options.stop = trace->stop;
	braid_library_report_progress(&s->options);
	if (!err && s->options.symbols)
		err = braid_binaries_open(&wants->binaries, s->options.symbols);
	if (!err && !against)
		err = braid_analysis_write(to, trace->source, &s->options, analysis, wants);
	braid_binaries_free(wants->binaries);
	if (err || !against)
		return err;
	wants->names[0] = trace->paths[0];
	wants->names[1] = against->paths[0];
	of_other = s->options;
	if (s->against[0].kind || s->against[1].kind) {
		of_other.from = s->against[0];
		of_other.to = s->against[1];
	}
	return braid_analysis_diff(to, trace->source, &s->options, against->source, &of_other, wants);
}

int tracebraid_analyze(struct tracebraid_trace *trace, const char *name,
		       const char *const *options, char **json)
{
	const struct braid_analysis *analysis;
	struct braid_analysis_options wants;
	struct braid_library_select s;
	char *text = NULL;
	size_t bytes;
	FILE *to = NULL;
	int err = braid_library_claim(trace);

	if (err)
		return err;
	err = choose(&s, &wants, &analysis, name, options, false, BRAID_LIBRARY_ANALYSIS);
	wants.form = BRAID_TABLE_JSON;
	if (!err)
		to = open_memstream(&text, &bytes);
	if (!err)
		err = to ? analysis_run(to, trace, NULL, analysis, &s,
					&wants) : braid_out_of_memory();
	if (to && fclose(to) && !err)
		err = braid_out_of_memory();
	braid_library_select_free(&s);
	braid_library_release(trace);
	if (err)
		free(text);
	else
		*json = text;
	return err;
}

/* Both traces were claimed. */
static int write_to(const char *path, struct tracebraid_trace *trace,
		    struct tracebraid_trace *against, const char *name, const char *const *options)
{
	size_t nr = trace->nr_paths, nr_against = against ? against->nr_paths : 0;
	char **paths = calloc(nr + nr_against, sizeof(*paths));
	struct braid_walk_options inputs = { .inputs = paths, .nr_inputs = nr + nr_against };
	const struct braid_analysis *analysis;
	struct braid_analysis_options wants;
	struct braid_library_select s;
	struct braid_export_file file;
	int err = choose(&s, &wants, &analysis, name, options, against, BRAID_LIBRARY_TABLES);

	if (!err && !paths)
		err = braid_out_of_memory();
	if (!err) {
		memcpy(paths, trace->paths, nr * sizeof(*paths));
		if (against)
			memcpy(paths + nr, against->paths, nr_against * sizeof(*paths));
		err = braid_export_file_open(&file, path, &inputs);
	}
	if (!err)
		err = braid_export_file_close(&file, analysis_run(file.to, trace, against, analysis,
								  &s, &wants));
	braid_library_select_free(&s);
	free(paths);
	return err;
}

int tracebraid_analyze_to(struct tracebraid_trace *trace, struct tracebraid_trace *against,
			  const char *name, const char *const *options, const char *path)
{
	int err;

	if (against == trace)
		return braid_fail(-EBUSY, "a trace cannot be compared with itself: open its files twice");
	err = braid_library_claim(trace);
	if (err)
		return err;
	if (against)
		err = braid_library_claim(against);
	if (!err) {
		err = write_to(path, trace, against, name, options);
		if (against)
			braid_library_release(against);
	}
	braid_library_release(trace);
	return err;
}
