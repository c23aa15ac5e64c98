// SPDX-License-Identifier: GPL-2.0-or-later
/* Filters of guests: expressions against an evaluator of their own, errors, hostile programs. */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/control/compile.h"
#include "host_agent/util/error.h"
#include "shared/filter.h"
#include "tests/unit/check.h"

/* A record with a field of each kind. */
struct __attribute__((packed)) record {
	struct braid_record common;
	u8 a;
	s8 b;
	u16 c;
	s16 d;
	u32 e;
	s32 f;
	u64 g;
	s64 h;
	char name[16];
	u32 path;		/* __data_loc */
	u32 tail;		/* __rel_loc */
	char data[32];
};

#define FIELD(type, name, sign)							\
	"\tfield:" type ";\toffset:%zu;\tsize:%zu;\tsigned:" #sign ";\n"
#define PLACE(member)	offsetof(struct record, member), sizeof(((struct record *)0)->member)

static char format[4096];
static const struct braid_schema_event event = {
	.id = 1, .system = "test", .name = "record", .format = format,
};

static void make_format(void)
{
	snprintf(format, sizeof(format),
		 "name: record\nID: 1\nformat:\n"
		 "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
		 "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
		 "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
		 "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
		 FIELD("u8 a", a, 0) FIELD("s8 b", b, 1) FIELD("u16 c", c, 0) FIELD("s16 d", d, 1)
		 FIELD("u32 e", e, 0) FIELD("int f", f, 1) FIELD("u64 g", g, 0) FIELD("long h", h, 1)
		 FIELD("char name[16]", name, 0) FIELD("__data_loc char[] path", path, 0)
		 FIELD("__rel_loc char[] tail", tail, 0)
		 "\tfield:const char * text;\toffset:%zu;\tsize:8;\tsigned:0;\n"
		 "\nprint fmt: \"\"\n",
		 PLACE(a), PLACE(b), PLACE(c), PLACE(d), PLACE(e), PLACE(f), PLACE(g), PLACE(h),
		 PLACE(name), PLACE(path), PLACE(tail), offsetof(struct record, data));
}

static const char comm[BRAID_COMM_BYTES] = "nginx-worker-01";	/* 15 characters */

static bool in_cgroup(s32 task, u64 id)
{
	return id == 770 && (task == 77 || task == -5);
}

static bool is_chosen(s32 task)
{
	return task == 77;
}

static const struct braid_filter_tasks tasks = { in_cgroup, is_chosen };

static enum braid_filter_verdict run(const struct braid_filter_program *p, const struct record *r)
{
	const struct braid_filter_record record = {
		.bytes = (const u8 *)r, .nr_bytes = sizeof(*r), .cpu = 3, .comm = comm,
		.tasks = &tasks,
	};

	return braid_filter_run(p, &record);
}

static struct record sample(void)
{
	struct record r = {
		.common = { .common_type = 1, .common_pid = 77 },
		.a = 200, .b = -1, .c = 60000, .d = -300, .e = 4000000000u, .f = -5,
		.g = ~0ULL - 1, .h = -1000000000000, .name = "kworker/0:1",
		.path = offsetof(struct record, data) | 10 << 16,
		.tail = (offsetof(struct record, data) + 10 - offsetof(struct record, tail) - 4) |
			4 << 16,
	};

	memcpy(r.data, "/etc/hosts\0\0\0\0", 14);
	memcpy(r.data + 10, "end", 4);
	return r;
}

/* 1: passes, 0: does not, or -errno of compiling it. */
static int passes(const char *text)
{
	struct braid_filter_program p;
	struct record r = sample();
	int err = braid_filter_compile(&p, text, &event);

	if (err)
		return err;
	CHECK_EQ(braid_filter_check(&p), 0);
	return run(&p, &r) == BRAID_FILTER_PASS;
}

