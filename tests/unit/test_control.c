// SPDX-License-Identifier: GPL-2.0-or-later
/* Patterns, suggestions, and commands to a guest that answers or does not. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_sync/exchange.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/control/control.h"
#include "host_agent/control/probe.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/scratch.h"

static char *path;

static const struct fake_params usual = {
	.name = "g", .bytes = 1 << 20, .nr_vcpus = 1, .subbuf_bytes = 1024, .nr_slots = 8,
};

static bool matches(const char *pattern, const char *system, const char *event)
{
	struct braid_pattern p;

	return !braid_pattern_parse(&p, pattern) && braid_pattern_matches(&p, system, event);
}

static void test_patterns(void)
{
	struct braid_pattern p;

	CHECK(matches("sched", "sched", "anything"));
	CHECK(!matches("sched", "schedx", "anything"));
	CHECK(matches("sched:sched_*", "sched", "sched_switch"));
	CHECK(!matches("sched:sched_w*", "sched", "sched_switch"));
	CHECK(matches("all", "x", "y"));
	CHECK(matches("*:*switch", "sched", "sched_switch"));
	CHECK_EQ(braid_pattern_parse(&p, ""), -EINVAL);
	CHECK_EQ(braid_pattern_parse(&p, ":x"), -EINVAL);
	CHECK_EQ(braid_pattern_parse(&p, "1234567890123456789012345678901234567890123456789012345678901234"),
		 -EINVAL);
	CHECK_EQ(braid_pattern_parse(&p, "123456789012345678901234567890123456789012345678901234567890123"), 0);
}

struct opened {
	struct fake_guest *g;
	struct braid_mapping *m;
	struct braid_superblock sb;
};

static void open_guest(struct opened *o)
{
	o->g = fake_guest_new(path, &usual);
	CHECK_EQ(braid_mapping_open(&o->m, path, true), 0);
	CHECK_EQ(braid_mapping_identify(o->m, &o->sb), 0);
}

static void close_guest(struct opened *o)
{
	braid_mapping_close(o->m);
	fake_guest_free(o->g);
}

static void suggests(const struct braid_directory_copy *copy, const char *pattern, const char *near)
{
	struct braid_pattern p;

	CHECK_EQ(braid_pattern_parse(&p, pattern), 0);
	CHECK_EQ(braid_pattern_count(&p, copy), 0);
	CHECK_EQ(braid_directory_suggest(copy, &p, "g"), -ENOENT);
	if (near)
		CHECK(strstr(braid_failure(), near));
	else
		CHECK(!strstr(braid_failure(), "did you mean"));
}

static void test_suggestions(void)
{
	struct braid_directory_copy copy;
	struct opened o;

	open_guest(&o);
	CHECK_EQ(braid_directory_load(&copy, o.m, &o.sb, 0), 0);
	CHECK_EQ(braid_directory_count(&copy).total, FAKE_NR_EVENTS);
	CHECK(!copy.damaged);
	suggests(&copy, "sched:sched_swich", "did you mean sched:sched_switch");
	suggests(&copy, "shed", "did you mean sched?");
	suggests(&copy, "sched_switch", "did you mean sched:sched_switch");
	suggests(&copy, "wrong:irq_handler_entry", "did you mean irq:irq_handler_entry");
	suggests(&copy, "nothing:like_this_at_all", NULL);
	braid_directory_free(&copy);
	close_guest(&o);
}

/* Sends a command and waits. 0 or -errno. */
static int command(struct opened *o, u32 what, const struct braid_pattern *pattern, u64 timeout_ns,
		   u32 *matched)
{
	struct braid_control_answer answer;
	struct braid_control c;
	int err;

	braid_control_begin(&c, o->m, &o->sb, what, 0, pattern, timeout_ns);
	while ((err = braid_control_poll(&c, &answer)) == -EAGAIN)
		braid_sleep_ns(500000);
	if (!err && matched)
		*matched = answer.matched;
	return err ? err : answer.result;
}

static void test_commands(void)
{
	struct braid_directory_copy copy;
	struct braid_pattern p;
	struct opened o;
	u32 matched;

	open_guest(&o);
	fake_guest_start_thread(o.g);
	CHECK_EQ(braid_pattern_parse(&p, "sched:*"), 0);
	CHECK_EQ(command(&o, BRAID_CMD_ENABLE, &p, BRAID_CONTROL_TIMEOUT_NS, &matched), 0);
	CHECK_EQ(matched, 2);
	CHECK_EQ(braid_directory_load(&copy, o.m, &o.sb, 0), 0);
	CHECK_EQ(braid_directory_count(&copy).host_on, 2);
	braid_directory_free(&copy);
	CHECK_EQ(command(&o, BRAID_CMD_DISABLE, NULL, BRAID_CONTROL_TIMEOUT_NS, &matched), 0);
	CHECK_EQ(matched, FAKE_NR_EVENTS);
	fake_guest_stop(o.g);
	CHECK_EQ(command(&o, BRAID_CMD_NONE, NULL, 20000000, NULL),
		 -ETIMEDOUT);
	CHECK(strstr(braid_failure(), "does not answer"));
	/* Waits for the unanswered command, then sends the next one. */
	fake_guest_start_thread(o.g);
	CHECK_EQ(command(&o, BRAID_CMD_NONE, NULL, BRAID_CONTROL_TIMEOUT_NS, NULL), 0);
	fake_guest_stop(o.g);
	((struct braid_superblock *)o.m->base)->state = BRAID_STATE_DOWN;
	CHECK_EQ(command(&o, BRAID_CMD_NONE, NULL, BRAID_CONTROL_TIMEOUT_NS, NULL), -ESTALE);
	close_guest(&o);
}

