// SPDX-License-Identifier: GPL-2.0-or-later
/* Guest agents: what a recording asks them for, what it makes of answers, what it undoes. */
#include <errno.h>
#include <libvirt/libvirt-qemu.h>
#include <libvirt/virterror.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/record/private.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/own_memory.h"
#include "tests/unit/scratch.h"

#define TEST_URI	"test:///default"	/* libvirt's test driver: one simulated domain, "test" */
#define LIMIT_MS	20000
#define FOLDER		"/sys/kernel/debug/tracebraid/main/events/"

/* A guest's agent, for a process that was forked: what it answers, and what it was sent. */
struct fake {
	const char *answers[3];	/* to open, write and close; NULL: an error */
	int code;		/* which, as libvirt has it ... */
	const char *why;	/* ... and says it */
	size_t bytes;
	char sent[4096];
};

static struct fake *fake;

static const char *const usual[3] = {
	"{\"return\":1007}", "{\"return\":{\"count\":1,\"eof\":false}}", "{\"return\":{}}",
};

#define FAKE	__attribute__((visibility("default")))

FAKE char *virDomainQemuAgentCommand(virDomainPtr dom, const char *cmd, int timeout,
				     unsigned int flags)
{
	const char *answer = fake->answers[strstr(cmd, "-write") ? 1 : strstr(cmd, "-close") ? 2 : 0];

	CHECK(dom && timeout > 0 && !flags);
	fake->bytes += snprintf(fake->sent + fake->bytes, sizeof(fake->sent) - fake->bytes, "%s\n",
				cmd);
	return answer ? strdup(answer) : NULL;
}

FAKE int virGetLastErrorCode(void)
{
	return fake->code;
}

FAKE const char *virGetLastErrorMessage(void)
{
	return fake->why;
}

static void begin(struct braid_guest_agent *agent)
{
	static const char *const names[] = { "test" };

	memset(fake, 0, sizeof(*fake));
	memcpy(fake->answers, usual, sizeof(usual));
	fake->why = "no error";
	NEED(!braid_guest_agent_start(agent, TEST_URI, names, 1));
}

static struct braid_guest_agent_file file_of(const char *domain, const char *system,
					     const char *event)
{
	struct braid_guest_agent_file file = { .buffer = "main" };

	snprintf(file.domain, sizeof(file.domain), "%s", domain);
	snprintf(file.system, sizeof(file.system), "%s", system);
	snprintf(file.event, sizeof(file.event), "%s", event);
	return file;
}

/* The answer, awaited. */
static int set(struct braid_guest_agent *agent, const struct braid_guest_agent_file *file, bool on,
	       bool *maybe)
{
	struct pollfd p = { .fd = agent->fd, .events = POLLIN };
	int err = 1;

	NEED(!braid_guest_agent_set(agent, file, on));
	NEED(poll(&p, 1, LIMIT_MS) == 1);
	NEED(braid_guest_agent_answer(agent, &err, maybe) == 1);
	return err;
}

/* The recorder is gone: the process does what is left to be done. */
static void leave(struct braid_guest_agent *agent)
{
	pid_t pid = agent->pid;

	close(agent->fd);
	NEED(waitpid(pid, NULL, 0) == pid);
	agent->fd = -1;
	agent->pid = 0;
}

#define OPEN(path)	"{\"execute\":\"guest-file-open\",\"arguments\":{\"path\":\"" FOLDER path \
			"enable\",\"mode\":\"r+\"}}\n"
#define WRITE(base64)	"{\"execute\":\"guest-file-write\",\"arguments\":{\"handle\":1007," \
			"\"buf-b64\":\"" base64 "\"}}\n"
#define CLOSE		"{\"execute\":\"guest-file-close\",\"arguments\":{\"handle\":1007}}\n"
#define ON(path)	OPEN(path) WRITE("MQ==") CLOSE	/* "1" */
#define OFF(path)	OPEN(path) WRITE("MA==") CLOSE	/* "0" */

static void test_commands(void)
{
	const struct braid_guest_agent_file one = file_of("test", "sched", "sched_switch"),
					    all = file_of("test", "irq", "");
	struct braid_guest_agent agent;
	bool maybe;

	begin(&agent);
	CHECK_EQ(fake->bytes, 0);
	CHECK_EQ(set(&agent, &one, true, &maybe), 0);
	CHECK_EQ(set(&agent, &all, true, &maybe), 0);
	CHECK_EQ(set(&agent, &one, false, &maybe), 0);
	CHECK_EQ(set(&agent, &all, false, &maybe), 0);
	leave(&agent);
	CHECK(!strcmp(fake->sent, ON("sched/sched_switch/") ON("irq/") OFF("sched/sched_switch/")
				  OFF("irq/")));
}

