// SPDX-License-Identifier: GPL-2.0-or-later
/* vCPUs' states as events of CTF, in a stream class of their own: a stream for each vCPU. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/ctf/ctf.h"
#include "host_agent/util/error.h"

#define NUMBERS_BYTES	(4u + 8)	/* vcpu, ns */

/* The values as the metadata has them. */
static int put_values(struct braid_ctf *ctf, struct braid_ctf_ring *r,
		      const struct braid_slice *slice, const char *culprits)
{
	char state[BRAID_NAME_TEXT], task[BRAID_NAME_TEXT];
	u64 ns = slice->to_ns - slice->from_ns;
	u32 number = braid_slices_states(ctf->slices)->vcpus[slice->vcpu].number;
	u8 *at;
	int err;

	braid_slice_name(slice, state);
	braid_slices_task(ctf->slices, slice->vcpu, slice->task, task);
	err = braid_ctf_begin_event(ctf, r, 0, braid_walk_shown_ns(&ctf->walk, slice->from_ns),
				    NUMBERS_BYTES + strlen(state) + strlen(task) +
				    strlen(culprits) + 3 * 8, &at);
	if (err)
		return err;
	memcpy(at, &number, sizeof(number));
	at = braid_ctf_put_string(at + sizeof(number), state, strlen(state));
	memcpy(at, &ns, sizeof(ns));
	at = braid_ctf_put_string(at + sizeof(ns), task, strlen(task));
	at = braid_ctf_put_string(at, culprits, strlen(culprits));
	return braid_ctf_end_event(ctf, r, at);
}

static int put_slice(void *arg, const struct braid_slice *slice)
{
	struct braid_ctf *ctf = arg;
	struct braid_ctf_ring *r = &ctf->states[slice->vcpu];
	struct braid_text culprits = { 0 };
	int err = r->class ? 0 : braid_ctf_meet_states(ctf, slice->vcpu);

	if (err)
		return err;
	braid_slices_culprits(ctf->slices, slice, &culprits);
	err = culprits.failed ? braid_out_of_memory() :
				put_values(ctf, r, slice, culprits.data);
	braid_text_free(&culprits);
	return err;
}

int braid_ctf_states_begin(struct braid_ctf *ctf)
{
	static const struct braid_slices_ops ops = { .slice = put_slice };
	int err = braid_slices_begin(&ctf->slices, &ctf->walk, &ops, ctf);

	if (err)
		return err;
	ctf->states = calloc((size_t)braid_slices_states(ctf->slices)->nr_vcpus + 1,
			     sizeof(*ctf->states));
	return ctf->states ? 0 : braid_out_of_memory();
}

int braid_ctf_states_end(struct braid_ctf *ctf)
{
	int err = ctf->states ? braid_slices_end(ctf->slices) : 0;
	u32 k;

	for (k = 0; ctf->states && k < braid_slices_states(ctf->slices)->nr_vcpus && !err; k++)
		err = braid_ctf_end_ring(ctf, &ctf->states[k]);
	return err;
}