static void test_numbers(void)
{
	CHECK_EQ(passes("a == 200"), 1);
	CHECK_EQ(passes("a != 200"), 0);
	CHECK_EQ(passes("a < 200"), 0);
	CHECK_EQ(passes("a <= 200"), 1);
	CHECK_EQ(passes("a > 199 && a >= 200"), 1);
	CHECK_EQ(passes("b == -1"), 1);
	CHECK_EQ(passes("b < 0"), 1);
	CHECK_EQ(passes("b > -1"), 0);
	CHECK_EQ(passes("c == 0xea60"), 1);
	CHECK_EQ(passes("d < -299 && d > -301"), 1);
	CHECK_EQ(passes("e >= 4000000000"), 1);
	CHECK_EQ(passes("f > -6 && f < -4"), 1);
	CHECK_EQ(passes("g == 18446744073709551614"), 1);
	CHECK_EQ(passes("g > 18446744073709551614"), 0);
	CHECK_EQ(passes("g < 18446744073709551615"), 1);
	CHECK_EQ(passes("h < -999999999999"), 1);
	CHECK_EQ(passes("h < 0"), 1);
	CHECK_EQ(passes("h > 0"), 0);
	CHECK_EQ(passes("common_pid == 77"), 1);
	CHECK_EQ(passes("CPU == 3"), 1);
	CHECK_EQ(passes("cpu > 3"), 0);
	CHECK_EQ(passes("a & 0x80"), 1);
	CHECK_EQ(passes("a & 7"), 0);
	CHECK_EQ(passes("g & 0x8000000000000000"), 1);
	/* At the ends of what a field can have: nothing is below, everything is at least that. */
	CHECK_EQ(passes("a < 0"), 0);
	CHECK_EQ(passes("a >= 0"), 1);
	CHECK_EQ(passes("a > 255"), 0);
	CHECK_EQ(passes("a <= 255"), 1);
	CHECK_EQ(passes("h < -9223372036854775808"), 0);
	CHECK_EQ(passes("h >= -9223372036854775808"), 1);
}

static void test_texts(void)
{
	CHECK_EQ(passes("name == \"kworker/0:1\""), 1);
	CHECK_EQ(passes("name == \"kworker/0:1*\""), 0);
	CHECK_EQ(passes("name == \"kworker*\""), 0);
	CHECK_EQ(passes("name != \"kworker\""), 1);
	CHECK_EQ(passes("name ~ \"kworker*\""), 1);
	CHECK_EQ(passes("name ~ \"*0:?\""), 1);
	CHECK_EQ(passes("name ~ \"*:[0-3]\""), 1);
	CHECK_EQ(passes("name ~ \"*:[!0-3]\""), 0);
	CHECK_EQ(passes("path == \"/etc/hosts\""), 1);
	CHECK_EQ(passes("path ~ \"/etc/*\""), 1);
	CHECK_EQ(passes("path ~ \"*end\""), 0);
	CHECK_EQ(passes("tail == \"end\""), 1);
	CHECK_EQ(passes("COMM ~ \"nginx*\""), 1);
	CHECK_EQ(passes("comm == 'nginx-worker-01'"), 1);
	CHECK_EQ(passes("comm == 'nginx'"), 0);
}

static void test_logic(void)
{
	CHECK_EQ(passes("a == 1 || b == -1 && c == 1"), 0);
	CHECK_EQ(passes("(a == 200 || b == 1) && c == 60000"), 1);
	CHECK_EQ(passes("!(a == 200)"), 0);
	CHECK_EQ(passes("!(a == 200 && b == 1) && !(f == 1 || f == 2)"), 1);
	CHECK_EQ(passes("!!(a == 200)"), 1);
}

static void refused(const char *text, int err, const char *line)
{
	CHECK_EQ(passes(text), err);
	CHECK(strstr(braid_failure(), line));
	if (!strstr(braid_failure(), line))
		fprintf(stderr, "said: %s\n", braid_failure());
}

