// SPDX-License-Identifier: GPL-2.0-or-later
/* Stacks for flame graphs: frames with semicolons between them, a space, and a weight. */
#include <stdio.h>

#include "host_agent/analyze/analysis.h"

void braid_folded_frame(struct braid_text *out, const char *name)
{
	if (!*name)
		return;
	if (out->bytes && out->data[out->bytes - 1] != '\n')
		braid_text_putc(out, ';');
	/* A semicolon would begin another frame. */
	for (; *name; name++)
		braid_text_putc(out, *name == ';' ? ':' : *name);
}

void braid_folded_vcpu(const struct braid_states *s, const struct braid_sum_key *key,
		       struct braid_text *out)
{
	char name[32], guest[BRAID_STREAM_LABEL];

	if (key->vcpu == BRAID_NO_VCPU) {
		braid_folded_frame(out, "others");
		return;
	}
	snprintf(name, sizeof(name), "vCPU %u", s->vcpus[key->vcpu].number);
	braid_stream_label(s->vcpus[key->vcpu].guest, guest);
	braid_folded_frame(out, guest);
	braid_folded_frame(out, name);
}

void braid_folded_end(struct braid_text *out, size_t from, const struct braid_sum *sum,
		      const struct braid_analysis_options *options)
{
	u64 weight = options->by_count ? sum->count : sum->total_ns;

	if (weight)
		braid_text_printf(out, " %llu\n", (unsigned long long)weight);
	else
		out->bytes = from;
}