/* A guest that executes a long command is waited for, but not for good. */
static void test_long_command(void)
{
	const u64 timeout_ns = 2000000, most_ns = 15 * timeout_ns;
	struct braid_control_answer answer;
	struct braid_control c;
	struct opened o;
	u64 start_ns;
	int err;

	open_guest(&o);
	start_ns = braid_host_clock_ns();
	braid_control_begin(&c, o.m, &o.sb, BRAID_CMD_NONE, 0, NULL, timeout_ns);
	do {
		c.box->guest_heartbeat++;
		err = braid_control_poll(&c, &answer);
	} while (err == -EAGAIN);
	CHECK_EQ(err, -ETIMEDOUT);
	CHECK(braid_host_clock_ns() - start_ns >= most_ns);
	close_guest(&o);
}

/* An earlier driver does not know what type a function returns. */
static void test_probes(void)
{
	struct braid_control_answer answer;
	struct braid_pattern event;
	struct braid_probe probe;
	struct braid_control c;
	struct opened o;
	u32 minor;

	CHECK_EQ(braid_probe_parse(&probe, &event, "r f $retval x=$retval:u8", false), 0);
	for (minor = BRAID_PROBE_NAMES_MINOR - 1; minor <= BRAID_PROBE_NAMES_MINOR; minor++) {
		open_guest(&o);
		o.sb.version_minor = minor;
		braid_control_begin(&c, o.m, &o.sb, BRAID_CMD_PROBE, 0, &event,
				    BRAID_CONTROL_TIMEOUT_NS);
		c.probe = &probe;
		CHECK_EQ(braid_control_poll(&c, &answer), -EAGAIN);
		CHECK_EQ(c.box->probe.args[0].type, minor < BRAID_PROBE_NAMES_MINOR ?
			 BRAID_PROBE_X64 : BRAID_PROBE_AUTO);
		CHECK_EQ(c.box->probe.args[1].type, BRAID_PROBE_U8);
		close_guest(&o);
	}
}

/* Every sample is correct: the fake guest's offset is known. */
static void test_exchange(void)
{
	struct braid_round_trip c[BRAID_EXCHANGE_BEST];
	struct braid_exchange_peer *peer, *dead;
	struct braid_exchange *x;
	struct opened o;
	u64 start = braid_host_clock_ns();
	struct braid_exchange_guest guest;
	size_t n, k, samples = 0;
	u32 vcpus = 0;

	open_guest(&o);
	fake_guest_start_thread(o.g);
	CHECK_EQ(braid_exchange_start(&x), 0);
	guest = (struct braid_exchange_guest){
		.base = o.m->base, .bytes = o.m->bytes, .nr_vcpus = 3,
		.cells = braid_mapping_section(o.m, &o.sb, BRAID_SECTION_CLOCK),
	};
	CHECK_EQ(braid_exchange_add(x, &guest, &peer), 0);
	/* Every vCPU is asked: the fake one answers as the requested one. */
	while ((samples < 4 || vcpus != 7) && braid_host_clock_ns() - start < 60000000000ULL) {
		n = braid_exchange_take(x, peer, c, BRAID_EXCHANGE_BEST);
		for (k = 0; k < n; k++) {
			CHECK(c[k].s.h1_ns <= c[k].s.counter - FAKE_COUNTER_OFFSET);
			CHECK(c[k].s.counter - FAKE_COUNTER_OFFSET <= c[k].s.h2_ns);
			CHECK(c[k].vcpu >= 1 && c[k].vcpu <= 3);
			vcpus |= 1u << (c[k].vcpu - 1);
		}
		samples += n;
		braid_sleep_ns(1000000);
	}
	CHECK(samples >= 4);
	CHECK_EQ(vcpus, 7);
	CHECK(braid_exchange_bursts(x, peer) > 0);
	braid_exchange_remove(x, peer);
	fake_guest_stop(o.g);
	/* A dead guest that is removed while it is asked, and one that is kept to the end. */
	CHECK_EQ(braid_exchange_add(x, &guest, &dead), 0);
	braid_sleep_ns(2000000);
	braid_exchange_remove(x, dead);
	CHECK_EQ(braid_exchange_add(x, &guest, &dead), 0);
	CHECK_EQ(braid_exchange_take(x, dead, c, BRAID_EXCHANGE_BEST), 0);
	braid_exchange_stop(x);
	close_guest(&o);
}

int main(void)
{

	path = scratch("file");
	RUN(test_patterns);
	RUN(test_suggestions);
	RUN(test_commands);
	RUN(test_long_command);
	RUN(test_probes);
	RUN(test_exchange);
	return VERDICT();
}
