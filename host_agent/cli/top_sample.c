// SPDX-License-Identifier: GPL-2.0-or-later
/* Samples guests for `tracebraid top`, and their CPU time on the host. Regions are not modified. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/top.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/discover/libvirt.h"
#include "host_agent/transport/endpoint.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define SCAN_NS		5000000000ULL	/* for new guests and threads */
#define SILENT_NS	1000000000ULL	/* a heartbeat stopped for this long */

static const struct braid_top_rates unknown = { NAN, NAN, NAN, NAN, NAN, NAN, NAN };

/* Guests ----------------------------------------------------------------------------------- */

int braid_top_add(struct braid_top *top, const char *path, const char *name)
{
	struct braid_top_guest guest = { .state = BRAID_DRIVER_NONE, .rates = unknown };
	size_t k;

	for (k = 0; k < top->nr; k++)
		if (!strcmp(top->guests[k].path, path))
			return 0;
	snprintf(guest.path, sizeof(guest.path), "%s", path);
	snprintf(guest.name, sizeof(guest.name), "%s", name ? name : "");
	braid_text_clean(guest.name);
	if (braid_array_push(top->guests, top->nr, top->capacity, guest))
		return braid_out_of_memory();
	return 0;
}

static void find_threads(struct braid_top_guest *g)
{
	struct braid_qemu_threads threads = { 0 };
	u32 k;

	braid_kvm_close(g->vm);
	g->vm = NULL;
	if (g->qemu_pid) {
		braid_vcpu_threads(g->qemu_pid, &threads);
		braid_kvm_open(&g->vm, g->qemu_pid);	/* NULL when it can't be */
	}
	for (k = 0; k < g->nr_vcpus; k++) {
		pid_t tid = k < threads.nr ? threads.of[k] : 0;

		if (tid != g->vcpus[k].tid)
			g->vcpus[k].timed = false;
		g->vcpus[k].tid = tid;
	}
}

/* A VM's vCPUs are its threads. Return: 0, or -ENOMEM with braid_fail(). */
static int find_vcpus(struct braid_top_guest *g)
{
	struct braid_qemu_threads threads;

	braid_vcpu_threads(g->qemu_pid, &threads);
	if (threads.nr > g->nr_vcpus) {
		struct braid_top_vcpu *grown = calloc(threads.nr, sizeof(*grown));

		if (!grown)
			return braid_out_of_memory();
		free(g->vcpus);
		g->vcpus = grown;
		g->nr_vcpus = threads.nr;
		g->sampled_ns = 0;
	}
	find_threads(g);
	return 0;
}

/* Whether a region's guest, or one that is shown as a VM, is this process'. */
static struct braid_top_guest *find_process(struct braid_top *top, pid_t pid, bool bare)
{
	size_t k;

	for (k = 0; k < top->nr; k++)
		if (top->guests[k].bare == bare && top->guests[k].qemu_pid == pid)
			return &top->guests[k];
	return NULL;
}

static void drop(struct braid_top_guest *g)
{
	braid_mapping_close(g->m);
	braid_kvm_close(g->vm);
	free(g->vcpus);
}

/* VMs without a mapped region: those that are gone, or have one now, leave the list. */
static int scan_vms(struct braid_top *top)
{
	size_t k, kept = 0;
	int err = braid_vms_look(&top->vms);

	for (k = 0; k < top->nr && !err; k++) {
		struct braid_top_guest *g = &top->guests[k];

		if (g->bare && (!braid_vms_find(&top->vms, g->qemu_pid) ||
				find_process(top, g->qemu_pid, false)))
			drop(g);
		else
			top->guests[kept++] = *g;
	}
	top->nr = err ? top->nr : kept;
	for (k = 0; k < top->vms.nr && !err; k++) {
		struct braid_top_guest vm = {
			.bare = true, .qemu_pid = top->vms.items[k].pid, .rates = unknown,
		};
		struct braid_top_guest *known = find_process(top, vm.qemu_pid, true);

		strcpy(vm.name, top->vms.items[k].name);
		if (find_process(top, vm.qemu_pid, false))
			continue;
		if (!known && braid_array_push(top->guests, top->nr, top->capacity, vm))
			return braid_out_of_memory();
		err = find_vcpus(known ? known : &top->guests[top->nr - 1]);
	}
	return err;
}

/* A region in a guest's own memory is not mapped: its guest is a VM with the driver's state. */
static void take_states(struct braid_top *top, const struct braid_found *found, size_t nr)
{
	struct braid_top_guest *g;
	size_t k;

	for (k = 0; k < top->nr; k++)
		if (top->guests[k].bare)
			top->guests[k].state = BRAID_DRIVER_NONE;
	for (k = 0; k < nr; k++) {
		g = braid_endpoint_has_scheme(found[k].path) ?
			    find_process(top, found[k].qemu_pid, true) : NULL;
		if (g)
			g->state = found[k].state;
	}
}

