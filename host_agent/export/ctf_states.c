// SPDX-License-Identifier: GPL-2.0-or-later
/* vCPUs' states as events of CTF, in a stream class of their own: a stream for each vCPU. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/ctf.h"
#include "host_agent/util/error.h"

static int fill(struct braid_ctf *ctf, bt_field *payload, const struct braid_slice *slice)
{
	const struct braid_states *s = &ctf->slices.states;
	const struct braid_vcpu *v = &s->vcpus[slice->vcpu];
	char state[BRAID_NAME_TEXT], task[BRAID_NAME_TEXT];
	struct braid_text culprits = { 0 };
	const char *strings[] = { state, task, NULL };
	static const u32 places[] = { 1, 3, 4 };
	u32 k;
	int err;

	braid_slice_name(slice, state);
	braid_task_name(s, v->guest->number, slice->task, task);
	if (slice->culprits.nr)
		braid_pieces_write(s, &slice->culprits, BRAID_TABLE_TEXT, &culprits);
	else
		braid_text_putc(&culprits, '-');
	braid_text_putc(&culprits, 0);
	strings[2] = culprits.data;
	err = culprits.failed ? -ENOMEM : 0;
	bt_field_integer_unsigned_set_value(
		bt_field_structure_borrow_member_field_by_index(payload, 0), v->number);
	bt_field_integer_unsigned_set_value(
		bt_field_structure_borrow_member_field_by_index(payload, 2),
		slice->to_ns - slice->from_ns);
	for (k = 0; k < 3 && !err; k++)
		err = braid_ctf_string(ctf, bt_field_structure_borrow_member_field_by_index(
					       payload, places[k]),
				       strings[k], strlen(strings[k]));
	braid_text_free(&culprits);
	return err;
}

static int put_slice(void *arg, const struct braid_slice *slice)
{
	struct braid_ctf *ctf = arg;
	bool met = ctf->states[slice->vcpu].stream;
	struct braid_ctf_ring *r = braid_ctf_state_ring(ctf, slice->vcpu);
	bt_message *message;
	int err = r ? 0 : braid_out_of_memory();

	if (!err && !met)
		err = braid_ctf_begin_ring(ctf, r);
	if (!err)
		err = braid_ctf_begin_event(ctf, r, r->buffer->note,
					    braid_walk_shown_ns(&ctf->walk, slice->from_ns),
					    sizeof(*slice), &message);
	if (err)
		return err;
	if (fill(ctf, bt_event_borrow_payload_field(bt_message_event_borrow_event(message)),
		 slice)) {
		bt_message_put_ref(message);
		return braid_out_of_memory();
	}
	return braid_ctf_queue(ctf, message, 128);
}

int braid_ctf_states_begin(struct braid_ctf *ctf)
{
	static const struct braid_slices_ops ops = { .slice = put_slice };
	int err = braid_slices_begin(&ctf->slices, &ctf->walk, &ops, ctf);

	if (err)
		return err;
	ctf->states = calloc((size_t)ctf->slices.states.nr_vcpus + 1, sizeof(*ctf->states));
	return ctf->states ? 0 : braid_out_of_memory();
}

int braid_ctf_states_end(struct braid_ctf *ctf)
{
	int err = ctf->states ? braid_slices_end(&ctf->slices) : 0;
	u32 k;

	for (k = 0; ctf->states && k < ctf->slices.states.nr_vcpus && !err; k++)
		err = braid_ctf_end_ring(ctf, &ctf->states[k]);
	return err;
}
