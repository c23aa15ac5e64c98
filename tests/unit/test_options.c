// SPDX-License-Identifier: GPL-2.0-or-later
/* The tables of options: accepted and refused values, printed texts, and consistency. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/top.h"
#include "host_agent/cli/trace_options.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/run_command.h"
#include "tracebraid/tracebraid.h"

static const struct braid_cli_command *const commands[] = {
	&braid_command_analyze, &braid_command_attach, &braid_command_clock, &braid_command_create, &braid_command_detach,
	&braid_command_export, &braid_command_list, &braid_command_merge, &braid_command_pack, &braid_command_record,
	&braid_command_recover, &braid_command_report, &braid_command_serve, &braid_command_snapshot,
	&braid_command_sql,
	&braid_command_stat, &braid_command_top, &braid_command_unpack, &braid_command_verify, &braid_command_watch,
};

#define NR_COMMANDS	(sizeof(commands) / sizeof(commands[0]))

struct state {
	bool flag;
	const char *text, *maybe, *glob;
	u64 count;
	double seconds;
	unsigned int word;
	struct braid_option_list list;
	int nr_maybe, nr_globs;
};

static int take_maybe(const struct braid_option *o, void *to, const char *value)
{
	struct state *s = to;

	(void)o;
	s->nr_maybe++;
	s->maybe = value;
	return 0;
}

static int take_glob(const struct braid_option *o, void *to, const char *value)
{
	struct state *s = to;

	(void)o;
	s->nr_globs++;
	s->glob = value;
	return 0;
}

static const struct braid_option options[] = {
	{ 'f', "flag", NULL, BRAID_FLAG(struct state, flag), "a flag" },
	{ 't', "text", "TEXT", BRAID_STRING(struct state, text), "a text" },
	{ 'n', "count", "COUNT", BRAID_COUNT(struct state, count), "a number", .least = 1, .most = 7 },
	{ 0, "hold", "SECONDS", BRAID_DURATION(struct state, seconds), "a duration" },
	{ 'w', "word", "WORD", BRAID_WORD(struct state, word), "a word",
	  .values = "one three thr two" },
	{ 'l', "list", "ITEM", BRAID_LIST(struct state, list), "a list" },
	{ 0, "maybe", "[=VALUE]", .take = take_maybe, .help = "with a value or without" },
	{ 'e', "events", "[GLOB]", .take = take_glob, .help = "likewise, the next word" },
	{ 0 },
};

static const struct braid_option common[] = {
	{ 'x', "extra", NULL, BRAID_FLAG(struct state, flag), "a common one" },
	{ 0 },
};

static struct braid_cli_command command = {
	.name = "try", .summary = "a try", .usage = "[OPTION]... WORD\n-e [GLOB]",
	.text = "One paragraph.\nAnother one, of so many words that it does not fit into a single "
		"line of the help, which therefore has two.",
	.options = options, .common = common, .notes = "A note.", .operands = "@file",
	.most = 2, .expected = "at most two words",
};

static struct state state;

#define CAPTURE	"/tmp/test_options.braid"

#define PARSE(...)	parse((const char *const[]){ "try", __VA_ARGS__, NULL })

static int parse(const char *const *words)
{
	static char *argv[16];
	int argc;

	free(state.list.items);
	memset(&state, 0, sizeof(state));
	for (argc = 0; words[argc]; argc++)
		argv[argc] = (char *)words[argc];
	argv[argc] = NULL;
	return braid_options_parse(&command, &state, argc, argv);
}

static void values(void)
{
	CHECK(!PARSE("-f", "-t", "x y", "--count=7", "a", "--hold", "500ms", "-wthr", "b"));
	CHECK(state.flag && !strcmp(state.text, "x y") && state.count == 7);
	CHECK(state.seconds == 0.5 && state.word == 2);
	CHECK(!PARSE("-w", "two") && state.word == 3);
	CHECK(!PARSE("--hold=2m") && state.seconds == 120);
	CHECK(!PARSE("--hold=1h") && state.seconds == 3600);
	CHECK(!PARSE("--hold=0.25") && state.seconds == 0.25);
	CHECK(!PARSE("-l", "a", "--list=b"));
	CHECK(state.list.nr == 2 && !strcmp(state.list.items[1], "b"));
	CHECK(!PARSE("--maybe", "a") && state.nr_maybe == 1 && !state.maybe);
	CHECK(!PARSE("--maybe=a") && !strcmp(state.maybe, "a"));
	CHECK(!PARSE("-e", "sched", "a") && !strcmp(state.glob, "sched"));
	CHECK(!PARSE("-e", "-f", "a") && state.nr_globs == 1 && !state.glob && state.flag);
	CHECK(!PARSE("--events") && state.nr_globs == 1 && !state.glob);
	CHECK(!PARSE("-x") && state.flag);
	CHECK(!PARSE("--tex=abbreviated") && !strcmp(state.text, "abbreviated"));
}

static void operands(void)
{
	static const char *const words[] = { "try", "cmd", "-f", NULL };

	CHECK(!PARSE("a", "b") && !PARSE("a", "--", "-f") && !state.flag);
	CHECK_EQ(PARSE("a", "b", "c"), -EINVAL);
	CHECK(!strcmp(braid_failure(), "try: expected at most two words"));
	command.least = 1;
	CHECK_EQ(PARSE("-f"), -EINVAL);
	CHECK(!PARSE("a", "-f") && state.flag);
	command.stops = true;
	CHECK(!parse(words) && !state.flag && optind == 1);
	command.stops = false;
	command.least = 0;
}

static bool refused(const char *word, const char *value, const char *what)
{
	const char *const words[] = { "try", word, value, NULL };
	bool ok = parse(words) == -EINVAL && !strcmp(braid_failure(), what);

	if (!ok)
		fprintf(stderr, "%s: %s\n", word, braid_failure());
	return ok;
}

static void slips(void)
{
	CHECK(refused("--flga", NULL, "try: unknown option '--flga'; did you mean '--flag'?"));
	CHECK(refused("--wrod=one", NULL, "try: unknown option '--wrod=one'; did you mean '--word'?"));
	CHECK(refused("--extraa", NULL, "try: unknown option '--extraa'; did you mean '--extra'?"));
	CHECK(refused("--nothing", NULL,
		      "try: unknown option '--nothing'; 'tracebraid try --help' lists all"));
	CHECK(refused("-fz", NULL, "try: unknown option '-z'; 'tracebraid try --help' lists all"));
	CHECK(refused("-n", NULL, "try: '-n' needs a value: COUNT"));
	CHECK(refused("--text", NULL, "try: '--text' needs a value: TEXT"));
	CHECK(refused("--flag=1", NULL, "try: '--flag=1': --flag takes no value"));
	CHECK(refused("-n", "8", "try: --count=8: expected a number from 1 to 7"));
	CHECK(refused("-n", "0", "try: --count=0: expected a number from 1 to 7"));
	CHECK(refused("--hold", "1x",
		      "try: --hold=1x: expected a duration, such as 10, 10s, 500ms, 2m or 1h"));
	CHECK(refused("--hold", "-1",
		      "try: --hold=-1: expected a duration, such as 10, 10s, 500ms, 2m or 1h"));
	CHECK(refused("-w", "thre", "try: --word=thre: expected one, three, thr or two"));
	CHECK(refused("-w", "", "try: --word=: expected one, three, thr or two"));
}

/* Any text is a value of these: what it names may exist later, or elsewhere. */
static bool takes_any_text(const struct braid_cli_command *c, const struct braid_option *o)
{
	static const char *const names[] = {
		"output", "stream", "buffer", "comm", "connect", "domain", "filter", "from",
		"against", "host-clock", "peer", "peer-listen", "listen", "snapshots", "exec",
		"config", "guests", "cgroup", "symbols",
	};
	size_t k;

	for (k = 0; k < sizeof(names) / sizeof(names[0]); k++)
		if (!strcmp(o->name, names[k]))
			return true;
	return c == &braid_command_top && !strcmp(o->name, "region");
}

