// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples, mappings and symbols as a hostile guest writes them, between events that its host
 * recorded. Whatever they are, a profile's stacks have all of the vCPU's time, and are lines of
 * text; and so has the tree that is made of them.
 * Input: symbols, then events; a few bytes make one that is nearly valid.
 */
#include "host_agent/walk/analysis.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/memory_trace.h"

#define KERNEL		0xffffffff81000000ULL
#define MOST_EVENTS	400u
#define MOST_SYMBOLS	4u
#define GUEST		2u	/* its ring */

static struct fuzz_input in;
static u32 lengths[MEMORY_MOST];	/* of the guest's payloads */
static u8 *payload;

/* Payloads have exactly their bytes, so that a read past the end is detected. */
static int next_exact(struct braid_ring *base)
{
	struct memory_ring *r = (struct memory_ring *)base;
	const struct memory_event *e = &r->events[r->at];

	if (r->at == r->nr)
		return 0;
	free(payload);
	payload = malloc(lengths[r->at]);
	memcpy(payload, e->payload, lengths[r->at]);
	base->walk.events++;
	base->item = (struct braid_item){
		.kind = BRAID_ITEM_EVENT, .host_ns = e->ns, .sure = true, .seq = ++r->at,
		.payload = payload, .payload_bytes = lengths[r->at - 1],
		.stream = base->stream, .ring = base,
	};
	return 1;
}

static void rewind_exact(struct braid_ring *base)
{
	((struct memory_ring *)base)->at = 0;
	base->walk.events = 0;
}

static u64 take_address(void)
{
	u32 how = fuzz_take(&in, 1);

	switch (how & 3) {
	case 0:
		return KERNEL + (how >> 2) * 0x100;
	case 1:
		return 0x400000 + (how >> 2) * 0x1000;
	case 2:
		return 1ULL << 63 | how >> 2;
	default:
		return fuzz_take(&in, 8);
	}
}

static void take_symbols(void)
{
	static struct braid_symbol symbols[MOST_SYMBOLS];
	u32 nr = fuzz_take(&in, 1) % (MOST_SYMBOLS + 1), k;

	for (k = 0; k < nr; k++) {
		u32 size = fuzz_take(&in, 3), into = fuzz_take(&in, 2);

		memset(&symbols[k], 0, sizeof(symbols[k]));
		symbols[k].address = take_address();
		snprintf(symbols[k].name, sizeof(symbols[k].name), "f%u+0x%x/0x%x", k, into, size);
	}
	memory_guest.symbols = symbols;
	memory_guest.nr_symbols = nr;
}

/* Then some bytes of it are anything, and it may end anywhere. */
static void spoil(struct memory_event *e)
{
	u32 nr = fuzz_take(&in, 1), length = sizeof(e->payload);

	if (nr & 0x80)
		length = sizeof(struct braid_record) + fuzz_take(&in, 1) % (length - 7);
	for (nr &= 3; nr; nr--) {
		u32 at = fuzz_take(&in, 1);

		e->payload[8 + at % (sizeof(e->payload) - 8)] = fuzz_take(&in, 1);
	}
	lengths[memory_rings[GUEST].nr - 1] = length;
}

static void sample(s64 ns)
{
	struct memory_event *e = memory_add(GUEST, ns, MEMORY_USER_SAMPLE, memory_current(GUEST));
	u32 how = fuzz_take(&in, 1), kernel = how & 3, user = how >> 2 & 3, k;

	memory_put(e, 8, take_address(), 8);
	memory_put(e, 16, how >> 6, 4);
	memory_put(e, 20, how >> 4 & 1, 2);
	memory_put(e, 22, fuzz_take(&in, 1) & 3, 2);
	memory_put(e, 24, 48 | kernel * 8 << 16, 4);
	memory_put(e, 28, (48 + kernel * 8) | user * 8 << 16, 4);
	memory_put(e, 32, fuzz_take(&in, 1) & 3, 8);
	for (k = 0; k < kernel + user; k++)
		memory_put(e, 48 + k * 8, take_address(), 8);
	spoil(e);
}

static void mapping(s64 ns)
{
	struct memory_event *e = memory_add(GUEST, ns, MEMORY_MAPPING, 7);
	u32 how = fuzz_take(&in, 1), bytes = how >> 4, k;
	u64 start = take_address();

	memory_put(e, 8, how & 3, 8);
	memory_put(e, 16, start, 8);
	memory_put(e, 24, start + fuzz_take(&in, 3), 8);
	memory_put(e, 32, fuzz_take(&in, 2), 8);
	memory_put(e, 44, 72 | bytes << 16, 4);
	for (k = 0; k + 1 < bytes; k++)
		memory_put(e, 72 + k, fuzz_take(&in, 1), 1);
	spoil(e);
}

