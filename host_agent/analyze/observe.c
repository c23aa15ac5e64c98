// SPDX-License-Identifier: GPL-2.0-or-later
/* When vCPUs are observed: within the recording, its selected part, and their guest's trace. */
#include <errno.h>

#include "host_agent/analyze/private.h"
#include "host_agent/util/error.h"

void braid_states_limit(struct braid_states *s, s64 from_ns, s64 to_ns)
{
	u32 k;

	if (!braid_states_takes(from_ns))
		from_ns = INT64_MIN;
	if (!braid_states_takes(to_ns))
		to_ns = INT64_MAX;
	if (from_ns != INT64_MIN && (s->begin_ns == INT64_MAX || from_ns > s->begin_ns))
		s->begin_ns = from_ns;
	if (to_ns < s->end_ns)
		s->end_ns = to_ns;
	for (k = 0; k < s->nr_vcpus; k++) {
		if (s->begin_ns != INT64_MAX && s->vcpus[k].begin_ns < s->begin_ns)
			s->vcpus[k].begin_ns = s->begin_ns;
		if (s->vcpus[k].end_ns > s->end_ns)
			s->vcpus[k].end_ns = s->end_ns;
	}
}

void braid_states_cut(struct braid_states *s)
{
	s->windowed = false;
}

void braid_observe_begin(struct braid_states *s)
{
	const struct braid_source *source = s->source;
	size_t k;

	s->begin_ns = s->end_ns = INT64_MAX;
	for (k = 0; k < source->nr_windows; k++) {
		const struct braid_window *w = &source->windows[k];

		if (!braid_states_takes(w->start_ns) || w->stop_ns < w->start_ns)
			continue;
		if (s->begin_ns == INT64_MAX || w->stop_ns > s->end_ns)
			s->end_ns = braid_states_takes(w->stop_ns) ? w->stop_ns : INT64_MAX;
		if (w->start_ns < s->begin_ns)
			s->begin_ns = w->start_ns;
		s->windowed = true;
	}
}

void braid_observe_vcpu(struct braid_states *s, u32 vcpu, const struct braid_stream *guest,
			u32 number)
{
	struct braid_vcpu *v = &s->vcpus[vcpu];
	bool ended = guest->end_reason && guest->end_reason != BRAID_END_STOPPED;

	*v = (struct braid_vcpu){
		.guest = guest, .number = number, .task = BRAID_PID_UNKNOWN, .kvm_id = -1, .ipi = -1,
		.begin_ns = s->begin_ns == INT64_MAX ? INT64_MIN : s->begin_ns,
		.end_ns = ended && braid_states_takes(guest->end_ns) ? (s64)guest->end_ns :
								       INT64_MAX,
		.now = {
			.vcpu = vcpu, .from_ns = INT64_MIN, .task = BRAID_PID_UNKNOWN,
			.culprit = { .vcpu = BRAID_NO_VCPU, .task = BRAID_PID_UNKNOWN },
		},
	};
	/* A later incarnation: until then the vCPU counts for the one before. */
	if (guest->before && braid_states_takes(guest->found_ns) &&
	    (s64)guest->found_ns > v->begin_ns)
		v->begin_ns = guest->found_ns;
	if (s->end_ns < v->end_ns)
		v->end_ns = s->end_ns;
}

int braid_observe_check(const struct braid_vcpu *v)
{
	s64 observed = v->end_ns - v->begin_ns;
	u64 sum = 0;
	u32 k;

	for (k = 0; k < BRAID_NR_VCPU_STATES; k++)
		sum += v->ns[k];
	if (sum == (observed > 0 ? (u64)observed : 0))
		return 0;
	return braid_fail(-EINVAL, "%s/vCPU %u: its states add up to %llu ns, but it was observed for %lld ns: a bug in tracebraid",
			  v->guest->name, v->number, (unsigned long long)sum, (long long)observed);
}