static void test_undone_when_the_recorder_dies(void)
{
	struct braid_guest_agent_file former = file_of("test", "sched", ""),
				      all = file_of("test", "irq", ""),
				      one = file_of("test", "timer", "hrtimer_start");
	struct braid_guest_agent agent;
	bool maybe;

	begin(&agent);
	CHECK_EQ(set(&agent, &former, true, &maybe), 0);
	all.boot_id[0] = one.boot_id[0] = 1;	/* the guest boots again */
	CHECK_EQ(set(&agent, &all, true, &maybe), 0);
	CHECK_EQ(set(&agent, &one, true, &maybe), 0);
	CHECK_EQ(set(&agent, &all, false, &maybe), 0);
	fake->bytes = 0;
	leave(&agent);
	CHECK(!strcmp(fake->sent, OFF("timer/hrtimer_start/")));
}

static void test_undone_when_the_recorder_is_killed(void)
{
	const struct braid_guest_agent_file file = file_of("test", "sched", "");
	const size_t bytes = strlen(ON("sched/") OFF("sched/"));
	u64 start_ns = braid_host_clock_ns();
	struct braid_guest_agent agent;
	pid_t pid = fork();
	bool maybe;

	NEED(pid >= 0);
	if (!pid) {
		begin(&agent);
		set(&agent, &file, true, &maybe);
		kill(getpid(), SIGKILL);
	}
	NEED(waitpid(pid, NULL, 0) == pid);
	while (*(volatile size_t *)&fake->bytes < bytes)
		NEED(braid_host_clock_ns() - start_ns < LIMIT_MS * 1000000ULL);
	CHECK(!strcmp(fake->sent, ON("sched/") OFF("sched/")));
}

/* What libvirt, or the guest's agent by it, answers; and the line. */
static const struct {
	int code;
	const char *why;
	int err;
	const char *words[2];
} refusals[] = {
	{ VIR_ERR_ARGUMENT_UNSUPPORTED, "argument unsupported: QEMU guest agent is not configured",
	  -ENOTSUP, { "has no guest agent", "org.qemu.guest_agent.0" } },
	{ VIR_ERR_AGENT_UNRESPONSIVE, "Guest agent is not responding: QEMU guest agent is not connected",
	  -ETIMEDOUT, { "does not answer", "qemu-guest-agent running" } },
	{ VIR_ERR_AGENT_UNRESPONSIVE, "Guest agent is not responding: Guest agent not available for now",
	  -ETIMEDOUT, { "does not answer", "not available for now" } },
	{ 112, "guest agent command timed out: guest agent didn't respond to command within '5' seconds",
	  -ETIMEDOUT, { "does not answer", "timed out" } },
	{ VIR_ERR_AGENT_UNSYNCED, "guest agent replied with wrong id to guest-sync command: 5",
	  -ETIMEDOUT, { "does not answer", "wrong id" } },
	{ VIR_ERR_INTERNAL_ERROR, "internal error: unable to execute QEMU agent command 'guest-file-open': Command guest-file-open has been disabled",
	  -EPERM, { "refuses guest-file-open", "guest-file-open, guest-file-write and guest-file-close" } },
	{ VIR_ERR_INTERNAL_ERROR, "internal error: unable to execute QEMU agent command 'guest-file-open': The command guest-file-open has not been found",
	  -EPERM, { "refuses guest-file-open", "/etc/sysconfig/qemu-ga" } },
	{ VIR_ERR_INTERNAL_ERROR, "... failed to open file '/sys/x' (mode: 'r+'): No such file or directory",
	  -ENOENT, { "no file of the driver", "debugfs" } },
	{ VIR_ERR_INTERNAL_ERROR, "... failed to open file '/sys/x' (mode: 'r+'): Permission denied",
	  -EACCES, { "SELinux", "lockdown" } },
	{ VIR_ERR_INTERNAL_ERROR, "... failed to open file '/sys/x' (mode: 'r+'): Operation not permitted",
	  -EACCES, { "SELinux", "lockdown" } },
	{ VIR_ERR_OPERATION_INVALID, "Requested operation is not valid: domain is not running",
	  -EAGAIN, { "cannot be asked", "not running" } },	/* libvirt's domain runs: paused */
	{ VIR_ERR_INTERNAL_ERROR, "something \033[31mred", -EIO, { "its guest agent: something", "?[31mred" } },
};

