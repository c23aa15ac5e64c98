// SPDX-License-Identifier: GPL-2.0-or-later
/* The probes of CPU quotas, in a made-up tracefs and with made-up BTF: made, enabled, removed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/live/tracefs_private.h"
#include "host_agent/live/tracefs_quota.h"
#include "host_agent/util/confine.h"
#include "host_agent/util/error.h"
#include "shared/btf.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"

#define INFO(kind, nr)	((u32)BTF_KIND_##kind << 24 | (nr))
#define NR(list)	(sizeof(list) / sizeof(*(list)))

/* Names by their offset in the strings. */
static char strings[256] = "";
static u32 nr_strings = 1;

static u32 types[256], nr_types;
static char *btf, *tracefs, *dynamic_events, *kprobe_events;
static pid_t dead;

/* Made-up BTF ------------------------------------------------------------------------------ */

static u32 named(const char *name)
{
	u32 at = nr_strings;

	NEED(at + strlen(name) < sizeof(strings));
	strcpy(strings + at, name);
	nr_strings += strlen(name) + 1;
	return at;
}

static void put(u32 word)
{
	NEED(nr_types < NR(types));
	types[nr_types++] = word;
}

static void begin_struct(const char *name, u32 members)
{
	put(named(name));
	put(INFO(STRUCT, members));
	put(4096);
}

static void member(const char *name, u32 type, u32 offset)
{
	put(named(name));
	put(type);
	put(offset * 8);
}

enum { INT = 1, U64, ALIAS, POINTER, CSS };

/* A kernel that throttles run queues, or threads: cfs_rq.throttled is an integer, or one bit. */
enum kernel { QUEUES, THREADS, THREADS_BIT };

/* Its types. */
static size_t make_btf(u8 *out, enum kernel of, const char *without)
{
	struct btf_header head = {
		.magic = BTF_MAGIC, .version = BTF_VERSION, .hdr_len = sizeof(head),
	};

	nr_types = 0;
	nr_strings = 1;
	memset(strings, 0, sizeof(strings));
	put(named("int")), put(INFO(INT, 0)), put(4), put(32);
	put(named("long")), put(INFO(INT, 0)), put(8), put(64);
	put(named("u64")), put(INFO(TYPEDEF, 0)), put(U64);
	put(0), put(INFO(PTR, 0)), put(0);
	begin_struct("cgroup_subsys_state", 1), member("cgroup", POINTER, 8);
	begin_struct("task_group", 2), member("pad", INT, 0), member("css", CSS, 16);
	begin_struct("cgroup", 1), member(strcmp(without, "kn") ? "kn" : "nk", POINTER, 256);
	begin_struct("kernfs_node", 1), member("id", strcmp(without, "id") ? ALIAS : INT, 96);
	begin_struct("cfs_rq", 3), member("rq", POINTER, 312), member("tg", POINTER, 344);
	member(strcmp(without, "throttled") ? "throttled" : "held", INT, 424);
	if (of == THREADS_BIT) {
		types[nr_types - 11] |= 1u << 31;	/* it has bit fields: */
		types[nr_types - 1] += 1 | 1u << 24;
	}
	begin_struct("rq", 1), member("cpu", INT, 2920);
	if (of != QUEUES)
		begin_struct("task_struct", 1), member("sched_throttle_work", CSS, 720);
	head.type_len = head.str_off = 4 * nr_types;
	head.str_len = nr_strings;
	memcpy(out, &head, sizeof(head));
	memcpy(out + sizeof(head), types, head.type_len);
	memcpy(out + sizeof(head) + head.type_len, strings, head.str_len);
	return sizeof(head) + head.type_len + head.str_len;
}

static void write_btf(enum kernel of, const char *without)
{
	u8 bytes[sizeof(struct btf_header) + sizeof(types) + sizeof(strings)];

	write_file(btf, bytes, make_btf(bytes, of, without));
}

