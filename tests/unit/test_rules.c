// SPDX-License-Identifier: GPL-2.0-or-later
/* Conditions: parsed as written; they fire once when they begin to hold, and say why. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/serve/rules.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define MS	1000000LL

/* Sums, as an engine has them. */
static struct braid_online_vcpu vcpus[2];
static struct braid_online_row culprits[2];
static struct braid_online_row reason;
static struct braid_online_seen seen[2];
static struct braid_online_guest guest = { .name = "web1", .vcpus = vcpus, .nr_vcpus = 2 };
static struct braid_rule_guest now;

static struct braid_rules rules;
static unsigned int fired;
static char why[BRAID_RULE_LINE];

static void note(void *arg, const struct braid_rule *rule, const struct braid_online_guest *g,
		 const char *line)
{
	(void)arg, (void)rule, (void)g;
	fired++;
	snprintf(why, sizeof(why), "%s", line);
}

static void watch(const char *text, const char *glob)
{
	struct braid_rule rule;

	braid_rules_clear(&rules);
	memset(vcpus, 0, sizeof(vcpus));
	memset(culprits, 0, sizeof(culprits));
	memset(&reason, 0, sizeof(reason));
	culprits[0] = (struct braid_online_row){ .key = BRAID_CULPRIT_GUEST, .name = "db1" };
	culprits[1] = (struct braid_online_row){ .key = BRAID_CULPRIT_HOST };
	guest.culprits = (struct braid_online_rows){ .items = culprits, .nr = 2 };
	guest.exits = (struct braid_online_rows){ .items = &reason, .nr = 1 };
	guest.lost = guest.losses = 0;
	memset(seen, 0, sizeof(seen));
	guest.seen = seen;
	guest.nr_seen = 2;
	now = (struct braid_rule_guest){
		.guest = &guest, .now_ns = 1000 * MS, .silent_ns = UINT64_MAX,
	};
	fired = 0;
	*why = 0;
	NEED(!braid_rule_parse(&rule, text, glob));
	NEED(!braid_rules_add(&rules, &rule));
	NEED(!braid_rules_check(&rules, &now, note, NULL));
}

/* So much time passes, in steps of 100 ms; of each, so much is stolen from a vCPU. */
static void pass(u64 ms, u32 vcpu, u64 percent)
{
	for (; ms; ms -= 100) {
		now.now_ns += 100 * MS;
		vcpus[vcpu].ns[BRAID_VCPU_STOLEN] += percent * MS;
		culprits[0].ns += percent * MS * 3 / 4;
		culprits[1].ns += percent * MS / 4;
		NEED(!braid_rules_check(&rules, &now, note, NULL));
	}
}

static void stolen_over_a_time(void)
{
	watch("stolen > 20% for 1s", "*");
	pass(3000, 0, 19);
	CHECK_EQ(fired, 0);
	pass(3000, 0, 22);
	CHECK_EQ(fired, 1);
	CHECK(strstr(why, "web1/vCPU 0 was stolen for "));
	CHECK(strstr(why, "; taken by db1 (75 %), threads of the host (25 %) (stolen > 20% for 1s)"));
	/* It goes on, and fires no more; after it has not held for its time it may again. */
	pass(5000, 0, 50);
	CHECK_EQ(fired, 1);
	pass(3000, 0, 0);
	pass(3000, 1, 30);
	CHECK_EQ(fired, 2);
	CHECK(strstr(why, "web1/vCPU 1 was stolen"));
}

/* Culprits beyond the limit of rows took most; a row that was dropped has begun anew. */
static void others_and_new_rows(void)
{
	watch("stolen > 20% for 1s", "*");
	culprits[0].ns = 900 * MS;
	pass(2000, 0, 0);
	culprits[0].ns = 0;
	guest.culprits.others.ns = 10000 * MS;
	pass(3000, 0, 40);
	CHECK_EQ(fired, 1);
	CHECK(strstr(why, "; taken by others ("));
	CHECK(strstr(why, "db1 ("));
	guest.culprits.others.ns = 0;
}

/* A vCPU's, not all of them together. */
static void of_one_vcpu(void)
{
	watch("stolen > 60% for 500ms", "*");
	pass(2000, 0, 50);
	pass(2000, 1, 50);
	CHECK_EQ(fired, 0);
}

static void of_other_guests(void)
{
	watch("stolen > 20% for 1s", "db*");
	pass(5000, 0, 90);
	CHECK_EQ(fired, 0);
	watch("stolen > 20% for 1s", "web*");
	pass(5000, 0, 90);
	CHECK_EQ(fired, 1);
}