static void test_refusals(void)
{
	const struct braid_guest_agent_file file = file_of("test", "sched", "");
	struct braid_guest_agent agent;
	size_t k;
	bool maybe;

	begin(&agent);
	fake->answers[0] = NULL;
	for (k = 0; k < sizeof(refusals) / sizeof(*refusals); k++) {
		fake->code = refusals[k].code;
		fake->why = refusals[k].why;
		fake->bytes = 0;
		CHECK_EQ(set(&agent, &file, true, &maybe), refusals[k].err);
		CHECK(!maybe && strstr(braid_failure(), refusals[k].words[0]) &&
		      strstr(braid_failure(), refusals[k].words[1]));
		CHECK(!strcmp(fake->sent, OPEN("sched/")));
	}
	fake->bytes = 0;
	leave(&agent);
	CHECK_EQ(fake->bytes, 0);	/* nothing was enabled */
}

static void test_answers_that_are_none(void)
{
	static const char *const garbage[] = {
		"", "[", "{}", "{\"return\":}", "{\"return\":\"x\"}", "{\"return\":12", "{\"return\":1x}",
		"{\"return\":99999999999999999999999}",
	};
	const struct braid_guest_agent_file file = file_of("test", "sched", "");
	struct braid_guest_agent agent;
	size_t k;
	bool maybe;

	begin(&agent);
	for (k = 0; k < sizeof(garbage) / sizeof(*garbage); k++) {
		fake->answers[0] = garbage[k];
		CHECK_EQ(set(&agent, &file, true, &maybe), -EBADMSG);
		CHECK(!maybe && strstr(braid_failure(), "not one of qemu-guest-agent's"));
	}
	/* From here on it may be written; and what is open is closed. */
	fake->answers[0] = usual[0];
	fake->answers[1] = "{\"return\":{}}";
	fake->bytes = 0;
	CHECK_EQ(set(&agent, &file, true, &maybe), -EBADMSG);
	CHECK(maybe && !strcmp(fake->sent, ON("sched/")));
	fake->answers[1] = "{\"return\":{\"count\":0,\"eof\":false}}";
	CHECK_EQ(set(&agent, &file, true, &maybe), -EIO);
	CHECK(maybe && strstr(braid_failure(), "has not written"));
	fake->answers[1] = usual[1];
	fake->answers[2] = NULL;
	fake->why = "failed to close handle: No such device";
	CHECK_EQ(set(&agent, &file, true, &maybe), -EIO);
	CHECK(maybe && strstr(braid_failure(), "No such device"));
	fake->answers[2] = usual[2];
	fake->bytes = 0;
	leave(&agent);
	CHECK(!strcmp(fake->sent, OFF("sched/")));
}

static void test_nothing_else_is_sent(void)
{
	static const char *const names[] = {
		"..", ".", "../x", "a/b", "a b", "a\"b", "a\\b", "a\nb", "a\xc3\xa4", "$(x)",
	};
	struct braid_guest_agent_file file = file_of("web1", "sched", "");
	char path[BRAID_GUEST_AGENT_PATH_BYTES];
	struct braid_guest_agent agent;
	size_t k;
	bool maybe;

	begin(&agent);
	CHECK_EQ(set(&agent, &file, true, &maybe), -ENOENT);	/* no such domain */
	for (k = 0; k < 3 * sizeof(names) / sizeof(*names); k++) {
		const char *name = names[k / 3];

		file = file_of("test", k % 3 ? "sched" : name, k % 3 == 1 ? name : "");
		if (k % 3 == 2)
			snprintf(file.buffer, sizeof(file.buffer), "%s", name);
		CHECK_EQ(set(&agent, &file, true, &maybe), -EINVAL);
		CHECK_EQ(braid_guest_agent_path(&file, path), -EINVAL);
	}
	file = file_of("test", "", "");
	CHECK_EQ(set(&agent, &file, true, &maybe), -EINVAL);
	memset(file.system, 'a', sizeof(file.system));	/* without an end */
	CHECK_EQ(set(&agent, &file, true, &maybe), -EINVAL);
	leave(&agent);
	CHECK_EQ(fake->bytes, 0);
}

static void test_only_domains_that_are_named(void)
{
	static const char *const names[] = { "web1" };
	const struct braid_guest_agent_file file = file_of("test", "sched", "");
	struct braid_guest_agent agent;
	bool maybe;

	begin(&agent);
	leave(&agent);
	NEED(!braid_guest_agent_start(&agent, TEST_URI, names, 1));
	CHECK_EQ(set(&agent, &file, true, &maybe), -EPERM);
	CHECK(strstr(braid_failure(), "-d"));
	leave(&agent);
	CHECK_EQ(fake->bytes, 0);
}