static void test_refusals(void)
{
	char text[4096] = "a == 1";
	int k;

	refused("nmae == 1", -ENOENT, "test:record has no field 'nmae'; did you mean 'name'?");
	refused("pid == 1", -ENOENT, "did you mean 'common_pid'?");
	refused("zzzzzzzz == 1", -ENOENT, "has no field 'zzzzzzzz'");
	refused("name == 1", -EINVAL, "is a string, not a number");
	refused("a == \"x\"", -EINVAL, "'a' of test:record is not a string");
	refused("text ~ \"x\"", -EINVAL, "is a pointer");
	refused("a == b", -EINVAL, "another field");
	refused("name == nginx", -EINVAL,
		"'nginx' is not a field of test:record; a text needs quotes: \"nginx\"");
	refused("name =~ \"x\"", -EINVAL, "regular expression");
	refused("a == 256", -EINVAL, "from 0 to 255");
	refused("b == -129", -EINVAL, "from -128 to 127");
	refused("a == -1", -EINVAL, "from 0 to 255");
	refused("a ==", -EINVAL, "is missing");
	refused("a == 1 b == 2", -EINVAL, "&& or || is missing");
	refused("", -EINVAL, "name of a field");
	for (k = 0; k < 60; k++)
		strcat(text, " || a == 1");
	refused(text, -EINVAL, "more than 46 comparisons");
	strcpy(text, "name ~ \"");
	memset(text + 8, 'x', 600);
	strcpy(text + 608, "\"");
	refused(text, -EINVAL, "more than 512 bytes");
}

/* 1: the sample passes, as an event of this name. */
static int concerns(const char *system, const char *name, const char *pids, const char *comm_glob,
		    const char *cpus, const char *filter)
{
	s32 numbers[10];
	struct braid_who who = { .pids = numbers, .comm = comm_glob, .cpus = cpus };
	char *text;
	int ret;

	for (; pids && *pids; pids += strcspn(pids, " "), pids += *pids == ' ')
		numbers[who.nr_pids++] = atoi(pids);
	if (braid_who_check(&who))
		return -EINVAL;
	CHECK_EQ(braid_who_expression(&text, &who, system, name, filter), 0);
	ret = passes(text);
	free(text);
	return ret;
}

static void test_who(void)
{
	CHECK_EQ(concerns("x", "y", "77", NULL, NULL, NULL), 1);
	CHECK_EQ(concerns("x", "y", "1 77", NULL, NULL, NULL), 1);
	CHECK_EQ(concerns("x", "y", "1 2", NULL, NULL, NULL), 0);
	CHECK_EQ(concerns("x", "y", NULL, "nginx*", NULL, NULL), 1);
	CHECK_EQ(concerns("x", "y", NULL, "k*", NULL, NULL), 0);
	CHECK_EQ(concerns("x", "y", "77", "k*", NULL, NULL), 0);
	CHECK_EQ(concerns("x", "y", "77", "n*", "3", NULL), 1);
	CHECK_EQ(concerns("x", "y", NULL, NULL, "0-2,4", NULL), 0);
	CHECK_EQ(concerns("x", "y", NULL, NULL, "0,2-3", NULL), 1);
	CHECK_EQ(concerns("x", "y", "77", NULL, "3", "a == 200 || a == 1"), 1);
	CHECK_EQ(concerns("x", "y", "76", NULL, NULL, "a == 200 || a == 1"), 0);
	CHECK_EQ(concerns("x", "y", "77", NULL, "3", "a == 1"), 0);
	CHECK_EQ(concerns("x", "y", NULL, NULL, NULL, "a == 200"), 1);
	/* A switch has next_pid, which this record has not: the other task is asked for. */
	CHECK_EQ(concerns("sched", "sched_switch", "77", NULL, NULL, NULL), -ENOENT);
	CHECK_EQ(concerns("sched", "sched_process_fork", "77", NULL, NULL, NULL), 1);
	/* It wakes no task. */
	CHECK_EQ(concerns("sched", "sched_wakeup_new", "77", NULL, NULL, NULL), -ENOENT);
	CHECK_EQ(concerns("sched", "sched_wake_idle_without_ipi", "77", NULL, NULL, NULL), 1);
	CHECK_EQ(concerns("x", "y", NULL, NULL, "", NULL), -EINVAL);
	CHECK_EQ(concerns("x", "y", NULL, NULL, "3-1", NULL), -EINVAL);
	CHECK_EQ(concerns("x", "y", NULL, NULL, "1,", NULL), -EINVAL);
	CHECK_EQ(concerns("x", "y", NULL, NULL, "x", NULL), -EINVAL);
	CHECK_EQ(concerns("x", "y", NULL, "a\\", NULL, NULL), -EINVAL);
	CHECK_EQ(concerns("x", "y", "1 2 3 4 5 6 7 8 9", NULL, NULL, NULL), -EINVAL);
}

