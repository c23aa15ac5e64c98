// SPDX-License-Identifier: GPL-2.0-or-later
/* The names of vCPUs, tasks and culprits, and how certain results are. */
#include <stdio.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"

/* Names are made for each slice of an export: too often for snprintf(). Return: the name's end. */
static char *names_add(char *at, const char *text, size_t most)
{
	size_t bytes = strnlen(text, most);

	memcpy(at, text, bytes);
	at[bytes] = 0;
	return at + bytes;
}

static char *add_number(char *at, s64 number)
{
	if (number < 0)
		*at++ = '-';
	at += braid_text_digits(at, number < 0 ? -(u64)number : (u64)number);
	*at = 0;
	return at;
}

const char *braid_vcpu_name(const struct braid_states *s, u32 vcpu, char name[BRAID_NAME_TEXT])
{
	const struct braid_stream *guest = s->vcpus[vcpu].guest;
	char *at = names_add(name, guest->name, 63);

	if (guest->had_driver)
		at = name + strlen(braid_stream_label(guest, name));
	else if (guest->life > 1)
		at = names_add(add_number(names_add(at, " (", 2), guest->life), ")", 1);
	add_number(names_add(at, "/vCPU ", 6), s->vcpus[vcpu].number);
	return name;
}

bool braid_tasks_known(const struct braid_states *s, u32 stream)
{
	return !s->ended || s->guests[stream].any_switch ||
	       s->source->streams[stream]->kind == BRAID_STREAM_HOST;
}

const char *braid_task_name(const struct braid_states *s, u32 stream, s32 pid,
			    char name[BRAID_NAME_TEXT])
{
	const struct braid_guest_task *task = braid_states_task(s, stream, pid);
	const char *comm = task && *task->comm ? task->comm : BRAID_COMM_UNKNOWN;

	if (pid == BRAID_PID_NOT_TRACED)
		strcpy(name, s->guests[stream].reboots ? "not traced (booting)" : "not traced");
	else if (pid == BRAID_PID_UNKNOWN || !braid_tasks_known(s, stream))
		names_add(name, "?", 1);
	else if (!pid)
		names_add(name, "idle", 4);
	else
		names_add(add_number(names_add(names_add(name, comm, strlen(comm)), "[", 1), pid), "]", 1);
	return name;
}

const char *braid_sum_vcpu_name(const struct braid_states *s, const struct braid_sum_key *key,
				char name[BRAID_NAME_TEXT])
{
	return key->vcpu == BRAID_NO_VCPU ? "others" : braid_vcpu_name(s, key->vcpu, name);
}

const char *braid_sum_task_name(const struct braid_states *s, const struct braid_sum_key *key,
				char name[BRAID_NAME_TEXT])
{
	return key->vcpu == BRAID_NO_VCPU ? "" :
	       braid_task_name(s, s->vcpus[key->vcpu].guest->number, key->task, name);
}

/* A host's stream in which a task has a name; else the last one. */
static u32 host_of(const struct braid_states *s, u32 host, s32 tid)
{
	const struct braid_guest_task *task;
	u32 found = 0;
	size_t k;

	for (k = 0; k < s->source->nr_streams; k++) {
		if (s->source->streams[k]->kind != BRAID_STREAM_HOST ||
		    braid_stream_host_number(s->source->streams[k]) != host)
			continue;
		found = k;
		task = braid_states_task(s, k, tid);
		if (task && *task->comm)
			break;
	}
	return found;
}

bool braid_culprit_is_recorder(const struct braid_states *s, const struct braid_culprit *culprit)
{
	const struct braid_stream *owner = culprit->kind == BRAID_CULPRIT_TASK ?
					   braid_vcpu_owner(&s->threads, culprit->host, culprit->id) :
					   NULL;

	return culprit->kind == BRAID_CULPRIT_RECORDER ||
	       (owner && owner->kind == BRAID_STREAM_HOST);
}