/* Updates the known guests by discovery; adds others if all are selected. */
static int scan(struct braid_top *top)
{
	struct braid_found *found = NULL;
	const char **paths = calloc(top->nr + 1, sizeof(*paths));
	size_t nr = 0, k, i;
	int err;

	if (!paths)
		return braid_out_of_memory();
	for (k = 0; k < top->nr; k++)
		paths[k] = top->guests[k].path;	/* VMs are there only if all are wanted */
	err = braid_discover(&found, &nr, top->all ? NULL : paths, top->nr, 0, NULL);
	for (k = 0; k < nr && !err && top->all; k++)
		if (found[k].state != BRAID_DRIVER_UNREADABLE &&
		    !braid_endpoint_has_scheme(found[k].path))
			err = braid_top_add(top, found[k].path, NULL);
	for (k = 0; k < nr && !err; k++) {
		for (i = 0; i < top->nr; i++) {
			struct braid_top_guest *g = &top->guests[i];

			if (strcmp(g->path, found[k].path))
				continue;
			if (!*g->name)
				strcpy(g->name, found[k].name);
			g->qemu_pid = found[k].qemu_pid;
			find_threads(g);
		}
	}
	if (!err && top->all)
		err = scan_vms(top);
	if (!err)
		take_states(top, found, nr);
	free(paths);
	free(found);
	return err;
}

/* A guest's rings ---------------------------------------------------------------------------- */

struct sampling {
	struct braid_top *top;
	struct braid_top_guest *guest;
};

static void top_sample_add_ring(struct braid_top_vcpu *v, const struct braid_ring_map *map,
				const struct braid_ring_account *a)
{
	u64 room = (u64)map->nr_slots * (map->subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES);
	u64 permille = room ? a->left_bytes * 1000 / room : 0;

	v->events += a->written;
	v->read += a->read;
	v->bytes += a->bytes;
	v->lost += a->lost;
	permille = permille < 1000 ? permille : 1000;
	v->fill_permille = permille > v->fill_permille ? permille : v->fill_permille;
}

static void read_mailbox(struct braid_top_guest *g, u64 now_ns)
{
	const struct braid_mailbox *box = braid_mapping_section(g->m, &g->sb, BRAID_SECTION_MAILBOX);
	u64 guest = braid_load(&box->guest_heartbeat), agent = braid_load(&box->agent_heartbeat);

	if (guest != g->guest_heartbeat || !g->sampled_ns)
		g->seen_ns = now_ns;
	g->recorded = g->sampled_ns && agent != g->agent_heartbeat;
	g->guest_heartbeat = guest;
	g->agent_heartbeat = agent;
	if (g->sb.state == BRAID_STATE_DOWN)
		g->state = BRAID_DRIVER_DOWN;
	else
		g->state = now_ns - g->seen_ns > SILENT_NS ? BRAID_DRIVER_SILENT : BRAID_DRIVER_LIVE;
}

/* Under the guard. A ring that can't be read now counts as it did. */
static int sample_rings(void *arg)
{
	struct sampling *s = arg;
	struct braid_top_guest *g = s->guest;
	struct braid_ring_account a;
	struct braid_ring_map map;
	u32 buffer, k;

	read_mailbox(g, braid_host_clock_ns());
	for (buffer = 0; buffer < g->sb.nr_buffers; buffer++) {
		const struct braid_buffer_desc *desc = &g->sb.buffers[buffer];

		if (s->top->buffer && strncmp(s->top->buffer, desc->name, BRAID_NAME_BYTES))
			continue;
		for (k = 0; k < desc->nr_rings && k < g->nr_vcpus; k++) {
			braid_mapping_ring(g->m, &g->sb, buffer, k, &map);
			if (!braid_ring_gauge(&a, &map, g->m, g->sb.incarnation))
				top_sample_add_ring(&g->vcpus[k], &map, &a);
		}
	}
	return 0;
}

/* Rates ---------------------------------------------------------------------------------------- */

/* Counts of a moving ring may be inconsistent: never let them go back. */
static double rate(u64 before, u64 after, double seconds)
{
	return after > before ? (after - before) / seconds : 0;
}

static void time_thread(struct braid_top_vcpu *v, double seconds)
{
	struct braid_thread_times t;
	bool timed = v->tid && !braid_thread_times(v->tid, &t);

	if (timed && v->timed) {
		v->rates.run = rate(v->times.run_ns, t.run_ns, seconds) / 1e9;
		v->rates.steal = rate(v->times.wait_ns, t.wait_ns, seconds) / 1e9;
	}
	v->timed = timed;
	if (timed)
		v->times = t;
}

static void count_exits(struct braid_top_guest *g, double seconds)
{
	u64 exits = 0;
	bool known = g->vm && !braid_kvm_exits(g->vm, &exits);

	if (known && g->exits_known)
		g->rates.exits = rate(g->exits, exits, seconds);
	g->exits_known = known;
	g->exits = exits;
}

static void add_known(double *sum, double value)
{
	if (!isnan(value))
		*sum = isnan(*sum) ? value : *sum + value;
}

