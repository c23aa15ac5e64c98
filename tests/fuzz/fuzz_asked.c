// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the mailbox's TRIGGER and RESHAPE carry, as a hostile host writes it: an accepted test of a
 * trigger names one that there is, and its program ends; accepted sizes are those that a region can
 * have, and hold what was asked. Buffers that follow many requests stay in a valid region: one that
 * does not fit gets its former place again.
 * Input: the words and the program of a trigger, then a record; or requests for buffers.
 */
#include "shared/asked.h"
#include "shared/region.h"
#include "tests/fuzz/fuzz.h"

#define NR_BUFFERS	3u
#define MOST_REQUESTS	64u

static void check_trigger(struct fuzz_input *in)
{
	struct braid_filter_program *program = calloc(1, sizeof(*program));
	struct braid_trigger trigger;
	size_t n = in->left < sizeof(*program) ? in->left : sizeof(*program);
	enum braid_filter_verdict verdict = BRAID_FILTER_PASS;
	u8 *record;

	trigger.index = fuzz_take(in, 4);
	trigger.role = fuzz_take(in, 4);
	n = n < in->left ? n : in->left;
	if (n)
		memcpy(program, in->at, n);
	in->at += n;
	in->left -= n;
	if (in->left > BRAID_FILTER_RECORD)
		in->left = BRAID_FILTER_RECORD;
	record = fuzz_rest(in);
	if (!braid_trigger_check(program, &trigger)) {
		const struct braid_filter_record seen = {
			.bytes = record, .nr_bytes = in->left, .comm = "0123456789abcdef",
		};

		MUST(trigger.index < BRAID_TRIGGERS && trigger.role < BRAID_TRIGGER_ROLES);
		if (program->nr_insns)
			verdict = braid_filter_run(program, &seen);
		MUST(verdict <= BRAID_FILTER_UNJUDGED);
	}
	free(record);
	free(program);
}

/* What the driver's buffers have, beside the region. */
static struct braid_buffer_params buffers[NR_BUFFERS] = {
	{ .name = "a" }, { .name = "b" }, { .name = "c" },
};
static u32 index_of[NR_BUFFERS];
static struct braid_superblock sb;
static u64 region_bytes;

static bool place(u32 k)
{
	u64 needed;
	int index = braid_region_add_buffer(&sb, &buffers[k], &needed);

	if (index < 0)
		return false;
	index_of[k] = index;
	return true;
}

static void check_sizes(const struct braid_reshape *asked, const struct braid_buffer_desc *was,
			const struct braid_reshape_to *to)
{
	u32 bytes = to->subbuf_bytes ? to->subbuf_bytes : was->subbuf_bytes;
	u32 nr = to->nr_slots ? to->nr_slots : was->nr_slots;

	MUST(bytes >= BRAID_MIN_SUBBUF_BYTES && bytes <= BRAID_MAX_SUBBUF_BYTES && !(bytes % 8));
	MUST(nr >= BRAID_MIN_SLOTS && nr <= BRAID_MAX_SLOTS && !(nr & (nr - 1)));
	MUST((u64)nr * bytes >= asked->ring_bytes);
	MUST(!((to->set | to->clear) & ~BRAID_BUFFER_OVERWRITE));
}

/* As braid_buffer_reshape_at() of the driver does it. */
static void reshape(u32 k, const struct braid_reshape *asked)
{
	const struct braid_buffer_desc *was = &sb.buffers[index_of[k]];
	struct braid_buffer_params former = buffers[k];
	struct braid_reshape_to to;

	if (braid_reshape_check(asked, was->nr_slots, was->subbuf_bytes, &to))
		return;
	check_sizes(asked, was, &to);
	braid_region_remove_buffer(&sb, index_of[k]);
	if (to.nr_slots)
		buffers[k].nr_slots = to.nr_slots;
	if (to.subbuf_bytes)
		buffers[k].subbuf_bytes = to.subbuf_bytes;
	buffers[k].flags = (former.flags & ~to.clear) | to.set;
	if (!place(k)) {
		buffers[k] = former;
		MUST(place(k));
	}
	MUST(!braid_region_check(&sb, region_bytes));
}

static void check_reshapes(struct fuzz_input *in)
{
	struct braid_region_params params = {
		.nr_vcpus = 1 + fuzz_take(in, 1) % 4, .nr_comms = 16, .nr_symbols = 16,
		.directory_bytes = 4096,
	};
	struct braid_reshape asked;
	u64 needed;
	u32 k;

	region_bytes = params.region_bytes = (512u + fuzz_take(in, 2)) << 10;
	memset(&sb, 0, sizeof(sb));
	MUST(!braid_region_layout(&sb, &params, &needed));
	sb.magic = BRAID_MAGIC;
	sb.version_major = BRAID_VERSION_MAJOR;
	sb.state = BRAID_STATE_LIVE;
	sb.incarnation = 1;
	sb.counter_hz = 1000000000;
	for (k = 0; k < NR_BUFFERS; k++) {
		buffers[k].subbuf_bytes = 4096;
		buffers[k].nr_slots = 2;
		buffers[k].flags = 0;
		MUST(place(k));
	}
	for (k = 0; k < MOST_REQUESTS && in->left; k++) {
		u32 buffer = fuzz_take(in, 1) % NR_BUFFERS, how = fuzz_take(in, 1);

		asked.ring_bytes = fuzz_take(in, how & 7);
		asked.subbuf_bytes = fuzz_take(in, how >> 3 & 3) * (how & 0x20 ? 8 : 1);
		asked.set = how >> 6 & 1 ? BRAID_BUFFER_OVERWRITE : fuzz_take(in, 1);
		asked.clear = how >> 7 ? BRAID_BUFFER_OVERWRITE : 0;
		asked.reserved = 0;
		reshape(buffer, &asked);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct fuzz_input in = { data, bytes };

	if (fuzz_take(&in, 1) & 1)
		check_trigger(&in);
	else
		check_reshapes(&in);
	return 0;
}