struct braid_culprit braid_culprit_group(const struct braid_states *s,
					 const struct braid_culprit *culprit)
{
	struct braid_culprit group = {
		.kind = culprit->kind, .vcpu = BRAID_NO_VCPU, .task = BRAID_PID_UNKNOWN,
	};
	const struct braid_stream *guest = NULL;

	switch (culprit->kind) {
	case BRAID_CULPRIT_VCPU:
		guest = s->vcpus[culprit->vcpu].guest;
		break;
	case BRAID_CULPRIT_TASK:
		guest = braid_vcpu_owner(&s->threads, culprit->host, culprit->id);
		group.kind = guest ? BRAID_CULPRIT_RECORDER : BRAID_CULPRIT_HOST;
		break;
	case BRAID_CULPRIT_IRQ:
	case BRAID_CULPRIT_SOFTIRQ:
		group.kind = BRAID_CULPRIT_INTERRUPTS;
		break;
	default:
		break;
	}
	if (guest && braid_stream_is_guest(guest)) {
		group.kind = BRAID_CULPRIT_GUEST;
		group.id = guest->number;
	}
	return group;
}

/* A thread of a host: "kworker/1:2[99]", "guest1/qemu-system-x86[7]", "recorder/tracebraid[8]" */
static void name_thread(const struct braid_states *s, u32 host, s32 tid, char name[BRAID_NAME_TEXT])
{
	const struct braid_stream *owner = braid_vcpu_owner(&s->threads, host, tid);
	char task[BRAID_NAME_TEXT];

	braid_task_name(s, host_of(s, host, tid), tid, task);
	if (owner)
		name = names_add(names_add(name, owner->kind == BRAID_STREAM_HOST ? "recorder" : owner->name,
					   63), "/", 1);
	names_add(name, task, owner ? 60 : BRAID_NAME_TEXT - 1);
}

const char *braid_culprit_name(const struct braid_states *s, const struct braid_culprit *culprit,
			       char name[BRAID_NAME_TEXT])
{
	static const char *const softirqs[] = {
		"HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED",
		"HRTIMER", "RCU",
	};
	char task[BRAID_NAME_TEXT];

	switch (culprit->kind) {
	case BRAID_CULPRIT_VCPU:
		braid_vcpu_name(s, culprit->vcpu, name);
		if (culprit->task == BRAID_PID_UNKNOWN ||
		    (culprit->task != BRAID_PID_NOT_TRACED &&
		     !braid_tasks_known(s, s->vcpus[culprit->vcpu].guest->number)))
			break;
		braid_task_name(s, s->vcpus[culprit->vcpu].guest->number, culprit->task, task);
		names_add(names_add(name + strlen(name), ": ", 2), task, 40);
		break;
	case BRAID_CULPRIT_TASK:
		name_thread(s, culprit->host, culprit->id, name);
		break;
	case BRAID_CULPRIT_GUEST_TASK:
		braid_task_name(s, s->vcpus[culprit->vcpu].guest->number, culprit->task, name);
		break;
	case BRAID_CULPRIT_IRQ:
		snprintf(name, BRAID_NAME_TEXT, "irq %d", culprit->id);
		break;
	case BRAID_CULPRIT_SOFTIRQ:
		snprintf(name, BRAID_NAME_TEXT, "softirq %s", culprit->id >= 0 &&
			 culprit->id < (s32)(sizeof(softirqs) / sizeof(softirqs[0])) ?
			 softirqs[culprit->id] : "?");
		break;
	case BRAID_CULPRIT_NOTHING:
		snprintf(name, BRAID_NAME_TEXT, "nothing (idle CPU)");
		break;
	case BRAID_CULPRIT_GUEST:
		braid_stream_label(s->source->streams[culprit->id], name);
		break;
	case BRAID_CULPRIT_RECORDER:
		snprintf(name, BRAID_NAME_TEXT, "recorder");
		break;
	case BRAID_CULPRIT_HOST:
		snprintf(name, BRAID_NAME_TEXT, "the host's threads");
		break;
	case BRAID_CULPRIT_INTERRUPTS:
		snprintf(name, BRAID_NAME_TEXT, "interrupts");
		break;
	case BRAID_CULPRIT_QUOTA:
		snprintf(name, BRAID_NAME_TEXT, "%s", s->quotas[culprit->id].path);
		break;
	case BRAID_CULPRIT_OTHERS:
		snprintf(name, BRAID_NAME_TEXT, "others");
		break;
	default:
		snprintf(name, BRAID_NAME_TEXT, "unknown");
	}
	return name;
}