static void test_offsets(void)
{
	u8 room[sizeof(struct btf_header) + sizeof(types) + sizeof(strings)];
	size_t bytes = make_btf(room, THREADS_BIT, ""), k;
	u8 *exact;

	CHECK_EQ(braid_btf_offset(room, bytes, "cfs_rq", "tg", 8), 344);
	CHECK_EQ(braid_btf_offset(room, bytes, "task_group", "css", 0), 16);
	CHECK_EQ(braid_btf_offset(room, bytes, "kernfs_node", "id", 8), 96);
	CHECK_EQ(braid_btf_offset(room, bytes, "kernfs_node", "id", 4), -1);
	CHECK_EQ(braid_btf_offset(room, bytes, "cfs_rq", "gt", 8), -1);
	CHECK_EQ(braid_btf_offset(room, bytes, "cfs", "tg", 8), -1);
	CHECK_EQ(braid_btf_offset(room, bytes, "cfs_rq", "throttled", 4), -1);
	CHECK_EQ(braid_btf_bit(room, bytes, "cfs_rq", "throttled"), 424 * 8 + 1);
	CHECK_EQ(braid_btf_bit(room, bytes, "cfs_rq", "tg"), -1);
	CHECK_EQ(braid_btf_bit(room, bytes, "rq", "cpu"), -1);
	/* Each truncation, and each byte changed: an answer, and no fault. */
	for (k = 1; k < bytes; k++) {
		exact = malloc(k);
		memcpy(exact, room, k);
		CHECK_EQ(braid_btf_offset(exact, k, "cfs_rq", "tg", 8), -1);
		free(exact);
		exact = malloc(bytes);
		memcpy(exact, room, bytes);
		exact[k] ^= 0xff;
		braid_btf_offset(exact, bytes, "rq", "cpu", 4);
		exact[k] ^= 0x7f;
		braid_btf_offset(exact, bytes, "task_group", "css", 0);
		free(exact);
	}
}

/* Made-up tracefs ---------------------------------------------------------------------------- */

/* A file of it, and the folders above. */
static char *file(const char *name, const char *text)
{
	static char path[512];
	char *at;

	snprintf(path, sizeof(path), "%s/%s", tracefs, name);
	for (at = path + strlen(tracefs) + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = 0;
		NEED(!mkdir(path, 0755) || errno == EEXIST);
	}
	if (text)
		write_file(path, text, strlen(text));
	return path;
}

static char *text_of(const char *path)
{
	size_t bytes;

	return read_file(path, &bytes);
}

static bool has(const char *name, const char *text)
{
	char *found = text_of(file(name, NULL));
	bool same = !strcmp(found, text);

	free(found);
	return same;
}

/* As in the program: the probes can be removed then, too. */
static int confined(void)
{
	return braid_confine(BRAID_CONFINE_FILES, NULL);
}

static int not_confined(void)
{
	return -EPERM;
}

/* Whether the probes are made; if so, they are removed. @more: what was written behind @before. */
static bool makes(const char *before, int (*confine)(void), char *more, size_t size)
{
	struct braid_tracefs_quota q;
	char *found;
	bool made;

	file("dynamic_events", before);
	CHECK_EQ(braid_tracefs_quota_start(&q, btf, BRAID_PROBES_QUOTA, confine), 0);
	made = q.fd >= 0;
	braid_tracefs_quota_stop(&q);
	CHECK_EQ(q.fd, -1);
	found = text_of(dynamic_events);
	CHECK(!strncmp(found, before, strlen(before)));
	snprintf(more, size, "%s", found + strlen(before));
	free(found);
	return made;
}

#define GROUP		"tracebraid_quota_%1$d"
#define THROTTLE	"p:" GROUP "/throttle throttle_cfs_rq queue=$arg1:x64 " \
			"cgroup=+96(+256(+24(+344($arg1)))):u64 cpu=+2920(+312($arg1)):s32\n"
#define THROTTLED	THROTTLE "r:" GROUP "/throttled throttle_cfs_rq ret=$retval:u8\n"
#define MADE		THROTTLED "p:" GROUP "/unthrottle unthrottle_cfs_rq queue=$arg1:x64\n"
#define OF_THREADS(what) \
	THROTTLED "r:" GROUP "/unthrottle unthrottle_cfs_rq queue=$arg1:x64 throttled=" what "\n" \
		  "f:" GROUP "/held_back throttle_cfs_rq_work\n"
#define REMOVED		"-:" GROUP "/throttle\n-:" GROUP "/throttled\n" \
			"-:" GROUP "/unthrottle\n-:" GROUP "/held_back\n"