/* Whether the command refuses a value of its option in the one shape. */
static bool refuses(const struct braid_cli_command *c, const struct braid_option *o,
		    const char *value)
{
	const char *const operands[] = {
		c == &braid_command_analyze ? "steal" : "/nonexistent/x", "/nonexistent/x",
		c == &braid_command_analyze ? "--folded" : NULL, NULL,
	};
	char word[128], shape[192];
	const char *words[] = { c->name, word, operands[0], operands[1], operands[2], NULL };
	bool exports = c == &braid_command_export && strcmp(o->name, "to");
	bool ok;

	snprintf(word, sizeof(word), "--%s=%s", o->name, value);
	snprintf(shape, sizeof(shape), "tracebraid: %s: %s: ", c->name, word);
	if (exports)
		words[2] = "--to=text", words[3] = "-o/nonexistent/x", words[4] = "/nonexistent/x";
	if (o->argument[0] == '[' && o->argument[1] != '=')	/* the next word */
		snprintf(word, sizeof(word), "-%c", o->letter), words[2] = value;
	ok = run_command(c->run, words) == EXIT_FAILURE &&
	     !strncmp(printed, shape, strlen(shape)) && !strchr(printed, '\n')[1];
	if (!ok)
		fprintf(stderr, "%s %s:\n%s", c->name, word, printed);
	return ok;
}

