/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Analyses and exports ----------------------------------------------------------------------- */
#ifndef TRACEBRAID_OUTPUT_H
#define TRACEBRAID_OUTPUT_H

#ifndef TRACEBRAID_TRACEBRAID_H
#error "include tracebraid/tracebraid.h, which includes this file"
#endif

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/**
 * tracebraid_analyze - run one of the analyses of `tracebraid analyze`
 * @trace: without a walk
 * @name: "summary", "steal" or another of those that tracebraid_analysis() returns
 * @options: "OPTION=VALUE" with the options of `tracebraid analyze`, then NULL; or NULL: "stream",
 *	"cpu", "task", "top", "by", "symbols", "since", "until"
 * @json: set on success: the output of --json; to be freed by tracebraid_free()
 *
 * Return: 0, or a negative errno: -EINVAL: @options are not valid, or do not apply to the analysis;
 * -ENOENT: no such stream; -ENODATA: the trace lacks the events that it needs; -EBUSY: there is a walk;
 * -EINTR: stopped.
 */
int tracebraid_analyze(struct tracebraid_trace *trace, const char *name,
		       const char *const *options, char **json);

/**
 * tracebraid_analyze_to - likewise, written to a file
 * @trace: without a walk
 * @against: another trace without a walk: write how @trace differs from it, as `tracebraid analyze
 *	--against` does; NULL: write the analysis of @trace
 * @name: as for tracebraid_analyze()
 * @options: likewise, and "json", "csv", or "folded" for flame graphs with "weight=time" (default) or
 *	"weight=count", or for speedscope with "speedscope"; without one of the first three: tables for people
 * @path: of the output, as for tracebraid_export()
 *
 * Return: 0, or a negative errno, as tracebraid_analyze(); -EBUSY also if @against is @trace; -EPIPE: the
 * reader of standard output is gone.
 */
int tracebraid_analyze_to(struct tracebraid_trace *trace, struct tracebraid_trace *against,
			  const char *name, const char *const *options, const char *path);

/**
 * tracebraid_analyze_check - check the arguments of tracebraid_analyze_to(), before captures are opened
 * @name: as for it
 * @options: likewise
 * @compares: 1: there will be a second trace; else 0
 *
 * Return: 0, or -EINVAL.
 */
int tracebraid_analyze_check(const char *name, const char *const *options, int compares);

/** tracebraid_analysis - an analysis' name by its number, from 0; NULL after the last; sets @help: the question that it answers */
const char *tracebraid_analysis(size_t number, const char **help);

/**
 * tracebraid_analysis_takes - whether an analysis takes an option that not all take
 * @name: of the analysis
 * @option: "by=task", "by=guest", "by=syscall", "by=function", "task", "symbols", "folded", or "against": a second trace
 *
 * Return: 1 or 0; -EINVAL: no such analysis or option.
 */
int tracebraid_analysis_takes(const char *name, const char *option);

/**
 * tracebraid_export - write a trace for another tool
 * @trace: without a walk
 * @form: "perfetto", "ctf", "trace.dat", "html", "text", "json", "stats" or another of those that
 *	tracebraid_form() returns
 * @path: of the output, which is replaced when it is complete; not a capture of the trace. "-": the
 *	program's stdout, for forms of one file
 * @select: as for tracebraid_walk_new(), and "cpus=N": use N threads, where the form can; the
 *	functions for progress and warnings may then be called from another thread, never from two at
 *	once. "symbols=FOLDER": where the guests' programs are, whose functions the profile in html and
 *	perfetto names. "states" adds vCPUs' states as events to trace.dat and ctf. "uncertain" and
 *	"no-header" are those of `tracebraid report`; forms other than text and json ignore them
 *
 * The header of "text" has the number of faults found so far: those of the whole trace if it was opened
 * with "read=all".
 *
 * Return: 0, or a negative errno: -EPIPE: the reader of standard output is gone; -EINTR: stopped.
 */
int tracebraid_export(struct tracebraid_trace *trace, const char *form, const char *path,
		      const char *const *select);

/**
 * tracebraid_export_check - check the arguments of tracebraid_export(), before captures are opened
 * @form: as for it
 * @path: likewise
 * @select: likewise; whether its names are in the trace is not checked
 *
 * Return: 0, or -EINVAL.
 */
int tracebraid_export_check(const char *form, const char *path, const char *const *select);

/** tracebraid_form - a form's name by its number, from 0; NULL after the last; sets @help: what it writes, and which tool opens that */
const char *tracebraid_form(size_t number, const char **help);

/* What an export has written. */
struct tracebraid_totals {
	uint64_t events;
	uint64_t lines;		/* events, losses and notes */
	uint64_t lost;		/* events that were lost ... */
	int some_lost;		/* ... and others, not counted */
};

/** tracebraid_totals - what the last export of a trace has written. Return: 0; -ENODATA: there was none, or it failed */
int tracebraid_totals(const struct tracebraid_trace *trace, struct tracebraid_totals *totals);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* TRACEBRAID_OUTPUT_H */