/* Random expressions, evaluated as they are made ----------------------------------------- */

static u64 seed;

static u32 pick(u32 below)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % below;
}

static __int128 number(const struct record *r, u32 field)
{
	const __int128 values[] = { r->a, r->b, r->c, r->d, r->e, r->f, r->g, r->h };

	return values[field];
}

static bool make_number(char *to, const struct record *r)
{
	static const char *const ops[] = { "==", "!=", "<", "<=", ">", ">=" };
	u32 field = pick(8), op = pick(6);
	__int128 v = number(r, field), w = v;

	if (pick(2))			/* near it, within the type */
		w = v + (v < 100 && v > -100 ? (int)pick(3) : 0);
	else
		w = number(r, field) / (1 + (int)pick(3));
	if (w >= 0)
		sprintf(to, "%c %s %llu", "abcdefgh"[field], ops[op], (unsigned long long)w);
	else
		sprintf(to, "%c %s %lld", "abcdefgh"[field], ops[op], (long long)w);
	return op == 0 ? v == w : op == 1 ? v != w : op == 2 ? v < w : op == 3 ? v <= w :
	       op == 4 ? v > w : v >= w;
}

static bool make_text(char *to, const struct record *r)
{
	static const char *const globs[] = {
		"*", "a*", "*a", "*a*b*", "?", "??*", "[ab]*", "*[!a]", "a[b-c]?", "\\a*", "", "abab",
		"*ab*ab*", "[", "a\\*",
	};
	u32 op = pick(3), k = pick(sizeof(globs) / sizeof(globs[0]));
	char text[sizeof(r->name) + 1] = "";

	memcpy(text, r->name, sizeof(r->name));
	if (op == 2) {
		sprintf(to, "name ~ \"%s\"", globs[k]);
		return !fnmatch(globs[k], text, 0);
	}
	sprintf(to, "name %s \"%s\"", op ? "!=" : "==", globs[k]);
	return op ? strcmp(text, globs[k]) : !strcmp(text, globs[k]);
}

static bool make(char *to, const struct record *r, int depth)
{
	bool left, right;
	u32 kind = depth ? pick(5) : 3 + pick(2);

	if (kind == 3)
		return make_number(to, r);
	if (kind == 4)
		return make_text(to, r);
	strcpy(to, kind == 2 ? "!(" : "(");
	left = make(to + strlen(to), r, depth - 1);
	if (kind == 2) {
		strcat(to, ")");
		return !left;
	}
	strcat(to, kind ? " || " : " && ");
	right = make(to + strlen(to), r, depth - 1);
	strcat(to, ")");
	return kind ? left || right : left && right;
}

static void test_random(void)
{
	struct braid_filter_program p;
	u32 k, i, both[2] = { 0 };
	char text[8192];

	for (k = 0; k < 20000; k++) {
		struct record r = sample();
		bool expected;

		seed = k;
		for (i = 8; i < offsetof(struct record, name); i++)
			((u8 *)&r)[i] = pick(3) ? pick(256) : pick(2) * 255;
		memset(r.name, 0, sizeof(r.name));
		for (i = 0; i < pick(17); i++)
			r.name[i] = "abc*"[pick(4)];
		expected = make(text, &r, 3);
		both[expected]++;
		if (braid_filter_compile(&p, text, &event)) {
			fprintf(stderr, "%s: %s\n", text, braid_failure());
			CHECK(false);
			continue;
		}
		CHECK_EQ(braid_filter_check(&p), 0);
		if ((run(&p, &r) == BRAID_FILTER_PASS) == expected)
			continue;
		fprintf(stderr, "%s (%.16s) is not %d\n", text, r.name, expected);
		CHECK(false);
	}
	CHECK(both[0] > 5000 && both[1] > 5000);
}

