// SPDX-License-Identifier: GPL-2.0-or-later
/* stat, verify and report as commands: of complete and truncated captures, and of a pipe. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

static char paths[16][64], *path = paths[0];	/* commands keep pointers to names */

/* A guest without losses, and the host; each time with a new name, because commands keep files. */
static void make(void)
{
	struct braid_capture_writer *w;
	struct synth_guest g;
	static u32 nr;
	u32 k;

	unlink(path);
	NEED(nr < 16);
	path = paths[nr];
	snprintf(path, sizeof(paths[0]), "/tmp/braid-stat-%d-%u.braid", getpid(), nr++);
	w = synth_capture(path);
	synth_guest_init(&g, &(struct synth_guest_params){
		.name = "guest", .incarnation = 7, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 8, .subbuf_bytes = 512,
	});
	synth_begin(w, &g, 1);
	synth_host(w, 2, 250, SYNTH_START_NS + 1000, 40000);
	for (k = 0; k < 400; k++) {
		g.now += 20000;
		synth_tick(&g, k & 1, k, "hello");
		synth_drain(w, &g, 0);
		if (k % 20 == 0)
			synth_sample(w, &g, 900, 600);
	}
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
}

/* Runs a command. Return: its exit code; *out: what it printed, to be freed. */
static int run(int (*command)(int argc, char **argv), char **out, char *name, char *option,
	       char *file)
{
	char *argv[] = { name, option ? option : file, option ? file : NULL, NULL };
	FILE *to = tmpfile();
	int before = dup(STDOUT_FILENO), code;
	struct stat st;

	fflush(stdout);
	NEED(to && before >= 0 && dup2(fileno(to), STDOUT_FILENO) >= 0);
	code = command(option ? 3 : 2, argv);
	fflush(stdout);
	NEED(dup2(before, STDOUT_FILENO) >= 0 && !fstat(fileno(to), &st));
	*out = calloc(1, st.st_size + 1);
	NEED(*out && pread(fileno(to), *out, st.st_size, 0) == st.st_size);
	close(before);
	fclose(to);
	return code;
}

/* The numbers of a column of stat's table: the sum of its rows, and the total. */
static void add_column(const char *table, u32 column, u64 *rows, u64 *total)
{
	char line[256], word[64];
	const char *at, *end;
	u32 k;

	*rows = *total = 0;
	for (at = strchr(table, '\n') + 1; (end = strchr(at, '\n')); at = end + 1) {
		bool is_total = !strncmp(at, "total", 5);

		snprintf(line, sizeof(line), "%.*s", (int)(end - at), at);
		NEED(strlen(line) > 35 + 12 * 7);
		snprintf(word, sizeof(word), "%.12s", line + 35 + 12 * column);
		k = strspn(word, " ");
		*(is_total ? total : rows) += strtoull(word + k, NULL, 10);
		if (is_total)
			break;
	}
}

static void a_complete_file(void)
{
	char *out;

	make();
	CHECK_EQ(run(braid_cmd_stat, &out, "stat", NULL, path), 0);
	CHECK(!strstr(out, "✗") && !strstr(out, "?"));
	free(out);
	CHECK_EQ(run(braid_cmd_stat, &out, "stat", "--json", path), 0);
	CHECK(strstr(out, "\"known\":true,\"ok\":true,\"why\":\"\"}\n"));
	free(out);
}

/* Where the accounting begins. */
static u64 first_account(void)
{
	struct braid_capture_reader *r;
	struct braid_chunk_view view;
	struct braid_chunk_file head;

	NEED(!braid_capture_open(&r, path, &head));
	do
		NEED(braid_capture_next(r, &view) == 1);
	while (view.type != BRAID_CHUNK_RING_END);
	braid_capture_close(r);
	return view.offset;
}

