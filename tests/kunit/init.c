// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * PID 1 of the kernel that runs the suites: loads the module, checks its debugfs tree as a user
 * does, unloads the module, checks for leaks, powers off. It reports in KTAP through the kernel
 * log, so that all output is in order.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MODULE	"tracebraid_kunit"
#define TREE	"/sys/kernel/debug/tracebraid/"
#define TRACE	TREE "trace/"
#define KUNIT	"/sys/kernel/debug/tracebraid_kunit/"
#define LEAKS	"/sys/kernel/debug/kmemleak"

static int kmsg = -1;
static bool case_failed;

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
	char line[900];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 1)
		n = sizeof(line) - 1;
	if (write(kmsg, line, n) < 0)
		_exit(1);		/* a panic, which the runner detects */
}

/* A failed check fails the case, which continues, so that all failures are reported. */
#define EXPECT(condition, fmt, ...)						\
	do {									\
		if (!(condition)) {						\
			say("    # %s:%d: " fmt, __FILE__, __LINE__, ##__VA_ARGS__);	\
			case_failed = true;					\
		}								\
	} while (0)

/* -errno, or the number of bytes read; a NUL follows them. */
static int read_file(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), n, err;
	size_t used = 0;

	if (fd < 0)
		return -errno;
	while ((n = read(fd, text + used, room - 1 - used)) > 0)
		used += n;
	err = errno;
	close(fd);
	text[used] = 0;
	return n < 0 ? -err : (int)used;
}

/* 0 or -errno. */
static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), n, err;

	if (fd < 0)
		return -errno;
	n = write(fd, text, strlen(text));
	err = n < 0 ? errno : 0;
	close(fd);
	return -err;
}

static void expect_text(const char *path, const char *want)
{
	char text[256];
	int n = read_file(path, text, sizeof(text));

	EXPECT(n >= 0 && !strcmp(text, want), "%s: got \"%s\" (%d), want \"%s\"", path, n >= 0 ? text : "", n, want);
}

static void expect_write(const char *path, const char *text, int want)
{
	int got = write_file(path, text);

	EXPECT(got == want, "%s: writing \"%s\" gave %d, want %d", path, text, got, want);
}

static void files_have_modes(void)
{
	static const struct {
		const char *path;
		unsigned int mode;
	} files[] = {
		{ TREE, 0755 },
		{ TRACE "buffers/enabled", 0600 },
		{ TRACE "mode", 0600 },
		{ TRACE "buffer_size_kb", 0600 },
		{ TRACE "subbuf_size", 0400 },
		{ TRACE "stats", 0400 },
		{ TRACE "events/enable", 0200 },
		{ TRACE "events/kunit/enable", 0200 },
		{ TRACE "events/kunit/tick/enable", 0600 },
		{ TRACE "events/kunit/tick/id", 0400 },
		{ TRACE "events/kunit/tick/format", 0400 },
		{ TREE "spare/buffers/enabled", 0600 },
		{ TREE "spare/stats", 0400 },
	};
	struct stat st;
	size_t k;

	for (k = 0; k < sizeof(files) / sizeof(files[0]); k++) {
		if (stat(files[k].path, &st)) {
			EXPECT(false, "%s: %s", files[k].path, strerror(errno));
			continue;
		}
		EXPECT((st.st_mode & 07777) == files[k].mode, "%s: mode %o, want %o", files[k].path,
		       st.st_mode & 07777, files[k].mode);
	}
	EXPECT(access(TREE "spare/events", F_OK), "a RAW buffer has events/");
}

static void event_is_enabled_and_disabled(void)
{
	expect_text(TRACE "events/kunit/tick/enable", "0\n");
	expect_write(KUNIT "tick", "1", -EAGAIN);
	expect_write(TRACE "events/kunit/tick/enable", "1", 0);
	expect_text(TRACE "events/kunit/tick/enable", "1\n");
	expect_write(KUNIT "tick", "1", 0);
	expect_write(TRACE "events/kunit/enable", "0", 0);
	expect_text(TRACE "events/kunit/tick/enable", "0\n");
	expect_write(TRACE "events/enable", "1\n", 0);
	expect_text(TRACE "events/kunit/tick/enable", "1\n");
	expect_write(TRACE "events/enable", "0", 0);
	expect_write(KUNIT "tick", "1", -EAGAIN);
}