/* A value that no option takes, and 0 where it is not a number of anything: one shape for all. */
static void refused_values(void)
{
	struct braid_option o;
	size_t k, n, nr = 0;

	for (k = 0; k < NR_COMMANDS; k++) {
		for (n = 0; braid_option_by_number(commands[k], n, &o); n++) {
			if (!o.argument || takes_any_text(commands[k], &o))
				continue;
			nr++;
			CHECK(refuses(commands[k], &o, !strcmp(o.name, "region") ? "x,name=" : "x =y"));
			CHECK(o.letter != 'n' || refuses(commands[k], &o, "0"));
		}
	}
	CHECK(nr > 40);
}

/* What was probably meant: of options, analyses, forms, streams, buffers. */
static void near_misses(void)
{
	static const struct {
		int (*run)(int argc, char **argv);
		const char *words[6], *what;
	} near[] = {
		{ braid_cmd_analyze, { "analyze", "stall", "x" }, "did you mean 'stalls'?" },
		{ braid_cmd_export, { "export", "--to", "perfeto", "-o", "x", "x" },
		  "export: --to=perfeto: unknown form 'perfeto'; did you mean 'perfetto'?" },
		{ braid_cmd_record, { "record", "--to=htm" }, "did you mean 'html'?" },
		{ braid_cmd_report, { "report", "--stream=gest1", CAPTURE }, "did you mean 'guest1'?" },
		{ braid_cmd_report, { "report", "-B", "mian", CAPTURE }, "did you mean 'main'?" },
		{ braid_cmd_report, { "report", "--stream=", CAPTURE }, "the first one is" },
		{ braid_cmd_export, { "export", "-j", CAPTURE }, "--to json" },
	};
	size_t k;

	synth_standard(CAPTURE);
	for (k = 0; k < sizeof(near) / sizeof(near[0]); k++) {
		CHECK_EQ(run_command(near[k].run, near[k].words), EXIT_FAILURE);
		if (!strstr(printed, near[k].what))
			fprintf(stderr, "%s", printed);
		CHECK(strstr(printed, near[k].what));
	}
	unlink(CAPTURE);
}

