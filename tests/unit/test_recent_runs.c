// SPDX-License-Identifier: GPL-2.0-or-later
/* The runs of tasks that are remembered: the last 512 of a vCPU, and little memory for few. */
#include "host_agent/analyze/recent_runs.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

/* Bytes of the heap in use: of <sanitizer/allocator_interface.h>, which gcc does not have. */
#ifdef __SANITIZE_ADDRESS__
size_t __sanitizer_get_current_allocated_bytes(void);
#define heap_bytes()	__sanitizer_get_current_allocated_bytes()
#define COUNTS_HEAP	true
#else
#define heap_bytes()	0
#define COUNTS_HEAP	false
#endif

#define KEPT	512u
#define MANY	10000u
#define RUN_NS	10

static struct braid_recent_runs behind;
static size_t before;

static void begin(u32 nr_vcpus)
{
	before = heap_bytes();
	NEED(!braid_recent_runs_begin(&behind, nr_vcpus));
}

static size_t allocated(void)
{
	return heap_bytes() - before;
}

/* The task of a number ran once, after all those of smaller numbers. */
static void ran(u32 vcpu, u32 task)
{
	struct braid_state_span span = {
		.vcpu = vcpu, .state = BRAID_VCPU_GUEST, .task = task + 1,
		.from_ns = task * RUN_NS, .to_ns = (task + 1) * RUN_NS,
	};

	NEED(!braid_recent_runs_span(&behind, &span));
}

/* A vCPU that ran a few times costs that much, whatever the number of vCPUs. */
static void memory(void)
{
	size_t of_one;
	u32 k;

	begin(MANY);
	for (k = 0; k < MANY; k++)
		ran(k, 0);
	CHECK(allocated() < MANY * 160);
	of_one = allocated();
	for (k = 1; k < MANY; k++)
		ran(7, k);
	CHECK(allocated() - of_one < KEPT * 32);
	braid_recent_runs_free(&behind);
	CHECK_EQ(allocated(), 0);
}

/* Each of the last runs is found, however many there were; none of before. */
static void last_runs(void)
{
	u32 nr, k, kept;
	struct braid_shares out;

	for (nr = 1; nr < 3 * KEPT; nr += nr < 40 ? 1 : 37) {
		begin(1);
		for (k = 0; k < nr; k++)
			ran(0, k);
		kept = nr < KEPT ? nr : KEPT;
		for (k = 0; k < nr; k++) {
			NEED(!braid_recent_runs_find(&behind, 0, k * RUN_NS, (k + 1) * RUN_NS,
						     &out));
			CHECK_EQ(out.nr, k >= nr - kept);
			CHECK(!out.nr || (out.of[0].culprit.task == (s32)k + 1 &&
					  out.of[0].ns == RUN_NS));
		}
		braid_recent_runs_free(&behind);
	}
}

int main(void)
{
	if (COUNTS_HEAP)
		RUN(memory);
	RUN(last_runs);
	return VERDICT();
}
