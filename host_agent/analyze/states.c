// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes the merge's events, and hands each to what it changes: a host CPU, a vCPU, a guest task. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/private.h"
#include "host_agent/util/error.h"

const char *braid_vcpu_state_name(enum braid_vcpu_state state)
{
	static const char *const names[BRAID_NR_VCPU_STATES] = {
		[BRAID_VCPU_UNKNOWN] = "unknown", [BRAID_VCPU_GUEST] = "guest",
		[BRAID_VCPU_KVM] = "hypervisor", [BRAID_VCPU_VMM] = "VMM",
		[BRAID_VCPU_RUNS] = "running", [BRAID_VCPU_STOLEN] = "stolen",
		[BRAID_VCPU_THROTTLED] = "throttled",
		[BRAID_VCPU_HALTED] = "halted", [BRAID_VCPU_BLOCKED] = "blocked",
		[BRAID_VCPU_SLEEPS] = "sleeping", [BRAID_VCPU_STOPPED] = "stopped",
		[BRAID_VCPU_OFFLINE] = "offline",
	};

	return names[state];
}

/* Threads ----------------------------------------------------------------------------------- */

/* The vCPU that a thread of a host is now; NULL: none, or one that is not known by itself. */
static struct braid_vcpu *vcpu_of(struct braid_states *s, s64 tid, const struct braid_item *item)
{
	struct braid_vcpu *v = braid_vcpu_of_thread(s, braid_states_host(s, item->stream), tid,
						    item->host_ns);

	if (!v)
		return NULL;
	if (v->tid != tid) {
		braid_vcpu_set_thread(s, v, BRAID_THREAD_UNKNOWN, v->cpu);
		v->tid = tid;
	}
	braid_list_touch(s, v - s->vcpus);
	return v;
}

static void set_current(struct braid_states *s, const struct braid_item *item, s64 tid, u32 vcpu)
{
	struct braid_host_cpu *cpu = braid_states_cpu_of(s, item);

	braid_cpu_settle(s, cpu, item->host_ns);
	cpu->stream = item->stream->number;
	cpu->known = true;
	cpu->tid = tid;
	cpu->call = BRAID_CALL_UNKNOWN;
	cpu->vcpu = vcpu;
	cpu->left = BRAID_PID_UNKNOWN;
}

static u32 states_number_of(const struct braid_states *s, const struct braid_vcpu *v)
{
	return v ? (u32)(v - s->vcpus) : BRAID_NO_VCPU;
}

static int refresh(struct braid_states *s, struct braid_vcpu *v, s64 ns)
{
	return v ? braid_vcpu_refresh(s, v, ns, 0) : 0;
}

/* What the thread of a vCPU does that a switch leaves. */
static int thread_left(s64 prev_state)
{
	static const int threads[] = {
		[BRAID_LEFT_RUNNABLE] = BRAID_THREAD_WAITS,
		[BRAID_LEFT_SLEEPS] = BRAID_THREAD_SLEEPS,
		[BRAID_LEFT_STOPPED] = BRAID_THREAD_STOPPED,
		[BRAID_LEFT_DEAD] = BRAID_THREAD_UNKNOWN,
	};

	return threads[braid_role_left(prev_state)];
}

static int states_take_switch(struct braid_states *s, u32 number, const struct braid_item *item,
			      const struct braid_role_info *info)
{
	struct braid_host_state *host = braid_states_host(s, item->stream);
	struct braid_host_cpu *cpu = &host->cpus[number];
	struct braid_vcpu *from, *to;
	s64 prev, state, next;
	u32 call;
	int err;

	if (!braid_role_number(info, 0, item, &prev) || !braid_role_number(info, 1, item, &state) ||
	    !braid_role_number(info, 2, item, &next))
		return 0;
	host->seen.switches = s->guests[item->stream->number].any_switch = true;
	from = vcpu_of(s, prev, item);
	to = vcpu_of(s, next, item);
	if (from) {
		braid_vcpu_set_thread(s, from, thread_left(state), number);
		from->times_unseen += host->open_gaps > 0;
	}
	if (to && to->thread == BRAID_THREAD_WAITS && to->cpu != number) {
		to->moved_unseen = true;
		host->moved_unseen++;
	}
	if (to) {
		braid_throttle_ran(s, to, number, item->host_ns);
		braid_vcpu_set_thread(s, to, BRAID_THREAD_ON, number);
		braid_mark(s, BRAID_MARK_ON_CPU, states_number_of(s, to), item->host_ns, 0, 0);
	}
	call = cpu->known && cpu->tid == prev ? cpu->call : BRAID_CALL_UNKNOWN;
	set_current(s, item, next, states_number_of(s, to));
	cpu->sums.switches += braid_states_observes(s, item->host_ns);
	err = braid_task_take_host_switch(s, item, info, &call);
	cpu->call = call;
	if (err)
		return err;
	cpu->left = prev;
	cpu->irqs = 0;
	cpu->softirq = false;
	err = refresh(s, from, item->host_ns);
	if (!err)
		err = refresh(s, to, item->host_ns);
	return err ? err : braid_vcpu_refresh_waiters(s, host, number, item->host_ns, 0);
}

