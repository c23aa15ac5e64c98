// SPDX-License-Identifier: GPL-2.0-or-later
/* Streams of VMs without the driver: begun, followed, ended. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/discover/vms.h"
#include "host_agent/live/threads.h"
#include "host_agent/live/vm.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define LOOK_NS	1000000000ULL

struct vm {
	struct braid_vm is;
	struct braid_live_stream stream;	/* number 0: none, or it has ended */
	struct braid_live_threads threads;
	u32 nr_cpus;
	bool had_driver;
	bool taken;				/* it is in the snapshot that is being made */
};

struct braid_vm_sources {
	struct braid_vm_options o;
	struct braid_vms seen;
	struct vm **all;			/* by pid */
	size_t nr, capacity;
	u64 due_ns;
};

int braid_vm_sources_open(struct braid_vm_sources **out, const struct braid_vm_options *o)
{
	struct braid_vm_sources *s = calloc(1, sizeof(*s));

	if (!s)
		return braid_out_of_memory();
	s->o = *o;
	*out = s;
	return 0;
}

bool braid_vm_sources_due(const struct braid_vm_sources *s)
{
	u64 now_ns = braid_host_clock_ns();
	size_t k;

	for (k = 0; k < s->nr; k++)
		if (s->all[k]->stream.number &&
		    braid_live_quota_due(s->all[k]->threads.quota, now_ns))
			return true;
	return now_ns >= s->due_ns;
}

size_t braid_vm_sources_number(const struct braid_vm_sources *s)
{
	size_t k, nr = 0;

	for (k = 0; k < s->nr; k++)
		nr += !!s->all[k]->stream.number;
	return nr;
}

/* Streams ------------------------------------------------------------------------------------ */

/* Two streams of one name would be one guest's. */
static bool is_taken(const struct braid_vm_sources *s, const struct vm *vm,
		     const struct braid_vm_taken *taken, size_t nr)
{
	size_t k;

	if (!strcmp(vm->is.name, "host"))
		return true;
	for (k = 0; k < nr; k++)
		if (taken[k].pid && taken[k].pid != vm->is.pid &&
		    !strcmp(taken[k].name, vm->is.name))
			return true;
	for (k = 0; k < s->nr; k++)
		if (s->all[k] != vm && s->all[k]->stream.number &&
		    !strcmp(s->all[k]->stream.name, vm->is.name))
			return true;
	return false;
}

static void name_stream(const struct braid_vm_sources *s, struct vm *vm,
			const struct braid_vm_taken *own, const struct braid_vm_taken *taken,
			size_t nr)
{
	if (own && *own->name)
		snprintf(vm->stream.name, sizeof(vm->stream.name), "%s", own->name);
	else if (is_taken(s, vm, taken, nr))
		snprintf(vm->stream.name, sizeof(vm->stream.name), "%.50s[%d]", vm->is.name,
			 (int)vm->is.pid);
	else
		snprintf(vm->stream.name, sizeof(vm->stream.name), "%s", vm->is.name);
}

static int put_stream(struct vm *vm)
{
	struct braid_chunk_vm chunk = { .pid = vm->is.pid, .start_ticks = vm->is.start_ticks };
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_VM, .nr_cpus = vm->nr_cpus, .host_ns = vm->stream.found_ns,
	};

	memcpy(head.name, vm->stream.name, sizeof(head.name));
	vm->taken = true;
	return braid_live_emit(&vm->stream, BRAID_CHUNK_STREAM, &head, sizeof(head), &chunk,
			       sizeof(chunk));
}

static int vm_begin(struct braid_vm_sources *s, struct vm *vm)
{
	struct braid_qemu_threads threads;
	int err;

	braid_vcpu_threads(vm->is.pid, &threads);
	vm->nr_cpus = threads.nr;
	vm->stream.found_ns = braid_live_now_ns(&vm->stream);
	vm->stream.number = s->o.sink->next_stream++;
	err = put_stream(vm);
	return err ? err : braid_live_threads_begin(&vm->threads, &vm->stream);
}

static int vm_end(struct vm *vm, enum braid_end_reason reason, u64 host_ns)
{
	struct braid_chunk_stream_end end = { .reason = reason, .host_ns = host_ns };
	int err = braid_live_threads_finish(&vm->threads, &vm->stream);

	if (!err)
		err = braid_live_emit(&vm->stream, BRAID_CHUNK_STREAM_END, &end, sizeof(end), NULL,
				      0);
	braid_live_threads_free(&vm->threads);

	vm->stream.number = 0;
	return err;
}

/* The list ----------------------------------------------------------------------------------- */

