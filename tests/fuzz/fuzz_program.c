// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Programs of filters, as a hostile host writes them: what the check accepts reads nothing outside
 * the record and the program, ends, and has the same verdict again.
 * Input: program, then the record.
 */
#include "shared/filter.h"
#include "tests/fuzz/fuzz.h"

static bool in_cgroup(s32 task, u64 id)
{
	return (u64)task == id;
}

static bool is_chosen(s32 task)
{
	return task & 1;
}

static const struct braid_filter_tasks tasks = { in_cgroup, is_chosen };

static enum braid_filter_verdict run(const struct braid_filter_program *program, const u8 *bytes,
				     size_t nr)
{
	static const char comm[BRAID_COMM_BYTES] = "0123456789abcdef";	/* without NUL */
	const struct braid_filter_record record = {
		.bytes = bytes, .nr_bytes = nr, .cpu = nr, .comm = comm,
		.tasks = &tasks,
	};

	return braid_filter_run(program, &record);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct fuzz_input in = { data, bytes };
	size_t n = bytes < sizeof(struct braid_filter_program) ? bytes :
		   sizeof(struct braid_filter_program);
	struct braid_filter_program *program = calloc(1, sizeof(*program));
	enum braid_filter_verdict verdict;
	u8 *record;

	memcpy(program, data, n);
	in.at += n;
	in.left -= n;
	if (in.left > BRAID_FILTER_RECORD)
		in.left = BRAID_FILTER_RECORD;
	record = fuzz_rest(&in);
	if (!braid_filter_check(program)) {
		verdict = run(program, record, in.left);
		MUST(verdict <= BRAID_FILTER_UNJUDGED);
		MUST_EQ(run(program, record, in.left), verdict);
		if (in.left < program->record_bytes)
			MUST_EQ(verdict, BRAID_FILTER_UNJUDGED);
	}
	free(record);
	free(program);
	return 0;
}