/* A thread that sleeps is woken, or one that waits is moved. */
static int take_place(struct braid_states *s, const struct braid_item *item,
		      const struct braid_role_info *info)
{
	struct braid_seen *seen = &braid_states_host(s, item->stream)->seen;
	bool wakeup = info->role == BRAID_ROLE_WAKEUP;
	struct braid_vcpu *v;
	s64 pid, cpu;
	int thread, err;

	if (!braid_role_number(info, 0, item, &pid))
		return 0;
	seen->wakeups |= wakeup;
	s->guests[item->stream->number].any_wakeup |= wakeup;
	seen->migrations |= !wakeup;
	err = wakeup && braid_task_follows_host(s) ? braid_task_take_wakeup(s, item, info) : 0;
	if (err)
		return err;
	v = vcpu_of(s, pid, item);
	/* A thread of unknown state may be running while it is woken. */
	if (!v || v->thread == BRAID_THREAD_ON || v->thread == BRAID_THREAD_UNKNOWN)
		return 0;
	if (!braid_role_number(info, 1, item, &cpu) || cpu < 0 || cpu > BRAID_STATES_MAX_CPUS)
		cpu = v->cpu;
	if (wakeup && (v->now.state == BRAID_VCPU_HALTED || v->now.state == BRAID_VCPU_SLEEPS))
		braid_mark(s, BRAID_MARK_WOKEN, states_number_of(s, v), item->host_ns, 0, 0);
	if (wakeup)
		braid_vcpu_note_waker(s, v, item);
	thread = wakeup ? BRAID_THREAD_WAITS : (int)v->thread;
	braid_vcpu_set_thread(s, v, thread, cpu);
	braid_throttle_check(s, v, item->host_ns);
	return refresh(s, v, item->host_ns);
}

static int take_irq(struct braid_states *s, u32 number, const struct braid_item *item,
		    const struct braid_role_info *info)
{
	struct braid_host_state *host = braid_states_host(s, item->stream);
	struct braid_host_cpu *cpu = &host->cpus[number];
	s64 which = 0;
	int err;

	braid_role_number(info, 0, item, &which);
	switch (info->role) {
	case BRAID_ROLE_IRQ_ENTRY:
		cpu->irqs++;
		cpu->irq = which;
		break;
	case BRAID_ROLE_IRQ_EXIT:
		cpu->irqs -= !!cpu->irqs;
		break;
	default:
		cpu->softirq = info->role == BRAID_ROLE_SOFTIRQ_ENTRY;
		cpu->vector = which;
	}
	if (!cpu->known)
		return 0;
	err = cpu->vcpu == BRAID_NO_VCPU ? 0 : refresh(s, &s->vcpus[cpu->vcpu], item->host_ns);
	return err ? err : braid_vcpu_refresh_waiters(s, host, number, item->host_ns, 0);
}

static void leave_guest(struct braid_states *s, struct braid_vcpu *v,
			const struct braid_item *item, const struct braid_role_info *info)
{
	struct braid_guest_state *guest = &s->guests[v->guest->number];
	bool known = !v->in_gap && guest->any_switch;
	s64 ip = 0;

	guest->entries_missing |= v->kvm == BRAID_KVM_HOST || v->kvm == BRAID_KVM_USER;
	braid_role_number(info, 2, item, &ip);
	v->reason = braid_role_reason(info, item);
	v->halted = false;
	v->exits += braid_vcpu_observes(v, item->host_ns);
	v->out = true;
	v->exit = (struct braid_exit){
		.vcpu = states_number_of(s, v), .task = v->in_gap ? BRAID_PID_UNKNOWN : v->task,
		.call = known ? v->call : BRAID_CALL_UNKNOWN, .level = 1, .ip = ip,
		.reason = v->reason, .from_ns = item->host_ns,
	};
}