static void test_a_process_that_ends(void)
{
	const struct braid_guest_agent_file file = file_of("test", "sched", "");
	struct braid_guest_agent agent;
	struct pollfd p;
	bool maybe;
	int err;

	begin(&agent);
	CHECK_EQ(braid_guest_agent_answer(&agent, &err, &maybe), 0);
	NEED(!kill(agent.pid, SIGKILL));
	p = (struct pollfd){ .fd = agent.fd, .events = POLLIN };
	NEED(poll(&p, 1, LIMIT_MS) == 1);
	CHECK_EQ(braid_guest_agent_answer(&agent, &err, &maybe), -EPIPE);
	CHECK_EQ(braid_guest_agent_set(&agent, &file, true), -EPIPE);
	CHECK(strstr(braid_failure(), "has ended"));
	braid_guest_agent_stop(&agent);
	CHECK_EQ(agent.fd, -1);
	braid_guest_agent_stop(&agent);
}

/* Recordings -------------------------------------------------------------------------------- */

static char said[8192];

static void hear(void *arg, const char *name, const char *line)
{
	(void)arg;
	snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s: %s\n", name, line);
}

static struct braid_directory *directory_of(struct fake_guest *g)
{
	return (struct braid_directory *)(g->base + g->sb.sections[BRAID_SECTION_DIRECTORY].offset);
}

/* As the guest's driver does when a file is written. */
static void set_flags(struct fake_guest *g, u32 event, u32 flags)
{
	braid_schema_set_flags(directory_of(g), g->event_offsets[event], flags);
}

/* A recording of sched and irq in a domain that is only read, whose sched_wakeup is on. */
static struct fake_guest *begin_recording(struct braid_recording *r, struct own_memory *memory)
{
	static const struct fake_params usual_guest = {
		.name = "fake", .bytes = OWN_CHUNK_ROOM, .nr_vcpus = 1, .subbuf_bytes = 4096,
		.nr_slots = 16, .flags = BRAID_BUFFER_OVERWRITE,
	};
	static const struct braid_record_ops ops = { .say = hear };
	static const char *names[] = { "test" };
	static struct braid_record_guest guest;
	struct fake_guest *g = fake_guest_new(scratch("region"), &usual_guest);

	memset(fake, 0, sizeof(*fake));
	memcpy(fake->answers, usual, sizeof(usual));
	fake->why = "no error";
	*said = 0;
	set_flags(g, 1, BRAID_EVENT_GUEST_ON);
	own_memory_begin(memory, g, 0x31323334);
	guest = (struct braid_record_guest){
		.name = "web1", .domain = "test", .wait = BRAID_WAIT_GUEST_NONE,
	};
	snprintf(guest.path, sizeof(guest.path), "pid:%d", (int)memory->pid);
	*r = (struct braid_recording){
		.ops = &ops, .start_ns = 1, .signal_fd = -1, .wait = BRAID_WAIT_NONE,
		.o.domains = { .uri = TEST_URI, .names = names, .nr = 1, .agents = true },
		.sink = { .capture = synth_capture(scratch("x.braid")), .next_stream = 1 },
		.guests = &guest, .nr_guests = 1,
	};
	NEED(!braid_record_add_events(&r->o.events, "sched,irq"));
	NEED(!braid_record_start_agents(r));
	NEED(!braid_record_open_guest(r, &guest));
	return g;
}

/* Turns, until the guest's agent has answered to all. */
static void run_recording(struct braid_recording *r, struct fake_guest *g, size_t bytes)
{
	u64 start_ns = braid_host_clock_ns();

	do {
		NEED(braid_host_clock_ns() - start_ns < LIMIT_MS * 1000000ULL);
		fake_guest_look(g);
		NEED(braid_region_source_poll(r->guests->source) >= 0);
		NEED(!braid_record_poll_agents(r));
		usleep(1000);
	} while (!*said || fake->bytes < bytes || braid_record_asks_agents(r));
}

static void end_recording(struct braid_recording *r, struct own_memory *memory,
			  struct fake_guest *g)
{
	CHECK_EQ(braid_region_source_finish(r->guests->source), 0);
	braid_region_source_close(r->guests->source);
	braid_guest_agent_stop(&r->agents.process);
	free(r->agents.files);
	braid_record_options_free(&(struct braid_record_options){ .events = r->o.events });
	CHECK_EQ(braid_capture_finish(r->sink.capture), 0);
	fake_guest_free(g);
	own_memory_end(memory);
}