/* A time without marks, as of a recorder that was started again, is one time. */
static void a_time_without_marks(void)
{
	watch("stolen > 20% for 1s", "*");
	pass(2000, 0, 0);
	now.now_ns += 60000 * MS;
	vcpus[0].ns[BRAID_VCPU_STOLEN] += 500 * MS;	/* of a minute */
	NEED(!braid_rules_check(&rules, &now, note, NULL));
	CHECK_EQ(fired, 0);
	pass(2000, 0, 0);
	CHECK_EQ(fired, 0);
}

static void each_kind(void)
{
	watch("throttled > 0", "*");
	vcpus[1].ns[BRAID_VCPU_THROTTLED] += 10 * MS;
	pass(100, 0, 0);
	CHECK_EQ(fired, 1);
	CHECK(strstr(why, "web1/vCPU 1 was throttled for "));

	watch("wake-up > 2ms", "*");
	now.wake_up_ns = 2 * MS;
	pass(100, 0, 0);
	CHECK_EQ(fired, 0);
	now.wake_up_ns = 2 * MS + 1;
	pass(100, 0, 0);
	CHECK_EQ(fired, 1);
	CHECK(strstr(why, "a vCPU of web1 waited 2.000 ms for a CPU"));

	guest.driver = true;
	guest.wakeups.nr = 1;
	watch("wake-up > 2ms", "*");
	now.wake_up_ns = 3 * MS;
	pass(100, 0, 0);
	CHECK_EQ(fired, 1);
	CHECK(strstr(why, "a task of web1 waited 3.000 ms for its vCPU"));

	watch("silent > 1s", "*");
	pass(3000, 0, 0);	/* not known: without a driver */
	CHECK_EQ(fired, 0);
	now.silent_ns = 1500 * MS;
	pass(100, 0, 0);
	CHECK_EQ(fired, 1);
	CHECK(strstr(why, "web1 has been silent for 1.500 s"));

	watch("lost > 0", "*");
	guest.lost = 17;
	pass(100, 0, 0);
	CHECK_EQ(fired, 1);
	CHECK(strstr(why, "web1 lost 17 events"));

	watch("exits > 10k/s for 1s", "*");
	for (fired = 0; now.now_ns < 5000 * MS;) {
		reason.count += 900;	/* of 100 ms */
		pass(100, 0, 0);
	}
	CHECK_EQ(fired, 0);
	for (; now.now_ns < 9000 * MS;) {
		reason.count += 1100;
		pass(100, 0, 0);
	}
	CHECK_EQ(fired, 1);
}

/* Once, however often it comes; and again after a time without. */
static void an_event(void)
{
	watch("sched:sched_switch", "*");
	pass(2000, 0, 0);
	CHECK_EQ(fired, 0);
	seen[0] = (struct braid_online_seen){
		.count = 3, .host_ns = 1234567890123LL, .cpu = 1, .pid = 77, .comm = "sh",
		.event = "sched:sched_switch",
	};
	pass(100, 0, 0);
	CHECK_EQ(fired, 1);
	CHECK(!strcmp(why, "web1 recorded sched:sched_switch in task sh[77] on vCPU 1 at 1234.567890123 (sched:sched_switch)"));
	for (fired = 0; now.now_ns < 9000 * MS; seen[0].count++)
		pass(500, 0, 0);
	CHECK_EQ(fired, 0);
	pass(3000, 0, 0);
	seen[0].count++;
	pass(100, 0, 0);
	CHECK_EQ(fired, 1);
	/* However long the last check was ago. */
	pass(3000, 0, 0);
	now.now_ns += 60000 * MS;
	seen[0].count++;
	NEED(!braid_rules_check(&rules, &now, note, NULL));
	CHECK_EQ(fired, 2);
	/* Before the first check: the rule was there. */
	watch("lost > 0", "*");
	seen[0].count = 1;
	braid_rules_forget(&rules);
	braid_rules_forget(&rules);
	rules.items[0].what = BRAID_RULE_EVENT;
	rules.items[0].limit = 0;
	NEED(!braid_rules_check(&rules, &now, note, NULL));
	CHECK_EQ(fired, 1);
}