static int states_take_kvm(struct braid_states *s, const struct braid_item *item,
			   const struct braid_role_info *info)
{
	struct braid_host_state *host = braid_states_host(s, item->stream);
	struct braid_vcpu *v = vcpu_of(s, braid_format_pid(item), item);
	s64 id;
	int err = 0;

	host->seen.kvm = true;
	braid_cpu_has_kvm(host, item->ring->cpu);
	host->seen.user |= info->role == BRAID_ROLE_KVM_USER;
	host->seen.other_vms |= !v;
	if (!v)
		err = braid_vcpu_add_other(s, item, &v);
	if (err || !v)
		return err;
	if (info->role == BRAID_ROLE_KVM_ENTRY) {
		if (braid_role_number(info, 0, item, &id))
			err = braid_mark_set_id(s, v, id);
		if (err)
			return err;
		v->entries += braid_vcpu_observes(v, item->host_ns);
		v->exit.returned = true;
		v->held_back = BRAID_HELD_NOT;
		v->ipi = -1;
		braid_mark(s, BRAID_MARK_ENTERED, states_number_of(s, v), item->host_ns, 0, 0);
	}
	if (info->role == BRAID_ROLE_KVM_EXIT) {
		leave_guest(s, v, item, info);
		v->times_unseen += braid_vcpu_may_hide(v);
	}
	v->kvm = info->role == BRAID_ROLE_KVM_ENTRY ? BRAID_KVM_GUEST :
		 info->role == BRAID_ROLE_KVM_EXIT ? BRAID_KVM_HOST : BRAID_KVM_USER;
	err = refresh(s, v, item->host_ns);
	/* The exit's states are counted from here, or up to here, also if the state goes on. */
	if (!err && v->out && info->role != BRAID_ROLE_KVM_USER)
		err = braid_states_settle(s, states_number_of(s, v), item->host_ns);
	if (info->role == BRAID_ROLE_KVM_EXIT)
		memcpy(v->exit.ns, v->ns, sizeof(v->ns));
	if (!err && info->role == BRAID_ROLE_KVM_ENTRY && v->out)
		err = braid_vcpu_report_exit(s, v, item->host_ns);
	return err;
}

/* The exit that is being handled left a guest of the guest. */
static void take_nested(struct braid_states *s, const struct braid_item *item)
{
	struct braid_vcpu *v = vcpu_of(s, braid_format_pid(item), item);

	braid_states_host(s, item->stream)->seen.nested = true;
	if (v && v->out)
		v->exit.level = 2;
}

/* An event's task is the current one of its CPU, of which that was not known. */
static int take_current(struct braid_states *s, u32 number, const struct braid_item *item)
{
	s32 tid = braid_format_pid(item);
	struct braid_vcpu *v = vcpu_of(s, tid, item);
	int err;

	if (tid == BRAID_PID_UNKNOWN)
		return 0;
	set_current(s, item, tid, states_number_of(s, v));
	if (v)
		braid_vcpu_set_thread(s, v, BRAID_THREAD_ON, number);
	err = braid_task_take_host_current(s, item) ?: refresh(s, v, item->host_ns);
	return err ? err : braid_vcpu_refresh_waiters(s, braid_states_host(s, item->stream), number,
						      item->host_ns, 0);
}

/* A system call of the host's begins or ends. */
static void take_call(struct braid_host_cpu *cpu, const struct braid_item *item,
		      const struct braid_role_info *info)
{
	if (cpu->known && cpu->tid == braid_format_pid(item))
		cpu->call = info->role == BRAID_ROLE_CALL_EXIT ? BRAID_CALL_NONE :
								 braid_role_call(info, item);
}