static void buffer_is_enabled_and_disabled(void)
{
	expect_write(TRACE "events/kunit/tick/enable", "1", 0);
	expect_text(TRACE "buffers/enabled", "1\n");
	expect_write(TRACE "buffers/enabled", "0", 0);
	expect_text(TRACE "buffers/enabled", "0\n");
	expect_write(TRACE "buffers/enabled", "0", 0);
	expect_write(KUNIT "tick", "1", -EAGAIN);
	expect_write(TRACE "buffers/enabled", "1", 0);
	expect_write(KUNIT "tick", "3", 0);
	expect_write(TRACE "events/kunit/tick/enable", "0", 0);
}

static void invalid_text_is_refused(void)
{
	static const char *const switches[] = {
		TRACE "buffers/enabled", TRACE "events/enable", TRACE "events/kunit/enable",
		TRACE "events/kunit/tick/enable", TREE "spare/buffers/enabled",
	};
	static const char *const nonsense[] = { "", "x", "2", "-1", "\n", " 1", "maybe", "%s%n" };
	size_t k, m;

	for (k = 0; k < sizeof(switches) / sizeof(switches[0]); k++)
		for (m = 1; m < sizeof(nonsense) / sizeof(nonsense[0]); m++)
			expect_write(switches[k], nonsense[m], -EINVAL);
	for (m = 1; m < sizeof(nonsense) / sizeof(nonsense[0]); m++)
		expect_write(TRACE "mode", nonsense[m], -EINVAL);
	expect_write(TRACE "mode", "overwrite overwrite overwrite overwrite", -EINVAL);
	expect_write(TRACE "buffer_size_kb", "x", -EINVAL);
	expect_write(TRACE "buffer_size_kb", "0", -EINVAL);
	expect_write(TRACE "buffer_size_kb", "-1", -EINVAL);
	expect_write(TRACE "buffer_size_kb", "18446744073709551615", -EINVAL);
	expect_write(TRACE "buffer_size_kb", "18446744073709551616", -ERANGE);
	expect_write(TRACE "buffer_size_kb", "100000", -ENOSPC);
	expect_text(TRACE "events/kunit/tick/enable", "0\n");
	expect_text(TRACE "buffers/enabled", "1\n");
}

static void modes_change(void)
{
	expect_text(TRACE "mode", "[consume] overwrite\n[delta] absolute\n");
	expect_write(TRACE "mode", "overwrite\n", 0);
	expect_text(TRACE "mode", "consume [overwrite]\n[delta] absolute\n");
	expect_write(TRACE "mode", "absolute", 0);
	expect_text(TRACE "mode", "consume [overwrite]\ndelta [absolute]\n");
	expect_write(TRACE "buffer_size_kb", "30", 0);
	expect_text(TRACE "buffer_size_kb", "32\n");
	expect_write(TRACE "events/kunit/tick/enable", "1", 0);
	expect_write(KUNIT "tick", "1000", 0);
	expect_write(TRACE "events/kunit/tick/enable", "0", 0);
	expect_write(TRACE "mode", "consume", 0);
	expect_write(TRACE "mode", "delta", 0);
	expect_text(TRACE "mode", "[consume] overwrite\n[delta] absolute\n");
	expect_text(TRACE "subbuf_size", "4096\n");
}