/* The guest's own, which are valid. */
static void switch_to(s64 ns, s32 pid)
{
	memory_switch(GUEST, ns, memory_current(GUEST), 0, pid);
	lengths[memory_rings[GUEST].nr - 1] = sizeof(memory_rings[GUEST].events[0].payload);
}

static void host_stack(s64 ns)
{
	struct memory_event *e = memory_add(0, ns, MEMORY_STACK, 70);
	u32 nr = fuzz_take(&in, 1) & 7, k;

	for (k = 0; k < nr; k++)
		memory_put(e, 16 + k * 8, take_address(), 8);
	memory_put(e, 16 + nr * 8, ~0ULL, 8);
}

static void take_event(s64 ns)
{
	u32 kind = fuzz_take(&in, 1);

	switch (kind & 15) {
	case 0 ... 5:
		return sample(ns);
	case 6 ... 8:
		return mapping(ns);
	case 9:
		return switch_to(ns, kind >> 4);
	case 10:
		return host_stack(ns);
	case 11:
		return memory_entry(0, ns, 70);
	case 12:
		memory_exit(0, ns, 70, kind >> 4);
		return;
	case 13:
		return memory_user(0, ns, 70);
	case 14:
		memory_switch(0, ns, 70, 0, 9);
		return;
	default:
		memory_switch(0, ns, 9, 0, 70);
	}
}

static void take_trace(void)
{
	static const struct braid_ring_ops exact = { .next = next_exact, .rewind = rewind_exact };
	s64 ns = 1000000;
	u32 k;

	memory_begin();
	memory_guest.nr_cpus = 1;
	memory_rings[GUEST].ring.ops = &exact;
	take_symbols();
	memory_switch(0, ns, 0, 0, 70);
	switch_to(ns, 33);
	for (k = 0; k < MOST_EVENTS && in.left; k++) {
		ns += fuzz_take(&in, 2) * 16;
		take_event(ns);
	}
	memory_window(1000000, ns + 1000000);
}

/* What an analysis prints; free() it. */
static char *profile(struct braid_analysis_options wants)
{
	static const struct braid_walk_options options;
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	braid_source_rewind(&memory_source);
	MUST(!braid_analysis_write(to, &memory_source, &options, &braid_analysis_profile, &wants));
	fclose(to);
	MUST_EQ(strlen(text), bytes);
	return text;
}

/* The sum of the weights of lines. */
static u64 sum_of(const char *text)
{
	u64 sum = 0;

	while (*text) {
		const char *end = strchr(text, '\n'), *at;

		MUST(end);
		for (at = text; at < end; at++)
			MUST((u8)*at >= ' ');
		while (*at != ' ') {
			MUST(at > text);
			at--;
		}
		sum += strtoull(at, NULL, 10);
		text = end + 1;
	}
	return sum;
}

static u64 observed_ns(const char *json)
{
	const char *at = strstr(json, "\"observed_ns\":");

	MUST(at);
	return strtoull(strchr(at, ':') + 1, NULL, 10);
}

static void check_tree(const char *folded, u32 most, u64 all)
{
	const struct braid_text text = { .data = (char *)folded, .bytes = strlen(folded) };
	struct braid_flame f = { 0 };
	u64 own = 0;
	size_t k;

	MUST(!braid_flame_make(&f, &text, most));
	for (k = 0; k < f.nr; k++) {
		MUST(f.frames[k].parent == BRAID_FLAME_ROOT || f.frames[k].parent < k);
		MUST(f.frames[k].name < f.nr_names);
		own += f.frames[k].own_ns;
	}
	MUST_EQ(own, all);
	MUST_EQ(f.total_ns, all);
	braid_flame_free(&f);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	char *folded, *json;
	u64 all;

	in = (struct fuzz_input){ data, bytes };
	take_trace();
	folded = profile((struct braid_analysis_options){ .folded = true });
	json = profile((struct braid_analysis_options){ .form = BRAID_TABLE_JSON, .top = 10 });
	all = observed_ns(json);
	MUST_EQ(sum_of(folded), all);
	check_tree(folded, 3, all);
	check_tree(folded, 1000, all);
	free(folded);
	free(json);
	free(payload);
	payload = NULL;
	return 0;
}