static int states_take_host(struct braid_states *s, const struct braid_item *item,
			    const struct braid_role_info *info)
{
	struct braid_host_state *host = braid_states_host(s, item->stream);
	u32 number = item->ring->cpu;
	struct braid_vcpu *v;
	int err;

	if (number >= host->nr_cpus)
		return 0;
	braid_list_touch_cpu(host, number);
	err = braid_gaps_close(s, &host->cpus[number], item->host_ns);
	if (!err)
		err = braid_gaps_check(s, item, item->host_ns);
	if (!err && host->seen.switches && !host->cpus[number].known &&
	    info->role != BRAID_ROLE_SWITCH)
		err = take_current(s, number, item);
	if (err)
		return err;
	switch (info->role) {
	case BRAID_ROLE_NONE:
		return 0;
	case BRAID_ROLE_WAKING:
		return braid_task_take_waking(s, item, info);
	case BRAID_ROLE_SWITCH:
		return states_take_switch(s, number, item, info);
	case BRAID_ROLE_WAKEUP:
	case BRAID_ROLE_MIGRATE:
		return take_place(s, item, info);
	case BRAID_ROLE_KVM_ENTRY:
	case BRAID_ROLE_KVM_EXIT:
	case BRAID_ROLE_KVM_USER:
		return states_take_kvm(s, item, info);
	case BRAID_ROLE_KVM_NESTED:
		take_nested(s, item);
		return 0;
	case BRAID_ROLE_THROTTLE:
	case BRAID_ROLE_THROTTLED:
	case BRAID_ROLE_UNTHROTTLE:
		return braid_throttle_take(s, number, item, info);
	case BRAID_ROLE_HELD_BACK:
		v = vcpu_of(s, braid_format_pid(item), item);
		if (v)
			braid_throttle_hold(s, v, item->host_ns);
		return 0;
	case BRAID_ROLE_CALL_ENTER:
	case BRAID_ROLE_CALL_EXIT:
		take_call(&host->cpus[number], item, info);
		return 0;
	case BRAID_ROLE_VECTOR_ENTRY:
	case BRAID_ROLE_VECTOR_EXIT:
	case BRAID_ROLE_ONLINE:
		return 0;	/* of guests only */
	case BRAID_ROLE_KVM_IPI:
	case BRAID_ROLE_KVM_RAISE:
	case BRAID_ROLE_KVM_INJECT:
	case BRAID_ROLE_KVM_HALTED:
		braid_mark_take_kvm(s, vcpu_of(s, braid_format_pid(item), item), item, info);
		return 0;
	default:
		return take_irq(s, number, item, info);
	}
}

/* Guests ------------------------------------------------------------------------------------ */

static int states_take_guest(struct braid_states *s, const struct braid_item *item,
			     const struct braid_role_info *info)
{
	const struct braid_guest_state *guest = &s->guests[item->stream->number];
	u32 number = guest->first_vcpu + item->ring->cpu;
	int err = 0;

	if (item->ring->cpu >= guest->nr_vcpus || braid_format_pid(item) == BRAID_PID_UNKNOWN)
		return 0;
	if (info->role == BRAID_ROLE_ONLINE)
		err = braid_vcpu_take_online(s, item, info);
	if (err)
		return err;
	if (!braid_item_is_sure(item)) {
		s->vcpus[number].task = BRAID_PID_UNKNOWN;
		s->vcpus[number].call = BRAID_CALL_UNKNOWN;
		return braid_vcpu_refresh(s, &s->vcpus[number], item->host_ns, 0);
	}
	/* It ran: what it waited for until then stays as it is known. */
	if (s->vcpus[number].holds)
		err = braid_vcpu_settle(s, &s->vcpus[number], item->host_ns);
	if (err)
		return err;
	if (info->role == BRAID_ROLE_SWITCH)
		return braid_task_take_switch(s, item, info);
	if (info->role == BRAID_ROLE_WAKEUP)
		return braid_task_take_wakeup(s, item, info);
	if (info->role == BRAID_ROLE_MIGRATE)
		return braid_task_take_migrate(s, item, info);
	if (info->role == BRAID_ROLE_CALL_ENTER || info->role == BRAID_ROLE_CALL_EXIT)
		return braid_task_take_call(s, item, info, number);
	if (info->role == BRAID_ROLE_WAKING)
		err = braid_task_take_waking(s, item, info);
	if (err)
		return err;
	braid_mark_take_guest(s, number, item, info);
	return s->vcpus[number].task == BRAID_PID_UNKNOWN ?
	       braid_task_take_current(s, item, number) : 0;
}

/* Life -------------------------------------------------------------------------------------- */