static void test_tasks(void)
{
	const struct braid_who who = { .cgroup = "/web", .children = true, .pids = (s32[]){ 1 }, .nr_pids = 1 };
	struct braid_filter_program p;
	char *text;

	CHECK_EQ(passes("CGROUP == 770"), 1);
	CHECK_EQ(passes("CGROUP == 771"), 0);
	CHECK_EQ(passes("cgroup != 771"), 1);
	CHECK_EQ(passes("CGROUP_OF_f == 770"), 1);
	CHECK_EQ(passes("CGROUP_OF_e == 770"), 0);
	CHECK_EQ(passes("CHOSEN_OF_common_pid == 1"), 1);
	CHECK_EQ(passes("CHOSEN_OF_f == 1"), 0);
	CHECK_EQ(passes("CHOSEN_OF_f != 1 && CGROUP == 770"), 1);
	CHECK_EQ(passes("CGROUP > 770"), -EINVAL);
	CHECK_EQ(passes("CGROUP_OF_a == 770"), -EINVAL);
	CHECK_EQ(passes("CGROUP_OF_nosuch == 770"), -ENOENT);
	/* A path is for the guest to find: until then it is no task's. */
	CHECK_EQ(passes("CGROUP == \"/web\""), 0);
	CHECK_EQ(braid_filter_compile(&p, "CGROUP == \"/web/*\"", &event), 0);
	CHECK_EQ(p.insns[0].op, BRAID_FILTER_CGROUP_PATH);
	CHECK(!strcmp(p.texts + p.insns[0].low, "/web/*"));
	CHECK_EQ(p.record_bytes, sizeof(struct braid_record));
	CHECK_EQ(braid_who_check(&who), 0);
	CHECK_EQ(braid_who_expression(&text, &who, "sched", "sched_switch", "f == 1"), 0);
	CHECK(!strcmp(text, "(CGROUP == \"/web\" || CGROUP_OF_next_pid == \"/web\") && "
		      "(CHOSEN_OF_common_pid == 1 || CHOSEN_OF_next_pid == 1) && (f == 1)"));
	free(text);
	CHECK_EQ(braid_who_check(&(struct braid_who){ .children = true }), -EINVAL);
	CHECK_EQ(braid_who_check_cpus(&(struct braid_who){ .comm = "x" }, 2), 0);
	CHECK_EQ(braid_who_check_cpus(&(struct braid_who){ .cpus = "7,1-3" }, 2), 0);
	CHECK_EQ(braid_who_check_cpus(&(struct braid_who){ .cpus = "7,2-3" }, 2), -ENOENT);
	CHECK_EQ(braid_who_check(&(struct braid_who){ .cgroup = "web" }), -EINVAL);
	CHECK_EQ(braid_who_check(&(struct braid_who){ .cgroup = "" }), -EINVAL);
	CHECK(strstr(braid_failure(), "--cgroup: expected a path"));
	CHECK_EQ(braid_who_check(&(struct braid_who){ .comm = "" }), -EINVAL);
	CHECK_EQ(braid_who_check(&(struct braid_who){ .cgroup = "/a\"b" }), -EINVAL);
}

/* Hostile programs -------------------------------------------------------------------------- */

static struct braid_filter_program valid(void)
{
	struct braid_filter_program p;

	CHECK_EQ(braid_filter_compile(&p, "a == 1 && name ~ \"x*\" && path == \"y\"", &event), 0);
	return p;
}

/* A valid program with one change. */
#define REFUSES(change, err)							\
	do {									\
		struct braid_filter_program p = valid();			\
										\
		change;								\
		CHECK_EQ(braid_filter_check(&p), err);				\
	} while (0)