static int by_process(const void *a, const void *b)
{
	const struct braid_vm_taken *x = a, *y = b;

	/* Of those of one process, the first stream. */
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (!x->from_ns != !y->from_ns)
		return x->from_ns ? -1 : 1;
	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static int vm_by_pid(const void *a, const void *b)
{
	pid_t x = (*(struct vm *const *)a)->is.pid, y = (*(struct vm *const *)b)->is.pid;

	return x < y ? -1 : x > y;
}

/* VMs that are gone leave the list. */
static int drop_gone(struct braid_vm_sources *s)
{
	u64 now_ns = braid_host_clock_ns();
	const struct braid_vm *is;
	size_t k, kept = 0;
	int err = 0;

	for (k = 0; k < s->nr; k++) {
		struct vm *vm = s->all[k];

		is = braid_vms_find(&s->seen, vm->is.pid);
		if (is && is->start_ticks == vm->is.start_ticks) {
			s->all[kept++] = vm;
			continue;
		}
		if (vm->stream.number && !err)
			err = vm_end(vm, BRAID_END_GONE, now_ns);
		free(vm);
	}
	s->nr = kept;
	return err;
}

/* New ones enter it. Return: 0 or -ENOMEM with braid_fail(). */
static int add_new(struct braid_vm_sources *s)
{
	size_t k, nr = s->nr;

	for (k = 0; k < s->seen.nr; k++) {
		struct vm key = { .is.pid = s->seen.items[k].pid }, *of = &key, *vm;

		if (nr && bsearch(&of, s->all, nr, sizeof(*s->all), vm_by_pid))
			continue;
		vm = calloc(1, sizeof(*vm));
		if (!vm || braid_array_push(s->all, s->nr, s->capacity, vm)) {
			free(vm);
			return braid_out_of_memory();
		}
		vm->is = s->seen.items[k];
		vm->stream.qemu_pid = vm->is.pid;
		vm->stream.sb.nr_vcpus = BRAID_QEMU_VCPUS;	/* any number */
		vm->stream.o.sink = s->o.sink;
		vm->stream.o.say = s->o.say;
		vm->stream.o.say_arg = s->o.say_arg;
	}
	if (s->nr)
		qsort(s->all, s->nr, sizeof(*s->all), vm_by_pid);
	return 0;
}

/* One VM, after the list is up to date. */
static int follow(struct braid_vm_sources *s, struct vm *vm, const struct braid_vm_taken *taken,
		  size_t nr)
{
	const struct braid_vm_taken *own;
	size_t k;

	for (k = 0; k < nr && taken[k].pid != vm->is.pid; k++)
		;
	own = k < nr ? &taken[k] : NULL;
	vm->had_driver |= own && own->from_ns;
	if (vm->had_driver)
		return vm->stream.number ? vm_end(vm, BRAID_END_DRIVER, own->from_ns) : 0;
	if (vm->stream.number)
		return braid_live_threads_poll(&vm->threads, &vm->stream);
	name_stream(s, vm, own, taken, nr);
	return vm_begin(s, vm);
}

static int look(struct braid_vm_sources *s, struct braid_vm_taken *taken, size_t nr)
{
	int err = braid_vms_look(&s->seen);
	size_t k;

	if (nr)
		qsort(taken, nr, sizeof(*taken), by_process);
	if (!err)
		err = drop_gone(s);
	if (!err)
		err = add_new(s);
	for (k = 0; k < s->nr && !err; k++)
		err = follow(s, s->all[k], taken, nr);
	return err;
}

int braid_vm_sources_poll(struct braid_vm_sources *s, struct braid_vm_taken *taken, size_t nr)
{
	size_t k;
	int err = 0;

	if (!braid_vm_sources_due(s))
		return 0;
	if (braid_host_clock_ns() < s->due_ns) {
		for (k = 0; k < s->nr && !err; k++)
			if (s->all[k]->stream.number)
				err = braid_live_threads_poll(&s->all[k]->threads,
							      &s->all[k]->stream);
		return err;
	}
	s->due_ns = braid_host_clock_ns() + LOOK_NS;
	return look(s, taken, nr);
}

int braid_vm_sources_finish(struct braid_vm_sources *s, struct braid_vm_taken *taken, size_t nr)
{
	u64 now_ns = braid_host_clock_ns();
	int err = look(s, taken, nr);
	size_t k;

	for (k = 0; k < s->nr && !err; k++)
		if (s->all[k]->stream.number)
			err = vm_end(s->all[k], BRAID_END_STOPPED, now_ns);
	return err;
}

int braid_vm_sources_take(struct braid_vm_sources *s)
{
	size_t k;
	int err = 0;

	for (k = 0; k < s->nr && !err; k++) {
		s->all[k]->taken = false;
		if (!s->all[k]->stream.number || braid_capture_tee_failed(s->o.sink->capture))
			continue;
		err = put_stream(s->all[k]);
		braid_capture_replay(s->o.sink->capture, s->all[k]->stream.number);
	}
	return err;
}

int braid_vm_sources_took(struct braid_vm_sources *s, struct braid_capture_writer *to)
{
	struct braid_chunk_stream_end end = {
		.reason = BRAID_END_STOPPED, .host_ns = braid_host_clock_ns(),
	};
	size_t k;
	int err = 0;

	for (k = 0; k < s->nr && !err; k++)
		if (s->all[k]->stream.number && s->all[k]->taken)
			err = braid_capture_put(to, BRAID_CHUNK_STREAM_END,
						s->all[k]->stream.number, &end, sizeof(end), NULL,
						0);
	return err;
}

void braid_vm_sources_close(struct braid_vm_sources *s)
{
	size_t k;

	if (!s)
		return;
	for (k = 0; k < s->nr; k++) {
		braid_live_threads_free(&s->all[k]->threads);
		free(s->all[k]);
	}
	free(s->all);
	braid_vms_free(&s->seen);
	free(s);
}