/* Truncated after the pages, so that all accounting is missing; or only before the end mark. */
static void a_truncated_file(void)
{
	struct stat st;
	u64 rows, total;
	char *out;
	u32 column;

	make();
	NEED(!truncate(path, first_account()));
	CHECK_EQ(run(braid_cmd_stat, &out, "stat", NULL, path), 1);
	for (column = 2; column < 7; column += column == 3 ? 3 : 1) {	/* read, lost, found */
		add_column(out, column, &rows, &total);
		CHECK(rows || column == 3);
		CHECK_EQ(rows, total);
	}
	CHECK(strstr(out, "no end mark"));
	free(out);
	CHECK_EQ(run(braid_cmd_stat, &out, "stat", "--json", path), 1);
	CHECK(strstr(out, "\"written\":null") && strstr(out, "\"left\":null"));
	CHECK(strstr(out, "\"known\":false,\"ok\":false,\"why\":\"the file has no end mark"));
	free(out);

	make();
	NEED(!stat(path, &st) && !truncate(path, st.st_size - 8));
	CHECK_EQ(run(braid_cmd_stat, &out, "stat", "--json", path), 1);
	CHECK(strstr(out, "\"known\":true,\"ok\":false,\"why\":\"the file has no end mark"));
	free(out);
}

static u32 count_lines(const char *text)
{
	u32 nr = 0;

	for (; (text = strchr(text, '\n')); text++)
		nr++;
	return nr;
}

/* One line for each stream, and a verdict; details only on request. */
static void verify_is_short(void)
{
	struct braid_capture_writer *w;
	struct synth_guest g;
	char name[16], *out;
	u32 k;

	make();		/* a new name */
	unlink(path);
	w = synth_capture(path);

	synth_guest_init(&g, &(struct synth_guest_params){
		.name = "guest", .incarnation = 7, .boot = 1, .start_ns = SYNTH_START_NS,
		.nr_slots = 4, .subbuf_bytes = 256,
	});
	synth_begin(w, &g, 1);
	for (k = 2; k < 40; k++) {	/* formats without fields: a note each */
		snprintf(name, sizeof(name), "event%u", k);
		synth_format(w, k, "test", name, "");
	}
	synth_tick(&g, 0, 1, "x");
	synth_sample(w, &g, 100, 100);
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
	CHECK_EQ(run(braid_cmd_verify, &out, "verify", NULL, path), 0);
	CHECK_EQ(count_lines(out), 2);
	CHECK(strstr(out, "guest: 1 event in ") && strstr(out, "38 notes (-v prints them)"));
	CHECK(strstr(out, "\n1 event in 1 stream: 0 faults\n"));
	free(out);
	CHECK_EQ(run(braid_cmd_verify, &out, "verify", "-v", path), 0);
	CHECK_EQ(count_lines(out), 40);
	free(out);
}

/* Standard input is a pipe that another process writes the file into. */
static int run_piped(int (*command)(int argc, char **argv), char **out, char *name)
{
	int fds[2], before = dup(STDIN_FILENO), code, status;
	pid_t pid;

	NEED(before >= 0 && !pipe(fds));
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		close(fds[0]);
		dup2(fds[1], STDOUT_FILENO);
		close(fds[1]);
		execlp("cat", "cat", path, NULL);
		_exit(1);
	}
	NEED(dup2(fds[0], STDIN_FILENO) >= 0);
	close(fds[0]);
	close(fds[1]);
	code = run(command, out, name, NULL, "-");
	NEED(dup2(before, STDIN_FILENO) >= 0);
	close(before);
	NEED(waitpid(pid, &status, 0) == pid);
	return code;
}

static void from_a_pipe(void)
{
	static const struct {
		int (*command)(int argc, char **argv);
		char *name;
	} commands[] = {
		{ braid_cmd_report, "report" }, { braid_cmd_stat, "stat" },
		{ braid_cmd_verify, "verify" },
	};
	char *from_file, *piped;
	u32 k;

	make();
	for (k = 0; k < 3; k++) {
		CHECK_EQ(run(commands[k].command, &from_file, commands[k].name, NULL, path), 0);
		CHECK_EQ(run_piped(commands[k].command, &piped, commands[k].name), 0);
		CHECK(*from_file && !strcmp(from_file, piped));
		free(from_file);
		free(piped);
	}
}

int main(void)
{
	RUN(a_complete_file);
	RUN(a_truncated_file);
	RUN(verify_is_short);
	RUN(from_a_pipe);
	unlink(path);
	return VERDICT();
}