static void test_check(void)
{
	REFUSES((void)0, 0);
	REFUSES(p.version = 2, -EOPNOTSUPP);
	REFUSES(p.nr_insns = 0, -EINVAL);
	REFUSES(p.nr_insns = BRAID_FILTER_INSNS + 1, -EINVAL);
	REFUSES(p.nr_insns = ~0u, -EINVAL);
	REFUSES(p.nr_insns = 3, -EINVAL);		/* no verdict at its end */
	REFUSES(p.record_bytes = BRAID_FILTER_RECORD + 1, -EINVAL);
	REFUSES(p.record_bytes = 8, -EINVAL);
	REFUSES(p.text_bytes = BRAID_FILTER_TEXTS + 1, -EINVAL);
	REFUSES(p.text_bytes = 1, -EINVAL);
	REFUSES(p.texts[p.text_bytes - 1] = 'x', -EINVAL);
	REFUSES(p.insns[0].op = BRAID_FILTER_NR_OPS, -EINVAL);
	REFUSES(p.insns[0].reserved0 = 1, -EINVAL);
	REFUSES(p.insns[0].offset = p.record_bytes, -EINVAL);
	REFUSES(p.insns[0].offset = 0xffff, -EINVAL);
	REFUSES(p.insns[0].if_true = p.nr_insns - 1, -EINVAL);
	REFUSES(p.insns[0].if_false = p.nr_insns - 1, -EINVAL);
	REFUSES(p.insns[0].if_false = p.nr_insns - 2, 0);
	REFUSES(p.insns[1].bytes = 0xffff, -EINVAL);
	REFUSES(p.insns[1].low = p.text_bytes, -EINVAL);
	REFUSES(p.insns[1].low = ~0ULL, -EINVAL);
	REFUSES(p.insns[2].offset = p.record_bytes - 3, -EINVAL);
}

static void test_unjudged(void)
{
	struct braid_filter_program p;
	struct record r = sample();
	struct braid_filter_record record = {
		.bytes = (const u8 *)&r, .nr_bytes = sizeof(r), .comm = comm,
	};
	char text[4096 + 1], glob[400] = "";
	u32 steps = BRAID_FILTER_GLOB_STEPS;
	int k;

	CHECK_EQ(braid_filter_compile(&p, "path == \"x\"", &event), 0);
	record.nr_bytes = p.record_bytes - 1;		/* shorter than its fields */
	CHECK_EQ(braid_filter_run(&p, &record), BRAID_FILTER_UNJUDGED);
	record.nr_bytes = sizeof(r);
	r.path = (sizeof(r) - 1) | 2 << 16;		/* a string outside is empty */
	CHECK_EQ(braid_filter_run(&p, &record), BRAID_FILTER_DROP);
	r.path = 0xffffffff;
	CHECK_EQ(braid_filter_run(&p, &record), BRAID_FILTER_DROP);
	/* A glob that would take too long. */
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	strcpy(glob, "*");
	for (k = 0; k < 300; k++)
		strcat(glob, "a");
	strcat(glob, "b");
	braid_filter_glob(glob, text, sizeof(text), &steps);
	CHECK_EQ(steps, 0);
}

/* Each character of a class is a step, so that a long one cannot be had for one. */
static void test_long_class(void)
{
	char glob[BRAID_FILTER_TEXTS] = "*[", text[400];
	u32 steps = BRAID_FILTER_GLOB_STEPS;

	memset(glob + 2, 'a', 400);
	strcpy(glob + 402, "]x");
	memset(text, 'b', sizeof(text));
	CHECK(!braid_filter_glob(glob, text, sizeof(text), &steps));
	CHECK_EQ(steps, 0);
}

int main(void)
{
	make_format();
	RUN(test_numbers);
	RUN(test_texts);
	RUN(test_logic);
	RUN(test_refusals);
	RUN(test_who);
	RUN(test_tasks);
	RUN(test_random);
	RUN(test_check);
	RUN(test_unjudged);
	RUN(test_long_class);
	return VERDICT();
}