bool braid_analysis_wants(const struct braid_states *s, const struct braid_analysis_options *o,
			  u32 vcpu, s32 task)
{
	const struct braid_vcpu *v = &s->vcpus[vcpu];

	return (!o->stream || braid_stream_is(v->guest, o->stream)) &&
	       (!o->one_cpu || o->cpu == v->number) && (!o->one_task || o->task == task);
}

struct braid_certainty braid_certainty_of(const struct braid_states *s,
					  const struct braid_analysis_options *o)
{
	struct braid_certainty c = { 0 };
	struct braid_analysis_options any_task = *o;
	u32 k;

	any_task.one_task = false;
	for (k = 0; k < s->nr_vcpus; k++) {
		if (!braid_analysis_wants(s, &any_task, k, 0))
			continue;
		c.nr_vcpus++;
		c.unknown_ns += s->vcpus[k].ns[BRAID_VCPU_UNKNOWN];
		c.bound_ns += s->vcpus[k].bound_sum_ns;
		c.proven_ns += braid_states_sum(s->vcpus[k].ns);
	}
	c.proven_ns -= c.bound_ns + c.unknown_ns;
	return c;
}

bool braid_has_events(const struct braid_stream *stream)
{
	size_t k;

	for (k = 0; k < stream->nr_rings; k++)
		if (stream->rings[k]->walk.events)
			return true;
	return false;
}

#define ANY_HOST	UINT32_MAX

static const char *lacks_switches(const struct braid_states *s, u32 host)
{
	const char *why = NULL;
	size_t k;

	for (k = 0; k < s->source->nr_streams; k++) {
		if (!s->guests[k].nr_vcpus || s->guests[k].any_switch)
			continue;
		if (host != ANY_HOST && braid_stream_host_number(s->source->streams[k]) != host)
			continue;
		if (s->source->streams[k]->kind == BRAID_STREAM_VM) {
			why = why ?: "no driver runs in a VM, so its vCPUs' tasks are unknown; load it there (modprobe tracebraid) to record its events";
			continue;
		}
		if (braid_stream_bound_of_host(s->source->streams[k]) == BRAID_BOUND_UNKNOWN &&
		    braid_stream_has_event(s->source->streams[k], "sched_switch"))
			return "the times of a guest's events have no bound, so its vCPUs' tasks are unknown; 'tracebraid report' shows why";
		if (braid_has_events(s->source->streams[k]))
			return "a guest has no sched_switch events, so its vCPUs' tasks are unknown; record with -e sched:sched_switch";
		why = "a guest recorded no event, so its vCPUs' tasks are unknown";
	}
	return why;
}

const char *braid_lacks_switches(const struct braid_states *s)
{
	return lacks_switches(s, ANY_HOST);
}

/* What a host has in the trace. */
struct has {
	bool vcpus, threads, quotas;
};

static struct has host_has(const struct braid_states *s, u32 host)
{
	struct has has = { 0 };
	const struct braid_stream *part;
	size_t k, n;

	for (k = 0; k < s->source->nr_streams; k++)
		for (n = 0; (part = braid_stream_part(s->source->streams[k], n)); n++) {
			if (braid_stream_host_number(part) != host)
				continue;
			has.vcpus |= s->guests[k].nr_vcpus > 0;
			has.threads |= part->nr_threads > 0;
		}
	for (k = 0; k < s->nr_quotas; k++)
		has.quotas |= s->quotas[k].host == host;
	return has;
}