int braid_states_event(struct braid_states *s, const struct braid_item *item,
		       const struct braid_event_type_info *info)
{
	const struct braid_role_info *role = braid_roles_find(&s->roles, info);
	int err = braid_losses_look_ahead(s);

	if (!role)
		return braid_out_of_memory();
	if (s->begin_ns == INT64_MAX)
		braid_states_limit(s, item->host_ns, INT64_MAX);
	if (!err)
		err = braid_losses_pass(s, item->host_ns);
	if (err)
		return err;
	s->last = item->ring;
	s->last_ns = item->host_ns;
	s->last_seq = item->seq;
	s->last_payload = item->payload;
	return item->stream->kind == BRAID_STREAM_HOST ? states_take_host(s, item, role) :
							 states_take_guest(s, item, role);
}

int braid_states_begin(struct braid_states *s, struct braid_source *source,
		       const struct braid_states_ops *ops, void *arg)
{
	size_t k;
	u32 n;
	int err;

	*s = (struct braid_states){
		.source = source, .ops = ops, .arg = arg, .nr_streams = source->nr_streams,
		.paused_ns = INT64_MIN, .whole_host = ops && ops->whole_host,
	};
	s->guests = calloc(source->nr_streams + 1, sizeof(*s->guests));
	if (!s->guests)
		return braid_out_of_memory();
	if (braid_cpus_begin(s))
		return braid_out_of_memory();
	err = braid_observe_begin(s);
	if (!err)
		err = braid_vcpu_map_make(&s->threads, source);
	if (err)
		return err;
	for (k = 0; k < source->nr_streams; k++) {
		s->guests[k].first_known = BRAID_NO_TASK;
		s->guests[k].first_vcpu = s->nr_vcpus;
		if (braid_stream_is_guest(source->streams[k]))
			s->guests[k].nr_vcpus = source->streams[k]->nr_cpus;
		s->nr_vcpus += s->guests[k].nr_vcpus;
	}
	s->vcpus = calloc((size_t)s->nr_vcpus + 1 + (s->whole_host ? BRAID_STATES_MAX_OTHERS : 0),
			  sizeof(*s->vcpus));
	if (!s->vcpus)
		return braid_out_of_memory();
	err = braid_marks_begin(s);
	if (err)
		return err;
	for (k = 0; k < source->nr_streams; k++)
		for (n = 0; n < s->guests[k].nr_vcpus; n++)
			braid_observe_vcpu(s, s->guests[k].first_vcpu + n, source->streams[k], n);
	err = braid_life_find(s);
	if (!err)
		err = braid_start_find(s);
	if (!err)
		err = braid_quota_begin(s);
	if (!err)
		err = braid_throttle_begin(s);
	if (!err)
		err = braid_moves_begin(s);
	if (!err)
		braid_edges_sort(s);
	return err;
}

int braid_states_end(struct braid_states *s)
{
	int err = braid_losses_look_ahead(s);
	u32 h, k;

	braid_observe_end(s);
	if (!err)
		err = braid_edges_pass(s, INT64_MAX);
	if (!err)
		err = braid_life_pass(s, s->end_ns);
	for (h = 0; h < s->nr_hosts; h++)
		for (k = 0; k < s->hosts[h].nr_cpus; k++)
			braid_cpu_settle(s, &s->hosts[h].cpus[k], s->end_ns);
	if (!err)
		err = braid_observe_close(s);
	braid_task_end(s);
	s->ended = true;
	s->renamed++;		/* braid_tasks_known() */
	return err;
}

void braid_states_free(struct braid_states *s)
{
	size_t k;

	braid_roles_free(&s->roles);
	braid_gaps_free(&s->gaps);
	braid_vcpu_map_free(&s->threads);
	for (k = 0; s->guests && k < s->nr_streams; k++)
		free(s->guests[k].ids);
	free(s->guests);
	free(s->vcpus);
	for (k = 0; s->hosts && k < s->nr_hosts; k++) {
		free(s->hosts[k].cpus);
		free(s->hosts[k].throttled);
	}
	free(s->hosts);
	free(s->tasks);
	free(s->held);
	braid_hash_free(&s->by_pid);
	braid_hash_free(&s->others);
	braid_start_free(s);
	free(s->quotas);
	free(s->windows);
	free(s->recorded);
	free(s->edges);
	free(s->ended_guests);
	*s = (struct braid_states){ 0 };
}