static void sum_up(struct braid_top_guest *g)
{
	u32 k;

	g->lost = 0;
	g->fill_permille = 0;
	for (k = 0; k < g->nr_vcpus; k++) {
		const struct braid_top_vcpu *v = &g->vcpus[k];

		add_known(&g->rates.events, v->rates.events);
		add_known(&g->rates.read, v->rates.read);
		add_known(&g->rates.bytes, v->rates.bytes);
		add_known(&g->rates.lost, v->rates.lost);
		add_known(&g->rates.run, v->rates.run);
		add_known(&g->rates.steal, v->rates.steal);
		g->lost += v->lost;
		g->fill_permille = v->fill_permille > g->fill_permille ? v->fill_permille :
									  g->fill_permille;
	}
}

/* One sample -------------------------------------------------------------------------------------- */

/* A new incarnation: counts restart. */
static int begin_incarnation(struct braid_top_guest *g)
{
	free(g->vcpus);
	g->nr_vcpus = 0;
	g->vcpus = calloc(g->sb.nr_vcpus, sizeof(*g->vcpus));
	if (!g->vcpus)
		return braid_out_of_memory();
	g->nr_vcpus = g->sb.nr_vcpus;
	g->sampled_ns = 0;
	find_threads(g);
	return 0;
}

/* Samples the region now. Return: 0; -EAGAIN: none to sample; or -ENOMEM with braid_fail(). */
static int refresh(struct braid_top_guest *g)
{
	u64 incarnation = g->sb.incarnation;
	int err = 0;

	if (g->m && braid_mapping_gone(g->m)) {
		braid_mapping_close(g->m);
		g->m = NULL;
	}
	if (!g->m)
		err = braid_mapping_open(&g->m, g->path, false);
	if (!err)
		err = braid_mapping_probe(g->m, &g->sb, true);
	if (err) {
		g->state = err == -EAGAIN ? BRAID_DRIVER_STARTING :
			   err == -ENODATA || err == -ENOENT ? BRAID_DRIVER_NONE :
			   BRAID_DRIVER_UNREADABLE;
		return -EAGAIN;
	}
	return g->vcpus && g->sb.incarnation == incarnation ? 0 : begin_incarnation(g);
}

static int sample(struct braid_top *top, struct braid_top_guest *g)
{
	struct sampling s = { .top = top, .guest = g };
	struct braid_top_vcpu *before;
	u64 now_ns = braid_host_clock_ns();
	double seconds = g->sampled_ns ? (now_ns - g->sampled_ns) / 1e9 : NAN;
	int err = refresh(g);
	u32 k;

	g->rates = unknown;
	if (!g->sampled_ns)
		seconds = NAN;
	before = err ? NULL : calloc(g->nr_vcpus + 1, sizeof(*before));
	if (!before) {
		g->sampled_ns = 0;
		return err == -EAGAIN ? 0 : err ? err : braid_out_of_memory();
	}
	memcpy(before, g->vcpus, g->nr_vcpus * sizeof(*before));
	for (k = 0; k < g->nr_vcpus; k++) {
		struct braid_top_vcpu *v = &g->vcpus[k];

		v->events = v->read = v->bytes = v->lost = v->fill_permille = 0;
		v->rates = unknown;
		time_thread(v, seconds);
	}
	if (braid_guard_run(g->m->base, g->m->bytes, sample_rings, &s))
		g->state = BRAID_DRIVER_UNREADABLE;
	for (k = 0; k < g->nr_vcpus && g->sampled_ns; k++) {
		struct braid_top_vcpu *v = &g->vcpus[k];

		v->rates.events = rate(before[k].events, v->events, seconds);
		v->rates.read = rate(before[k].read, v->read, seconds);
		v->rates.bytes = rate(before[k].bytes, v->bytes, seconds);
		v->rates.lost = rate(before[k].lost, v->lost, seconds);
	}
	free(before);
	count_exits(g, seconds);
	sum_up(g);
	g->sampled_ns = now_ns;
	return 0;
}

/* What the host knows without a region. */
static void sample_vm(struct braid_top_guest *g)
{
	u64 now_ns = braid_host_clock_ns();
	double seconds = g->sampled_ns ? (now_ns - g->sampled_ns) / 1e9 : NAN;
	u32 k;

	g->rates = unknown;
	for (k = 0; k < g->nr_vcpus; k++) {
		g->vcpus[k].rates = unknown;
		time_thread(&g->vcpus[k], seconds);
	}
	count_exits(g, seconds);
	sum_up(g);
	g->sampled_ns = now_ns;
}

int braid_top_sample(struct braid_top *top)
{
	u64 now_ns = braid_host_clock_ns();
	int err = 0;
	size_t k;

	if (now_ns >= top->scan_due_ns) {
		top->scan_due_ns = now_ns + SCAN_NS;
		err = scan(top);
	}
	for (k = 0; k < top->nr && !err; k++) {
		if (top->guests[k].bare)
			sample_vm(&top->guests[k]);
		else
			err = sample(top, &top->guests[k]);
	}
	return err;
}

void braid_top_free(struct braid_top *top)
{
	size_t k;

	for (k = 0; k < top->nr; k++)
		drop(&top->guests[k]);
	free(top->guests);
	braid_online_end(top->online);
	braid_vms_free(&top->vms);
}