static void descriptions_are_present(void)
{
	char text[4096], id[32], line[48];
	int n = read_file(TRACE "events/kunit/tick/format", text, sizeof(text));

	EXPECT(n > 0 && !strncmp(text, "name: tick\nID: ", 15), "format: %d, %.40s", n, n > 0 ? text : "");
	n = read_file(TRACE "events/kunit/tick/id", id, sizeof(id));
	EXPECT(n > 1 && atoi(id) > 0 && atoi(id) < 65536, "id: %d, %s", n, n > 0 ? id : "");
	snprintf(line, sizeof(line), "\nID: %d\n", n > 1 ? atoi(id) : 0);
	EXPECT(strstr(text, line), "the format has another id");
	EXPECT(strstr(text, "\tfield:u64 n;\toffset:8;\tsize:8;\tsigned:0;\n"), "the format lacks its field");
	EXPECT(strstr(text, "\nprint fmt: \"n=%llu\", REC->n\n"), "the format lacks its print fmt");
	n = read_file(TRACE "stats", text, sizeof(text));
	EXPECT(n > 0 && !strncmp(text, "cpu0: written ", 14), "stats: %d, %.40s", n, n > 0 ? text : "");
}

/* A file that is open while its event is removed only returns errors afterwards. */
static void event_is_removed_while_open(void)
{
	char text[64];
	int fd, k, round;

	for (round = 0; round < 5; round++) {
		expect_write(KUNIT "event", "1", 0);
		fd = open(TRACE "events/kunit/fleeting/enable", O_RDWR | O_CLOEXEC);
		EXPECT(fd >= 0, "open: %s", strerror(errno));
		EXPECT(write(fd, "1", 1) == 1, "write: %s", strerror(errno));
		expect_write(KUNIT "event", "0", 0);
		for (k = 0; k < 2; k++) {
			EXPECT(write(fd, "1", 1) < 0 && errno == EIO, "write afterwards: %s", strerror(errno));
			EXPECT(pread(fd, text, sizeof(text), 0) < 0 && errno == EIO, "read afterwards: %s",
			       strerror(errno));
		}
		close(fd);
		EXPECT(access(TRACE "events/kunit/fleeting", F_OK), "its directory is still there");
	}
	expect_write(KUNIT "event", "0", -ENOENT);
}

static const struct {
	const char *name;
	void (*function)(void);
} cases[] = {
	{ "files_have_modes", files_have_modes },
	{ "descriptions_are_present", descriptions_are_present },
	{ "event_is_enabled_and_disabled", event_is_enabled_and_disabled },
	{ "buffer_is_enabled_and_disabled", buffer_is_enabled_and_disabled },
	{ "invalid_text_is_refused", invalid_text_is_refused },
	{ "modes_change", modes_change },
	{ "event_is_removed_while_open", event_is_removed_while_open },
};

static void look_at_debugfs(void)
{
	const size_t nr = sizeof(cases) / sizeof(cases[0]);
	bool failed = false;
	size_t k;

	say("    KTAP version 1");
	say("    # Subtest: debugfs");
	say("    1..%zu", nr);
	for (k = 0; k < nr; k++) {
		case_failed = false;
		cases[k].function();
		say("    %s %zu %s", case_failed ? "not ok" : "ok", k + 1, cases[k].name);
		failed |= case_failed;
	}
	say("%s 1 debugfs", failed ? "not ok" : "ok");
}

static bool load(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool loaded = fd >= 0 && !syscall(SYS_finit_module, fd, "", 0);

	if (!loaded)
		say("init: %s: %s", path, strerror(errno));
	close(fd);
	return loaded;
}

static void unload(void)
{
	if (syscall(SYS_delete_module, MODULE, O_NONBLOCK))
		say("not ok 2 unload: %s", strerror(errno));
	else
		say("ok 2 unload");
}

/* Twice: the first scan may find objects that are in use. */
static void look_for_leaks(void)
{
	static char text[16 << 10];
	char *line, *rest = text;
	int n;

	if (write_file(LEAKS, "scan") || write_file(LEAKS, "scan"))
		return;			/* a kernel without kmemleak */
	n = read_file(LEAKS, text, sizeof(text));
	while (n > 0 && (line = strsep(&rest, "\n")))
		say("%s", line);
	say("%sok 3 leaks", n ? "not " : "");
}

int main(void)
{
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	mknod("/dev/kmsg", S_IFCHR | 0600, makedev(1, 11));
	kmsg = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	if (load("/" MODULE ".ko")) {
		look_at_debugfs();
		unload();
		look_for_leaks();
	}
	say("init: done");
	sync();
	reboot(RB_POWER_OFF);
	return 1;
}