static void a_trigger(void)
{
	watch("lost > 0", "*");
	braid_rule_trigger(&rules.items[0], "a:b: snapshot", 7);
	CHECK(!strcmp(rules.items[0].filter, "trigger == 7"));
	CHECK(!braid_online_watch_check(rules.items[0].event, rules.items[0].filter));
	rules.items[0].watched = 1;
	pass(2000, 0, 0);
	CHECK_EQ(fired, 0);
	seen[1] = (struct braid_online_seen){ .count = 1, .cpu = 1, .pid = 5, .comm = "x" };
	pass(100, 0, 0);
	CHECK_EQ(fired, 1);
	CHECK(!strcmp(why, "a trigger of web1 fired in task x[5] on vCPU 1 at 0.000000000 (a:b: snapshot)"));
}

/* So many in a time. */
static void events_in_a_time(void)
{
	watch("a:b > 10 for 1s if x == 1", "*");
	strcpy(seen[0].event, "a:b");
	for (; now.now_ns < 5000 * MS; seen[0].count++)
		pass(200, 0, 0);
	CHECK_EQ(fired, 0);
	for (; now.now_ns < 9000 * MS; seen[0].count += 2)
		pass(100, 0, 0);
	CHECK_EQ(fired, 1);
	CHECK(strstr(why, "web1 recorded 1") == why && strstr(why, " events within 1."));
	CHECK(strstr(why, " s, one of them a:b in task [0] on vCPU 0 at 0.000000000 (a:b > 10 for 1s if x == 1)"));
}

static void refuses(const char *text, const char *expected)
{
	struct braid_rule rule;

	CHECK_EQ(braid_rule_parse(&rule, text, "*"), -EINVAL);
	CHECK(strstr(braid_failure(), expected));
	if (!strstr(braid_failure(), expected))
		fprintf(stderr, "'%s' is refused with: %s\n", text, braid_failure());
}

static void parses(const char *text, u64 limit, u64 for_ns)
{
	struct braid_rule rule;

	CHECK_EQ(braid_rule_parse(&rule, text, "*"), 0);
	CHECK_EQ(rule.limit, limit);
	CHECK_EQ(rule.for_ns, for_ns);
}

static void conditions(void)
{
	parses("stolen > 20% for 1s", 200000, 1000 * MS);
	parses("stolen>20 % for 500ms", 200000, 500 * MS);
	parses("stolen > 0.5", 5000, 1000 * MS);
	parses("wake-up > 2ms", 2 * MS, 1000 * MS);
	parses("wake-up > 100us for 2m", 100000, 120000 * MS);
	parses("silent > 1", 1000 * MS, 1000 * MS);
	parses("exits > 100k/s", 100000, 1000 * MS);
	parses("lost > 5", 5, 1000 * MS);
	parses("sched:sched_switch", 0, 1000 * MS);
	parses("sched:sched_switch > 100 for 2s", 100, 2000 * MS);
	parses("sched:sched_switch for 5s if prio < 3 || prio > 5", 0, 5000 * MS);
	parses("sched:sched_switch>7 if comm == \"a b\"", 7, 1000 * MS);
	parses("sched:* if x == 1", 0, 1000 * MS);
	refuses("sched:", "expected one event, SYSTEM:EVENT");
	refuses("sched:a,sched:b", "expected one event, SYSTEM:EVENT");
	refuses("sched:a > 5% for 1s", "not a valid condition; expected, for example, 'sched:sched_process_exit > 10");
	refuses("sched:a more", "not a valid condition");
	refuses("sched:a if", "not a valid condition");
	refuses("sched:a if prio <", "prio <");
	refuses("stolen > 20% if x == 1", "not a valid condition");
	refuses("stolen", "not a valid condition; expected, for example, 'stolen > 20% for 1s'");
	refuses("stolen < 20%", "not a valid condition");
	refuses("stolen > 20ms", "not a valid condition");
	refuses("stolen > -1%", "not a valid condition");
	refuses("stolen > 20% for", "not a valid condition");
	refuses("stolen > 20% for 1x", "not a valid condition");
	refuses("stolen > 20% for 1s more", "not a valid condition");
	refuses("stolen > 20% for 1ms", "between 100ms and 60m");
	refuses("stolenn > 20%", "did you mean 'stolen'?");
	refuses("load > 5", "cannot be watched");
	refuses("", "cannot be watched");
}

int main(void)
{
	RUN(conditions);
	RUN(stolen_over_a_time);
	RUN(others_and_new_rows);
	RUN(of_one_vcpu);
	RUN(of_other_guests);
	RUN(a_time_without_marks);
	RUN(each_kind);
	RUN(an_event);
	RUN(a_trigger);
	RUN(events_in_a_time);
	braid_rules_clear(&rules);
	return VERDICT();
}
