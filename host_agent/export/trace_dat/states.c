// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vCPUs' states as events of a trace.dat. They come from one walk over all rings, and a file has
 * each CPU's events contiguous: so they are kept until their file is written.
 */
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/trace_dat/states.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/slices.h"

static const char format[] =
	"name: vcpu_state\nID: 3\nformat:\n" BRAID_DAT_OUT_COMMON
	"\tfield:u32 vcpu;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\tfield:__data_loc char[] state;\toffset:12;\tsize:4;\tsigned:1;\n"
	"\tfield:u64 ns;\toffset:16;\tsize:8;\tsigned:0;\n"
	"\tfield:__data_loc char[] task;\toffset:24;\tsize:4;\tsigned:1;\n"
	"\tfield:__data_loc char[] culprit;\toffset:28;\tsize:4;\tsigned:1;\n"
	"\nprint fmt: \"vcpu=%u state=%s ns=%llu task=%s culprit=%s\", REC->vcpu, __get_str(state), "
	"REC->ns, __get_str(task), __get_str(culprit)\n";

struct state_record {
	struct braid_record record;
	u32 vcpu;
	u32 state;		/* length:16, offset:16 from the record's start */
	u64 ns;
	u32 task;		/* likewise */
	u32 culprit;
};

/* In front of each kept record. */
struct kept {
	u64 ns;
	u32 bytes;
	u32 padding;
};

struct braid_dat_out_states {
	struct braid_slices *slices;
	struct braid_walk walk;
	struct braid_text *events;	/* by vCPU */
	struct braid_text text;		/* scratch space */
};

/* Appends a string, and returns where it is in the record. */
static u32 add_string(struct braid_text *t, size_t record, const char *string)
{
	u32 bytes = strlen(string) + 1, at = t->bytes - record;

	braid_text_put(t, string, bytes);
	return bytes << 16 | at;
}

static int trace_dat_states_keep(void *arg, const struct braid_slice *slice)
{
	struct braid_dat_out_states *s = arg;
	struct braid_text *t = &s->events[slice->vcpu];
	s64 from_ns = braid_walk_shown_ns(&s->walk, slice->from_ns);
	struct kept kept = { .ns = from_ns < 0 ? 0 : (u64)from_ns };
	struct state_record r = {
		.record = { .common_type = BRAID_DAT_OUT_STATE, .common_pid = slice->task },
		.vcpu = braid_slices_states(s->slices)->vcpus[slice->vcpu].number,
		.ns = slice->to_ns - slice->from_ns,
	};
	char state[BRAID_NAME_TEXT], task[BRAID_NAME_TEXT];
	size_t begin = t->bytes, record = begin + sizeof(kept);

	s->text.bytes = 0;
	braid_slices_culprits(s->slices, slice, &s->text);
	braid_slice_name(slice, state);
	braid_slices_task(s->slices, slice->vcpu, slice->task, task);
	braid_text_put(t, (const char *)&kept, sizeof(kept));
	braid_text_put(t, (const char *)&r, sizeof(r));
	r.state = add_string(t, record, state);
	r.task = add_string(t, record, task);
	r.culprit = add_string(t, record, s->text.failed ? "" : s->text.data);
	while ((t->bytes - record) & 7 && !t->failed)
		braid_text_putc(t, 0);
	kept.bytes = t->bytes - record;
	if (t->failed || s->text.failed)
		return braid_out_of_memory();
	memcpy(t->data + begin, &kept, sizeof(kept));
	memcpy(t->data + record, &r, sizeof(r));
	return 0;
}

static int trace_dat_states_walk(struct braid_dat_out_states *s, struct braid_source *source,
				 const struct braid_walk_options *options)
{
	static const struct braid_slices_ops ops = { .slice = trace_dat_states_keep };
	static const struct braid_walk_ops none;
	struct braid_walk_totals totals;
	int err = braid_walk_begin(&s->walk, source, options, &totals);

	if (!err)
		err = braid_slices_begin(&s->slices, &s->walk, &ops, s);
	if (err || !braid_slices_any(s->slices))
		return err;
	s->events = calloc((size_t)braid_slices_states(s->slices)->nr_vcpus + 1,
			   sizeof(*s->events));
	err = s->events ? braid_walk_run(&s->walk, &none, NULL) : braid_out_of_memory();
	if (!err)
		err = braid_slices_end(s->slices);
	braid_source_rewind(source);
	return err;
}

int braid_dat_out_states_make(struct braid_dat_out_states **out, struct braid_source *source,
			      const struct braid_walk_options *options)
{
	struct braid_dat_out_states *s = *out = calloc(1, sizeof(*s));
	int err = s ? trace_dat_states_walk(s, source, options) : braid_out_of_memory();

	if (s)
		braid_walk_end(&s->walk);
	if (!s || (!err && braid_slices_any(s->slices)))
		return err;
	braid_dat_out_states_free(s);
	*out = NULL;
	return err;
}

void braid_dat_out_states_format(struct braid_dat_out_file *file)
{
	braid_dat_out_put_format(file, "tracebraid", format, strlen(format));
}

int braid_dat_out_states_put(const struct braid_dat_out_states *s, const struct braid_stream *guest,
			     u32 vcpu, struct braid_dat_out_pages *pages)
{
	const struct braid_guest_state *of = &braid_slices_states(s->slices)->guests[guest->number];
	const struct braid_text *t;
	u64 last_ns = 0;
	size_t at = 0;
	int err = 0;

	if (vcpu >= of->nr_vcpus)
		return 0;
	t = &s->events[of->first_vcpu + vcpu];
	while (!err && at < t->bytes) {
		struct kept kept;
		void *record;

		memcpy(&kept, t->data + at, sizeof(kept));
		/* Wall time may go back, and pages can't. */
		last_ns = kept.ns > last_ns ? kept.ns : last_ns;
		err = braid_dat_out_pages_put(pages, last_ns, kept.bytes, &record);
		if (!err)
			memcpy(record, t->data + at + sizeof(kept), kept.bytes);
		at += sizeof(kept) + kept.bytes;
	}
	return err ? err : braid_dat_out_pages_close(pages);
}

void braid_dat_out_states_free(struct braid_dat_out_states *s)
{
	u32 k;

	if (!s)
		return;
	for (k = 0; s->events && k < braid_slices_states(s->slices)->nr_vcpus; k++)
		braid_text_free(&s->events[k]);
	free(s->events);
	braid_text_free(&s->text);
	braid_slices_free(s->slices);
	free(s);
}