static void expect(const char *more, const char *format)
{
	char text[2048];

	snprintf(text, sizeof(text), format, (int)getpid());
	CHECK(!strcmp(more, text));
	if (strcmp(more, text))
		fprintf(stderr, "written:\n%sexpected:\n%s", more, text);
}

static void test_made(void)
{
	char more[2048];

	write_btf(QUEUES, "");
	CHECK(makes("", confined, more, sizeof(more)));
	expect(more, MADE REMOVED);
	write_btf(THREADS, "");
	CHECK(makes("", confined, more, sizeof(more)));
	expect(more, OF_THREADS("+424($arg1):s32") REMOVED);
	write_btf(THREADS_BIT, "");
	CHECK(makes("", confined, more, sizeof(more)));
	expect(more, OF_THREADS("+424($arg1):b1@1/8") REMOVED);
	CHECK(!makes("", not_confined, more, sizeof(more)));
	expect(more, OF_THREADS("+424($arg1):b1@1/8") REMOVED);
}

/* When the agent goes on, the probes are there. */
static void test_while_made(void)
{
	struct braid_tracefs_quota q;
	char text[2048];

	file("dynamic_events", "");
	write_btf(QUEUES, "");
	CHECK_EQ(braid_tracefs_quota_start(&q, btf, BRAID_PROBES_QUOTA, confined), 0);
	snprintf(text, sizeof(text), MADE, (int)getpid());
	CHECK(has("dynamic_events", text));
	braid_tracefs_quota_stop(&q);
}

/* None are made if BTF lacks a member, without kprobes, or if the kernel refuses one. */
static void test_impossible(void)
{
	struct braid_tracefs_quota q;
	char more[2048];

	write_btf(QUEUES, "kn");
	CHECK(!makes("", confined, more, sizeof(more)));
	expect(more, "");
	write_btf(QUEUES, "id");
	CHECK(!makes("", confined, more, sizeof(more)));
	expect(more, "");
	write_btf(THREADS, "throttled");
	CHECK(!makes("", confined, more, sizeof(more)));
	expect(more, "");
	write_file(btf, "BTF", 3);
	CHECK(!makes("", confined, more, sizeof(more)));
	expect(more, "");
	unlink(btf);
	CHECK(!makes("", confined, more, sizeof(more)));
	expect(more, "");
	write_btf(QUEUES, "");
	unlink(kprobe_events);
	CHECK(!makes("", confined, more, sizeof(more)));
	expect(more, "");
	write_file(kprobe_events, "", 0);
	unlink(dynamic_events);
	CHECK_EQ(braid_tracefs_quota_start(&q, btf, BRAID_PROBES_QUOTA, confined), 0);
	CHECK_EQ(q.fd, -1);
	CHECK(access(dynamic_events, F_OK));
	NEED(!symlink("/dev/full", dynamic_events));
	CHECK_EQ(braid_tracefs_quota_start(&q, btf, BRAID_PROBES_QUOTA, confined), 0);
	CHECK_EQ(q.fd, -1);
	unlink(dynamic_events);
}

/* What dead agents left is removed, and nothing else; their instances go first. */
static void test_stale(void)
{
	char before[1024], after[1024], more[2048], instance[64];

	snprintf(before, sizeof(before),
		 "p:tracebraid_quota_%1$d/throttle throttle_cfs_rq queue=$arg1:x64\n"
		 "f:tracebraid_quota_%1$d/held_back throttle_cfs_rq_work\n"
		 "r8:tracebraid_quota_%1$d/throttled throttle_cfs_rq ret=$retval:u8\n"
		 "p:tracebraid_quota_%2$d/throttle throttle_cfs_rq\n"
		 "p:tracebraid_quota_%3$d/throttle throttle_cfs_rq\n"
		 "p:mine/tracebraid_quota_%1$d do_sys_openat2\n"
		 "p:tracebraid_quota_/a b\np:tracebraid_quota_%1$dx/a b\np:tracebraid_quota_%1$d\np\n\n",
		 (int)dead, (int)getppid(), (int)getpid());
	snprintf(after, sizeof(after), "-:tracebraid_quota_%1$d/throttle\n"
		 "-:tracebraid_quota_%1$d/held_back\n"
		 "-:tracebraid_quota_%1$d/throttled\n-:tracebraid_quota_%2$d/throttle\n",
		 (int)dead, (int)getpid());
	snprintf(instance, sizeof(instance), "instances/tracebraid-%d", (int)dead);
	NEED(!mkdir(file(instance, NULL), 0755));
	write_btf(QUEUES, "kn");
	CHECK(!makes(before, confined, more, sizeof(more)));
	CHECK(!strcmp(more, after));
	CHECK(access(file(instance, NULL), F_OK));
}