/* What the trace of a host lacks, and how to get it. */
static const char *missing_of(const struct braid_states *s, u32 number, u32 of)
{
	const struct braid_host_state *host = &s->hosts[of];
	const struct braid_seen *seen = &host->seen;
	struct has has = host_has(s, of);
	const char *all[9] = { NULL };
	u32 n = 0;

	if (has.vcpus && !host->nr_cpus)
		all[n++] = "the capture has no events of the host; record them with --host";
	else if (has.vcpus && !seen->switches)
		all[n++] = "the host has no sched_switch events; record them with --host";
	else if (has.vcpus && !seen->wakeups)
		all[n++] = "the host has no sched_wakeup events: a vCPU that was woken and waits counts as asleep; record them with --host";
	if (host->moved_unseen && !seen->migrations)
		all[n++] = "the host has no sched_migrate_task events: the culprit is unknown if a waiting vCPU was moved meanwhile; record them with --host";
	if (lacks_switches(s, of))
		all[n++] = lacks_switches(s, of);
	if (has.quotas && !host->quota_moments)
		all[n++] = "no moments of CPU quotas: throttled is where a vCPU waited for an idle CPU while its cgroup's cpu.stat counted; that is not proven, and counts as within bounds";
	if (has.vcpus && !has.threads)
		all[n++] = BRAID_VCPUS_UNKNOWN;
	if (has.vcpus && host->nr_cpus && !seen->kvm)
		all[n++] = "no kvm events of the host (as usual without KVM): guest, hypervisor and VMM appear as \"running\", halted and blocked as \"sleeping\"";
	if (seen->kvm && !seen->user)
		all[n++] = "no kvm_userspace_exit events of the host: time in the VMM counts as hypervisor";
	if (braid_states_lack_kvm(host))
		all[n++] = "no kvm events of a host CPU on which vCPUs ran: what they executed there counts as hypervisor or VMM";
	return number < n ? all[number] : NULL;
}

/* The same of all; of several hosts, with the name of each. False: there are no more. */
static bool missing(const struct braid_states *s, u32 number, struct braid_text *line)
{
	const char *text;
	u32 host, k;

	line->bytes = 0;
	for (host = 0; host < s->nr_hosts; host++)
		for (k = 0; (text = missing_of(s, k, host)); k++) {
			if (number--)
				continue;
			if (s->nr_hosts > 1)
				braid_text_printf(line, "%s: ", s->source->hosts[host]->name);
			braid_text_puts(line, text);
			return true;
		}
	return false;
}

void braid_certainty_write(const struct braid_states *s, const struct braid_analysis_options *o,
			   struct braid_text *out)
{
	struct braid_certainty c = braid_certainty_of(s, o);
	u64 sum = c.proven_ns + c.bound_ns + c.unknown_ns;
	double share = sum ? 100.0 / sum : 0;
	struct braid_text line = { 0 };
	u32 k;

	if (o->form == BRAID_TABLE_CSV)
		return;
	if (o->form == BRAID_TABLE_JSON) {
		braid_text_printf(out, "\"vcpus\":%u,\"observed_ns\":%llu,\"proven_ns\":%llu,\"within_bound_ns\":%llu,\"unknown_ns\":%llu,\"missing\":[",
				  c.nr_vcpus, (unsigned long long)sum,
				  (unsigned long long)c.proven_ns, (unsigned long long)c.bound_ns,
				  (unsigned long long)c.unknown_ns);
		for (k = 0; missing(s, k, &line); k++) {
			braid_text_puts(out, k ? "," : "");
			braid_text_json(out, line.data, line.bytes);
		}
		braid_text_putc(out, ']');
		out->failed |= line.failed;
		braid_text_free(&line);
		return;
	}
	braid_text_printf(out, "# %u vCPU%s, %.9f s of vCPU time = %.9f proven (%.2f %%) + %.9f within the clocks' bounds (%.2f %%) + %.9f unknown (%.2f %%)\n",
			  c.nr_vcpus, c.nr_vcpus == 1 ? "" : "s", sum / 1e9, c.proven_ns / 1e9,
			  c.proven_ns * share, c.bound_ns / 1e9, c.bound_ns * share,
			  c.unknown_ns / 1e9, c.unknown_ns * share);
	braid_text_printf(out, "# times are seconds of %s's clock\n",
			  s->nr_hosts > 1 ? s->source->hosts[0]->name : "the host");
	for (k = 0; missing(s, k, &line); k++)
		braid_text_printf(out, "# %.*s\n", (int)line.bytes, line.data);
	out->failed |= line.failed;
	braid_text_free(&line);
}
