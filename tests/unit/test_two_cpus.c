// SPDX-License-Identifier: GPL-2.0-or-later
/* Exports on two CPUs: the same bytes, totals and failures as on one. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/ctf/form.h"
#include "host_agent/export/export.h"
#include "host_agent/util/error.h"
#include "host_agent/util/relay.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"

#define NR_BATCHES	500u
#define EVENTS		"60000"		/* many batches */
#define PART_NS		20000000	/* a third of their time */

int main(void);

static char dir[] = "/tmp/test_two_cpus.XXXXXX";
static char capture[64];
static cpu_set_t all_cpus;

static void use_cpus(size_t nr)
{
	cpu_set_t set;
	int cpu;

	CPU_ZERO(&set);
	for (cpu = 0; cpu < CPU_SETSIZE && (size_t)CPU_COUNT(&set) < nr; cpu++)
		if (CPU_ISSET(cpu, &all_cpus))
			CPU_SET(cpu, &set);
	NEED(!sched_setaffinity(0, sizeof(set), &set));
	CHECK_EQ(braid_relay_can(), nr > 1);
}

/* The relay ------------------------------------------------------------------------------------ */

/*
 * What the stages have done. Two runners at once in the first or last one would be a race: the
 * thread sanitizer reports it.
 */
static struct {
	u32 filled, checked, written;
	u32 batches[BRAID_RELAY_RUNNERS];
	u32 checked_of[BRAID_RELAY_RUNNERS];
	bool sorted;
	u32 fail_at[3];		/* by stage: the batch that fails; ~0u: none */
} seen;

static int fail_at(u32 stage, u32 batch)
{
	static const int errors[] = { -EIO, -ENOMEM, -EPIPE };

	return seen.fail_at[stage] == batch ?
	       braid_fail(errors[stage], "stage %u of batch %u", stage, batch) : 0;
}

static int fill(void *arg, size_t runner)
{
	int err = fail_at(0, seen.filled);

	(void)arg;
	seen.batches[runner] = seen.filled++;
	return err ? err : seen.filled < NR_BATCHES;
}

static int check(void *arg, size_t runner)
{
	(void)arg;
	seen.checked_of[runner]++;
	return fail_at(1, seen.batches[runner]);
}

static int write_one(void *arg, size_t runner)
{
	(void)arg;
	seen.sorted &= seen.batches[runner] == seen.written;
	return fail_at(2, seen.written++);
}

static int relay(u32 first, u32 second, u32 third)
{
	static const struct braid_relay_stage stages[] = {
		{ .run = fill }, { .run = check, .at_once = true }, { .run = write_one },
	};

	memset(&seen, 0, sizeof(seen));
	seen.sorted = true;
	seen.fail_at[0] = first;
	seen.fail_at[1] = second;
	seen.fail_at[2] = third;
	return braid_relay_run(stages, 3, NULL);
}

static void batches_pass_in_order(void)
{
	CHECK_EQ(relay(~0u, ~0u, ~0u), 0);
	CHECK(seen.sorted);
	CHECK_EQ(seen.filled, NR_BATCHES);
	CHECK_EQ(seen.checked_of[0] + seen.checked_of[1], NR_BATCHES);
	CHECK_EQ(seen.written, NR_BATCHES);
}

static void the_first_failure_counts(void)
{
	CHECK_EQ(relay(100, ~0u, ~0u), -EIO);
	CHECK(!strcmp(braid_failure(), "stage 0 of batch 100"));
	CHECK(seen.sorted);
	CHECK_EQ(seen.written, 101);	/* the contents from before the failure are written */
	CHECK_EQ(relay(100, 100, ~0u), -ENOMEM);
	CHECK(!strcmp(braid_failure(), "stage 1 of batch 100"));
	CHECK_EQ(seen.written, 100);
	CHECK_EQ(relay(101, 100, 99), -EPIPE);
	CHECK(!strcmp(braid_failure(), "stage 2 of batch 99"));
	CHECK_EQ(seen.written, 100);
	CHECK_EQ(relay(0, ~0u, ~0u), -EIO);
	CHECK_EQ(seen.written, 1);
	CHECK_EQ(relay(~0u, ~0u, 0), -EPIPE);
	CHECK_EQ(seen.written, 1);
}

/* Exports -------------------------------------------------------------------------------------- */

struct result {
	int err;
	char failure[256];
	struct braid_walk_totals totals;
};

static bool from_memory;	/* of the trace there; else of the capture */

static struct result export(const char *form, const char *out,
			    const struct braid_walk_options *selected)
{
	struct braid_walk_options options = *selected;
	struct braid_source *source = &memory_source;
	char *names[] = { capture };
	struct result r = { .err = 0 };

	options.two_cpus = true;
	if (from_memory)
		braid_source_rewind(source);
	else
		NEED(!braid_source_open_captures(&source, names, 1, NULL));
	r.err = braid_export_run(braid_export_form_by_name(form), out, source, &options, &r.totals);
	if (r.err)
		snprintf(r.failure, sizeof(r.failure), "%s", braid_failure());
	if (!from_memory)
		braid_source_free(source);
	return r;
}

