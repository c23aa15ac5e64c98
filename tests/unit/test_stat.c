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
#include "tests/unit/run_command.h"

#define NR_EVENTS	400
#define NR_HOST_EVENTS	250
#define NR_RINGS	3	/* two vCPUs, one CPU of the host */

static char paths[16][64], *path = paths[0];	/* commands keep pointers to names */

/*
 * A guest without losses, and the host, whose account is the first; each time with a new name,
 * because commands keep files.
 */
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
	for (k = 0; k < NR_EVENTS; k++) {
		g.now += 20000;
		synth_tick(&g, k & 1, k, "hello");
		synth_drain(w, &g, 0);
		if (k % 20 == 0)
			synth_sample(w, &g, 900, 600);
	}
	synth_host(w, 2, NR_HOST_EVENTS, SYNTH_START_NS + 1000, 40000);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
}

/* The counts of a row, in the text's order. The last row is the total. */
static const char *const counts[] = {
	"before", "written", "read", "lost", "left", "after", "found",
};

#define NR_COUNTS	(sizeof(counts) / sizeof(*counts))
#define MAX_ROWS	8
#define UNKNOWN		(~0ULL)

struct account {
	u32 nr;
	u64 rows[MAX_ROWS][NR_COUNTS];
};

/* Each object of the JSON must have each count once: a number, or null. */
static void read_json(struct account *account)
{
	char key[16];
	const char *at;
	u32 k, row;

	memset(account, 0, sizeof(*account));
	for (k = 0; k < NR_COUNTS; k++) {
		snprintf(key, sizeof(key), "\"%s\":", counts[k]);
		for (row = 0, at = printed; (at = strstr(at, key)); row++) {
			NEED(row < MAX_ROWS);
			at += strlen(key);
			account->rows[row][k] = strncmp(at, "null", 4) ? strtoull(at, NULL, 10) : UNKNOWN;
		}
		CHECK(!k || row == account->nr);
		account->nr = row;
	}
}

/* The words after "total", or after the CPU; the host's rings have no buffer before that. */
static void read_text(struct account *account)
{
	char *line, *end, *word, *rest;
	u32 k;

	account->nr = 0;
	for (line = strchr(printed, '\n') + 1; (end = strchr(line, '\n')); line = end + 1) {
		bool is_total = !strncmp(line, "total", 5);

		*end = 0;
		word = strtok_r(line, " ", &rest);
		while (!is_total && word && strspn(word, "0123456789") != 3)
			word = strtok_r(NULL, " ", &rest);
		NEED(word && account->nr < MAX_ROWS);
		for (k = 0; k < NR_COUNTS; k++) {
			word = strtok_r(NULL, " ", &rest);
			NEED(word);
			account->rows[account->nr][k] = *word == '?' ? UNKNOWN :
								strtoull(word, NULL, 10);
		}
		account->nr++;
		if (is_total)
			break;
	}
}

/* The total is the sum of its rows, or unknown as soon as one is; text and JSON have the same. */
static struct account check_account(int code)
{
	struct account json, text;
	u64 sum;
	u32 k, row;

	CHECK_EQ(RUN_COMMAND(braid_cmd_stat, "stat", "--json", path), code);
	read_json(&json);
	CHECK_EQ(json.nr, NR_RINGS + 1);
	NEED(json.nr);
	for (k = 0; k < NR_COUNTS; k++) {
		for (row = 0, sum = 0; row < json.nr - 1; row++)
			sum = sum == UNKNOWN || json.rows[row][k] == UNKNOWN ? UNKNOWN :
				      sum + json.rows[row][k];
		CHECK_EQ(json.rows[json.nr - 1][k], sum);
	}
	CHECK_EQ(RUN_COMMAND(braid_cmd_stat, "stat", path), code);
	read_text(&text);
	CHECK_EQ(text.nr, json.nr);
	CHECK(!memcmp(text.rows, json.rows, json.nr * sizeof(json.rows[0])));
	return json;
}

static void a_complete_file(void)
{
	struct account account;
	u64 *total;

	make();
	account = check_account(0);
	total = account.rows[account.nr - 1];
	CHECK_EQ(total[1], NR_EVENTS + NR_HOST_EVENTS);		/* written */
	CHECK_EQ(total[2], NR_EVENTS + NR_HOST_EVENTS);		/* read */
	CHECK_EQ(total[6], NR_EVENTS + NR_HOST_EVENTS);		/* found */
	CHECK(!total[0] && !total[3] && !total[4] && !total[5]);
	CHECK_EQ(RUN_COMMAND(braid_cmd_stat, "stat", path), 0);
	CHECK(!strstr(printed, "✗") && !strstr(printed, "?"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_stat, "stat", "--json", path), 0);
	CHECK(strstr(printed, "\"known\":true,\"ok\":true,\"why\":\"\"}\n"));
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
	struct account account;
	struct stat st;
	u64 *total;
	u32 k;

	make();
	NEED(!truncate(path, first_account()));
	account = check_account(1);
	total = account.rows[account.nr - 1];
	for (k = 0; k < NR_COUNTS; k++)		/* what was read, lost and found is in the pages */
		CHECK_EQ(total[k] == UNKNOWN, k != 2 && k != 3 && k != 6);
	CHECK(total[2] && total[2] == total[6]);
	CHECK_EQ(RUN_COMMAND(braid_cmd_stat, "stat", path), 1);
	CHECK(strstr(printed, "no end mark"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_stat, "stat", "--json", path), 1);
	CHECK(strstr(printed, "\"known\":false,\"ok\":false,\"why\":\"the file has no end mark"));

	make();
	NEED(!stat(path, &st) && !truncate(path, st.st_size - 8));
	check_account(1);
	CHECK_EQ(RUN_COMMAND(braid_cmd_stat, "stat", "--json", path), 1);
	CHECK(strstr(printed, "\"known\":true,\"ok\":false,\"why\":\"the file has no end mark"));
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
	char name[16];
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
	CHECK_EQ(RUN_COMMAND(braid_cmd_verify, "verify", path), 0);
	CHECK_EQ(count_lines(printed), 2);
	CHECK(strstr(printed, "guest: 1 event in ") && strstr(printed, "38 notes (-v prints them)"));
	CHECK(strstr(printed, "\n1 event in 1 stream: 0 faults\n"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_verify, "verify", "-v", path), 0);
	CHECK_EQ(count_lines(printed), 40);
}

/* Standard input is a pipe that another process writes the file into. */
static int run_piped(int (*command)(int argc, char **argv), char *name)
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
	code = RUN_COMMAND(command, name, "-");
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
	char *from_file;
	u32 k;

	make();
	for (k = 0; k < 3; k++) {
		CHECK_EQ(RUN_COMMAND(commands[k].command, commands[k].name, path), 0);
		from_file = strdup(printed);
		NEED(from_file && *from_file);
		CHECK_EQ(run_piped(commands[k].command, commands[k].name), 0);
		CHECK(!strcmp(from_file, printed));
		free(from_file);
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