/* What trace-cmd and perf call something else gets a line that says what does that here. */
static void habits(void)
{
	static const char letters[] = "lFgbAm";
	char word[3] = "-";
	size_t k;

	for (k = 0; letters[k]; k++) {
		word[1] = letters[k];
		CHECK_EQ(RUN_COMMAND(braid_cmd_record, "record", word, "x"), EXIT_FAILURE);
		CHECK(strstr(printed, "record: no option '-") && !strstr(printed, "--help"));
	}
	CHECK_EQ(RUN_COMMAND(braid_cmd_record, "record", "-p", "function"), EXIT_FAILURE);
	CHECK(strstr(printed, "echo function >/sys/kernel/tracing/current_tracer"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", "-i", "x.braid"), EXIT_FAILURE);
	CHECK(strstr(printed, "name the file alone, without -i"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", "-p"), EXIT_FAILURE);
	CHECK(strstr(printed, "unknown option '-p'"));
}

/* A pipe, or a compressed file: the line says how it is read. */
static void other_files(void)
{
	char path[] = "/tmp/test_options.XXXXXX";
	int fd = mkstemp(path);

	NEED(fd >= 0 && write(fd, "\x1f\x8b\x08\0\0\0\0\0", 8) == 8 && !close(fd));
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", path), EXIT_FAILURE);
	CHECK(strstr(printed, "compressed by gzip; read it by: zcat '/tmp/test_options"));
	NEED(!unlink(path) && !mkfifo(path, 0600));
	CHECK_EQ(RUN_COMMAND(braid_cmd_report, "report", path), EXIT_FAILURE);
	CHECK(strstr(printed, "is a pipe") && strstr(printed, "| tracebraid report -"));
	unlink(path);
}

/* Without -o, a former capture is kept; a command without "--" is refused with the remedy. */
static void record_words(void)
{
	char dir[] = "/tmp/test_options.XXXXXX";

	CHECK_EQ(RUN_COMMAND(braid_cmd_record, "record", "sleep", "5"), EXIT_FAILURE);
	CHECK(strstr(printed, "tracebraid record ... -- sleep"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_record, "record", "--peer-listen", "7000"), EXIT_FAILURE);
	CHECK(strstr(printed, "--peer-listen=7000"));
	NEED(mkdtemp(dir) && !chdir(dir) && !close(creat("tracebraid.braid", 0600)));
	CHECK_EQ(RUN_COMMAND(braid_cmd_record, "record", "-r", "/nonexistent"), EXIT_FAILURE);
	CHECK(!strstr(printed, ".old") && !unlink("tracebraid.braid"));	/* nothing is recorded: it stays */
	NEED(!chdir("/") && !rmdir(dir));
}

/* Names in suggested commands. */
static void quoted_names(void)
{
	CHECK(!strcmp(braid_cli_quoted("/tmp/web1.braid"), "/tmp/web1.braid"));
	CHECK(!strcmp(braid_cli_quoted("my trace.braid"), "'my trace.braid'"));
	CHECK(!strcmp(braid_cli_quoted("it's$(x)"), "'it'\\''s$(x)'"));
	CHECK(!strcmp(braid_cli_quoted(""), "''"));
}

static bool fits(const char *text, size_t columns)
{
	size_t n;

	for (; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		if (n > columns) {
			fprintf(stderr, "%zu columns: %.*s\n", n, (int)n, text);
			return false;
		}
	}
	return true;
}

static int run_help(int argc, char **argv)
{
	return braid_options_parse(&command, &state, argc, argv);
}

static int run_describe(int argc, char **argv)
{
	(void)argc, (void)argv;
	braid_options_describe(&command);
	return 0;
}

static void printing(void)
{
	CHECK_EQ(RUN_COMMAND(run_help, "try", "--help", "--nonsense"), 1);
	CHECK(!strcmp(printed,
		      "Usage: tracebraid try [OPTION]... WORD\n"
		      "       tracebraid try -e [GLOB]\n"
		      "One paragraph.\n"
		      "\n"
		      "Another one, of so many words that it does not fit into a single line of the\n"
		      "help, which therefore has two.\n"
		      "\n"
		      "  -f, --flag              a flag\n"
		      "  -t, --text=TEXT         a text\n"
		      "  -n, --count=COUNT       a number\n"
		      "      --hold=SECONDS      a duration\n"
		      "  -w, --word=WORD         a word\n"
		      "  -l, --list=ITEM         a list\n"
		      "      --maybe[=VALUE]     with a value or without\n"
		      "  -e, --events [GLOB]     likewise, the next word\n"
		      "  -x, --extra             a common one\n"
		      "  -h, --help              this text\n"
		      "\n"
		      "A note.\n"
		      "\n"
		      "Exits with 0 on success, 1 on error.\n"));
	command.text = "A list: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb,"
		"cccccccccccccccccccccccccccccccccccc,d e.";
	CHECK_EQ(RUN_COMMAND(run_help, "try", "--help"), 1);
	CHECK(fits(printed, 80) && strstr(printed, ",\ncccccccccc") && strstr(printed, ",d e.\n"));
	command.text = "One paragraph.";
	CHECK_EQ(RUN_COMMAND(run_describe, "try"), 0);
	CHECK(strstr(printed, "summary\ta try\nusage\t[OPTION]... WORD\nusage\t-e [GLOB]\ntext\tOne"));
	CHECK(strstr(printed, "option\t-w\t--word\t=WORD\tone three thr two\ta word\n"));
	CHECK(strstr(printed, "option\t\t--maybe\t[=VALUE]\t\twith a value or without\n"));
	CHECK(strstr(printed, "notes\tA note.\nstatus\t0 on success, 1 on error.\noperands\t@file\n"));
}

/* A word of a list, with the same number as in other code. */
static bool is_word(const char *list, unsigned int number, const char *word)
{
	size_t n;

	while (number--)
		list += strcspn(list, " ") + 1;
	n = strcspn(list, " ");
	return strlen(word) == n && !memcmp(list, word, n);
}

static const struct braid_option *named(const struct braid_option *o, const char *name)
{
	while (strcmp(o->name, name))
		o++;
	return o;
}

static void words(void)
{
	const char *sources = named(braid_trace_common, "clock-source")->values;
	const char *keys = named(braid_command_top.options, "sort")->values;
	unsigned int k;

	for (k = 1; k < BRAID_CLOCK_TRACE_CMD; k++)	/* that one is not chosen */
		CHECK(is_word(sources, k, braid_clock_kind_name(k)));
	for (k = 0; k < BRAID_TOP_KEYS; k++)
		CHECK(is_word(keys, k, braid_top_key_name(k)));
}

/* Marks a letter and a name; false: one is a duplicate or empty. */
static bool unique(const struct braid_option *o, bool letters[128], const char **names, size_t nr)
{
	bool used = o->letter && letters[(int)o->letter];
	size_t k;

	for (k = 0; k < nr; k++)
		if (!strcmp(names[k], o->name))
			return false;
	letters[(int)o->letter] = true;
	names[nr] = o->name;
	return !used && *o->help && !(!strcmp(o->name, "json") && o->letter != 'j');
}

static void tables(void)
{
	const char *names[64];
	size_t k, i, nr;

	for (k = 0; k < NR_COMMANDS; k++) {
		bool letters[128] = { false };
		struct braid_option o;

		for (nr = 0; braid_option_by_number(commands[k], nr, &o); nr++)
			CHECK(unique(&o, letters, names, nr) && !o.take == !strcmp(o.name, "help"));
		CHECK_EQ(RUN_COMMAND(commands[k]->run, commands[k]->name, "--help"), EXIT_SUCCESS);
		CHECK(fits(printed, 80));
		for (i = 0; i < nr; i++)
			CHECK(strstr(printed, names[i]));
		CHECK_EQ(RUN_COMMAND(commands[k]->run, commands[k]->name, "--nonsense"), EXIT_FAILURE);
		CHECK(strstr(printed, "unknown option '--nonsense'"));
		CHECK_EQ(RUN_COMMAND(commands[k]->run, commands[k]->name, "-h"), EXIT_SUCCESS);
	}
}

int main(void)
{
	RUN(values);
	RUN(operands);
	RUN(slips);
	RUN(refused_values);
	RUN(near_misses);
	RUN(habits);
	RUN(other_files);
	RUN(record_words);
	RUN(quoted_names);
	RUN(printing);
	RUN(words);
	RUN(tables);
	free(state.list.items);
	return VERDICT();
}