static void same_result(const struct result *a, const struct result *b)
{
	CHECK_EQ(a->err, b->err);
	CHECK(!strcmp(a->failure, b->failure));
	CHECK_EQ(a->totals.events, b->totals.events);
	CHECK_EQ(a->totals.lost, b->totals.lost);
	CHECK_EQ(a->totals.uncertain, b->totals.uncertain);
	CHECK_EQ(a->totals.lines, b->totals.lines);
}

static void same_on_both(const char *form, const struct braid_walk_options *options)
{
	char one[80], two[80], command[256];
	struct result a, b;

	snprintf(one, sizeof(one), "%s/one.%s", dir, form);
	snprintf(two, sizeof(two), "%s/two.%s", dir, form);
	use_cpus(1);
	a = export(form, one, options);
	use_cpus(2);
	b = export(form, two, options);
	same_result(&a, &b);
	CHECK_EQ(a.err, 0);
	snprintf(command, sizeof(command), "tests/unit/same_files.py %s %s", one, two);
	CHECK_EQ(system(command), 0);
	snprintf(command, sizeof(command), "rm -r %s %s", one, two);
	CHECK_EQ(system(command), 0);
}

static const char *const names[] = { "text", "json", "ctf", "perfetto", "html" };

static void forms(void)
{
	static char *some[] = { "sched_switch" }, *none[] = { "no_such_event" };
	const struct braid_walk_options all[] = {
		{ .uncertain = true },
		{ .realtime = true },
		{ .max_lines = 5001 },
		{ .events = some, .nr_events = 1, .no_header = true },
		{ .events = none, .nr_events = 1 },
		{ .stream = "guest1" },
		{ .from = { BRAID_MOMENT_SINCE, PART_NS },
		  .to = { BRAID_MOMENT_SINCE, 2 * PART_NS } },
		{ .from = { BRAID_MOMENT_BEFORE, PART_NS }, .realtime = true },
	};
	size_t k, n;

	for (k = 0; k < sizeof(names) / sizeof(*names); k++)
		for (n = 0; n < sizeof(all) / sizeof(*all); n++)
			same_on_both(names[k], &all[n]);
}

/* Many switches are missing, and events lost: states depend on what follows in each ring. */
static void make_gaps(void)
{
	static const s32 threads[] = { 0, 8, 9, 70 }, tasks[] = { 0, 33, 34 };
	u32 nr = 3 * 8000, ring, k;
	s64 ns = 1000;

	memory_begin();
	memory_guest.nr_cpus = 1;
	srandom(1);
	for (k = 0; k < nr; k++) {
		struct memory_event *e;

		ns += random() % 500 + 1;
		ring = k % 3;
		if (ring == 2)
			e = memory_switch(ring, ns, memory_current(ring), random() % 2,
					  tasks[random() % 3]);
		else if (random() % 4 == 0)
			e = memory_wakeup(ring, ns, 70);
		else
			e = memory_switch(ring, ns,
					  random() % 3 ? memory_current(ring) :
							 threads[random() % 4],
					  random() % 2, threads[random() % 4]);
		e->lost = random() % 20 ? 0 : 2;
	}
}

static void gaps(void)
{
	const struct braid_walk_options all = { .states = true };
	size_t k;

	make_gaps();
	from_memory = true;
	for (k = 0; k < sizeof(names) / sizeof(*names); k++)
		same_on_both(names[k], &all);
	from_memory = false;
}

static void failures(void)
{
	static const volatile sig_atomic_t stop = 1;
	const struct braid_walk_options stopped = { .stop = &stop }, usual = { .stop = NULL };
	struct result a, b;
	char out[80];
	size_t k;

	snprintf(out, sizeof(out), "%s/out", dir);
	for (k = 0; k < sizeof(names) / sizeof(*names); k++) {
		use_cpus(1);
		a = export(names[k], out, &stopped);
		use_cpus(2);
		b = export(names[k], out, &stopped);
		same_result(&a, &b);
		CHECK_EQ(a.err, -EINTR);
		CHECK(access(out, F_OK));
	}
	for (k = 0; k < sizeof(names) / sizeof(*names); k++) {
		if (!strcmp(names[k], "ctf"))
			continue;
		use_cpus(1);
		a = export(names[k], "/dev/full", &usual);
		use_cpus(2);
		b = export(names[k], "/dev/full", &usual);
		CHECK_EQ(a.err, -ENOSPC);
		CHECK_EQ(b.err, -ENOSPC);
		CHECK(!strcmp(a.failure, b.failure));
	}
}

int main(void)
{
	char command[160];

	NEED(!sched_getaffinity(0, sizeof(all_cpus), &all_cpus));
	NEED(mkdtemp(dir));
	snprintf(capture, sizeof(capture), "%s/capture", dir);
	RUN(batches_pass_in_order);
	RUN(the_first_failure_counts);
	if (CPU_COUNT(&all_cpus) < 2) {
		printf("skip exports: this machine has one CPU\n");
	} else {
		snprintf(command, sizeof(command), "build/make_big_capture %s " EVENTS, capture);
		NEED(!system(command));
		RUN(forms);
		RUN(gaps);
		RUN(failures);
	}
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	NEED(!system(command));
	return VERDICT();
}