#define SAID(value, path)	"web1: guest agent (guest-file-open, guest-file-write, " \
				"guest-file-close): echo " value " >" FOLDER path "enable\n"

static void test_a_recording(void)
{
	static const char on[] = ON("sched/sched_switch/") ON("irq/") ON("irq/softirq_entry/");
	struct braid_schema_event event = {
		.id = 99, .system = "irq", .name = "softirq_entry", .format = "",
	};
	struct own_memory memory;
	struct braid_recording r;
	struct fake_guest *g = begin_recording(&r, &memory);

	run_recording(&r, g, 1);
	CHECK(!strcmp(fake->sent, ON("sched/sched_switch/") ON("irq/")));
	CHECK(strstr(said, SAID("1", "sched/sched_switch/") SAID("1", "irq/")));
	CHECK(braid_region_source_confirmed(r.guests->source, 0) &&
	      braid_region_source_confirmed(r.guests->source, 1));
	set_flags(g, 0, BRAID_EVENT_GUEST_ON);
	set_flags(g, 2, BRAID_EVENT_GUEST_ON);
	fake_guest_tell(g, &event);	/* with a module */
	run_recording(&r, g, strlen(on));
	CHECK(!strcmp(fake->sent, on));
	fake->bytes = *said = 0;
	braid_record_undo_agents(&r);
	CHECK(!strcmp(fake->sent, OFF("sched/sched_switch/") OFF("irq/") OFF("irq/softirq_entry/")));
	CHECK(!strcmp(said, SAID("0", "sched/sched_switch/") SAID("0", "irq/")
			    SAID("0", "irq/softirq_entry/")));
	CHECK(!braid_region_source_status(r.guests->source).unconfirmed);
	end_recording(&r, &memory, g);
}

static void test_a_recording_that_is_refused(void)
{
	struct own_memory memory;
	struct braid_recording r;
	struct fake_guest *g = begin_recording(&r, &memory);

	fake->answers[0] = NULL;
	fake->why = "Command guest-file-open has been disabled";
	run_recording(&r, g, 1);
	CHECK(!strcmp(fake->sent, OPEN("sched/sched_switch/")));
	CHECK(strstr(said, "web1: its guest agent refuses guest-file-open") &&
	      strstr(said, "; recorded are the events that are enabled in the guest\n"));
	CHECK(braid_region_source_status(r.guests->source).unconfirmed);
	CHECK(!braid_region_source_confirmed(r.guests->source, 0));
	fake->bytes = *said = 0;
	braid_record_undo_agents(&r);
	CHECK_EQ(fake->bytes, 0);
	CHECK(!*said);
	end_recording(&r, &memory, g);
}

/* The guest has gone silent: what is to be done in it is said. @ends: the process ends, too. */
static void says_what_stays_on(bool ends)
{
	struct own_memory memory;
	struct braid_recording r;
	struct fake_guest *g = begin_recording(&r, &memory);
	char *line;

	run_recording(&r, g, 1);
	fake->answers[0] = NULL;
	fake->code = VIR_ERR_AGENT_UNRESPONSIVE;
	fake->bytes = *said = 0;
	if (ends)
		NEED(!kill(r.agents.process.pid, SIGKILL));
	braid_record_undo_agents(&r);
	CHECK(ends || !strcmp(fake->sent, OPEN("sched/sched_switch/")));
	CHECK(ends || strstr(said, "its guest agent does not answer"));
	line = strstr(said, "web1: events may still be enabled; in the guest: echo 0 | tee "
			    FOLDER "sched/sched_switch/enable " FOLDER "irq/enable\n");
	CHECK(line && !strchr(line, '\n')[1]);
	end_recording(&r, &memory, g);
}

static void test_what_stays_on(void)
{
	says_what_stays_on(false);
	says_what_stays_on(true);
}

int main(void)
{
	fake = mmap(NULL, sizeof(*fake), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(fake != MAP_FAILED);
	RUN(test_commands);
	RUN(test_undone_when_the_recorder_dies);
	RUN(test_undone_when_the_recorder_is_killed);
	RUN(test_refusals);
	RUN(test_answers_that_are_none);
	RUN(test_nothing_else_is_sent);
	RUN(test_only_domains_that_are_named);
	RUN(test_a_process_that_ends);
	RUN(test_a_recording);
	RUN(test_a_recording_that_is_refused);
	RUN(test_what_stays_on);
	return VERDICT();
}