/* An event in @root, "" or an instance, that is off. */
static void make_event(const char *root, const char *system, const char *event)
{
	char name[256];

	snprintf(name, sizeof(name), "%sevents/%s/enable", root, system);
	file(name, "0");
	snprintf(name, sizeof(name), "%sevents/%s/%s/enable", root, system, event);
	file(name, "0");
	snprintf(name, sizeof(name), "%sevents/%s/%s/format", root, system, event);
	file(name, "name: event\n");
}

static bool is_on(const char *root, const char *system, const char *event)
{
	char name[256];

	snprintf(name, sizeof(name), "%sevents/%s/%s/enable", root, system, event);
	return has(name, "1");
}

static u32 nr_formats(const char *capture)
{
	struct braid_capture_reader *r;
	struct braid_chunk_file head;
	struct braid_chunk_view v;
	u32 nr = 0;

	NEED(!braid_capture_open(&r, capture, &head));
	while (braid_capture_next(r, &v) > 0)
		nr += v.type == BRAID_CHUNK_TEXT;
	braid_capture_close(r);
	return nr;
}

/* They are enabled with the other events, if they were made; those of another agent never are. */
static u32 enable(bool quota)
{
	struct braid_chunk_file head = { .version_major = BRAID_CAPTURE_MAJOR, .clock = "mono_raw" };
	struct braid_live_sink sink = { .next_stream = 1 };
	struct braid_pattern all;
	struct braid_tracefs_source s = {
		.o = {
			.sink = &sink, .patterns = &all, .nr_patterns = 1,
			.probes = quota ? BRAID_PROBES_QUOTA : 0,
		},
	};
	char own[64], other[64], *capture = scratch("capture");

	snprintf(own, sizeof(own), BRAID_QUOTA_SYSTEM "%d", (int)getpid());
	snprintf(other, sizeof(other), BRAID_QUOTA_SYSTEM "%d", (int)getppid());
	NEED(!braid_pattern_parse(&all, "*"));
	NEED(!braid_capture_create(&sink.capture, capture, &head));
	s.instance = tracefs_instance_create("one");
	NEED(s.instance);
	make_event("", "sched", "sched_switch");
	make_event("instances/one/", "sched", "sched_switch");
	make_event("", own, "throttle");
	make_event("instances/one/", own, "throttle");
	make_event("", other, "throttle");
	make_event("instances/one/", other, "throttle");
	CHECK_EQ(braid_host_enable_events(&s, false), 0);
	CHECK_EQ(braid_capture_finish(sink.capture), 0);
	CHECK(is_on("instances/one/", "sched", "sched_switch"));
	CHECK_EQ(is_on("instances/one/", own, "throttle"), quota);
	CHECK(!is_on("instances/one/", other, "throttle"));
	tracefs_instance_free(s.instance);
	return nr_formats(capture);
}

static void test_enabled(void)
{
	CHECK_EQ(enable(true), 2);
	CHECK_EQ(enable(false), 1);
}

int main(void)
{
	const char *root;

	tracefs = scratch("tracefs");
	dynamic_events = scratch("tracefs/dynamic_events");
	kprobe_events = scratch("tracefs/kprobe_events");
	btf = scratch("btf");
	NEED(!mkdir(tracefs, 0755));
	file("instances/-", "");
	write_file(kprobe_events, "", 0);
	NEED(!tracefs_set_tracing_dir(tracefs));
	dead = fork();
	if (!dead)
		_exit(0);
	waitpid(dead, NULL, 0);
	RUN(test_offsets);
	if (braid_host_tracefs(&root)) {
		printf("skip: %s\n", braid_failure());
		return VERDICT();
	}
	RUN(test_made);
	RUN(test_while_made);
	RUN(test_impossible);
	RUN(test_stale);
	RUN(test_enabled);
	return VERDICT();
}
