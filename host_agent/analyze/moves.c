// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guests that moved between hosts: what a host shows of a vCPU's thread holds until the guest was
 * last seen there. From when it was first seen on the next host, that one's does. In between, the
 * vCPU's state is unknown.
 */
#include "host_agent/analyze/gaps.h"
#include "host_agent/analyze/private.h"

/* Just after a time; no event is as late as the latest one. */
static int add_edge(struct braid_states *s, s64 ns, int kind, u32 stream)
{
	return ns == INT64_MAX ? 0 : braid_observe_edge(s, (struct braid_edge){
		.due_ns = ns + 1, .kind = kind, .which = stream,
	});
}

int braid_moves_begin(struct braid_states *s)
{
	size_t k, n;
	int err = 0;

	for (k = 0; k < s->source->nr_streams && !err; k++) {
		const struct braid_stream *guest = s->source->streams[k];

		for (n = 1; n < guest->nr_stays && !err; n++) {
			err = add_edge(s, guest->stays[n].from_ns, BRAID_EDGE_LEAVES, k) ?:
			      add_edge(s, guest->stays[n].begun_ns, BRAID_EDGE_ARRIVES, k);
		}
	}
	return err;
}

static bool is_of(const struct braid_guest_state *guest, u32 vcpu)
{
	return vcpu >= guest->first_vcpu && vcpu < guest->first_vcpu + guest->nr_vcpus;
}

/* CPUs whose current thread is a vCPU of it, or may have been: it is a task like others now. */
static int leave_cpus(struct braid_states *s, const struct braid_guest_state *guest,
		      struct braid_host_state *host, s64 ns)
{
	u32 k;
	int err = 0;

	for (k = 0; k < host->nr_cpus && !err; k++) {
		struct braid_host_cpu *cpu = &host->cpus[k];

		if (is_of(guest, cpu->vcpu))
			cpu->vcpu = BRAID_NO_VCPU;
		if (is_of(guest, cpu->hides))
			err = braid_gaps_close(s, cpu, ns);
	}
	return err;
}

static int leaves(struct braid_states *s, const struct braid_guest_state *guest, s64 ns)
{
	struct braid_vcpu *v = &s->vcpus[guest->first_vcpu], *past = v + guest->nr_vcpus;
	int err = v < past ? leave_cpus(s, guest, v->host, ns) : 0;

	for (; v < past && !err; v++) {
		if (v->out)	/* no entry follows there */
			err = braid_vcpu_settle(s, v, ns) ?: braid_vcpu_report_exit(s, v, ns);
		if (!err)
			err = braid_vcpu_forget_thread(s, v, ns);
	}
	return err;
}

/* Those of the guest are no longer of what a loss of the host makes unknown. */
static void untouch(struct braid_states *s, const struct braid_guest_state *guest,
		    struct braid_host_state *host)
{
	u32 *at = &host->first_touched;

	while (*at != BRAID_NO_VCPU) {
		struct braid_vcpu *v = &s->vcpus[*at];

		if (!is_of(guest, *at)) {
			at = &v->next_touched;
			continue;
		}
		*at = v->next_touched;
		v->touched = false;
	}
}

static void arrives(struct braid_states *s, const struct braid_stream *of, s64 ns)
{
	struct braid_guest_state *guest = &s->guests[of->number];
	struct braid_vcpu *v = &s->vcpus[guest->first_vcpu], *past = v + guest->nr_vcpus;
	const struct braid_stream *part = braid_stream_part_at(of, ns);

	if (v < past)
		untouch(s, guest, v->host);
	for (; v < past; v++) {
		v->part = part;
		v->host = braid_states_host(s, part);
		v->tid = 0;
		v->cpu = 0;
	}
}

int braid_moves_pass(struct braid_states *s, const struct braid_edge *edge)
{
	if (edge->kind == BRAID_EDGE_LEAVES)
		return leaves(s, &s->guests[edge->which], edge->due_ns - 1);
	arrives(s, s->source->streams[edge->which], edge->due_ns - 1);
	return 0;
}
