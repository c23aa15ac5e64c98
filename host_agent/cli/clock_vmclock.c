// SPDX-License-Identifier: GPL-2.0-or-later
/* Prints the contents of a guest's vmclock page, for people and for scripts. */
#include "host_agent/cli/cli.h"
#include "host_agent/util/monotonic.h"
#include "host_agent/util/text.h"

static const char *type_name(u32 type)
{
	static const char *const names[BRAID_VM_TIME_TYPES] = {
		[BRAID_VM_UTC] = "utc",
		[BRAID_VM_TAI] = "tai",
		[BRAID_VM_MONOTONIC] = "monotonic",
	};

	return type < BRAID_VM_TIME_TYPES ? names[type] : "invalid";
}

static const char *status_name(u32 status)
{
	static const char *const names[BRAID_VM_STATUSES] = {
		[BRAID_VM_UNKNOWN] = "unknown",
		[BRAID_VM_INITIALIZING] = "initializing",
		[BRAID_VM_SYNCHRONIZED] = "synchronized",
		[BRAID_VM_FREERUNNING] = "freerunning",
		[BRAID_VM_UNRELIABLE] = "unreliable",
	};

	return status < BRAID_VM_STATUSES ? names[status] : "invalid";
}

void braid_clock_text_vmclock(struct braid_text *t, const struct braid_stream *s)
{
	const struct braid_clock_vm *vm = &s->vmclock;

	braid_text_printf(t, "  vmclock: disruption marker %llu", (unsigned long long)vm->marker);
	if (vm->changes)
		braid_text_printf(t, ", changed %u time%s since the driver was loaded", vm->changes,
				  vm->changes == 1 ? "" : "s");
	if (!(vm->flags & BRAID_VM_TIME)) {
		braid_text_puts(t, "; the hypervisor gives no time\n");
		return;
	}
	braid_text_printf(t, "; %s time %llu.%09llu s at counter %llu, ", type_name(vm->time_type),
			  (unsigned long long)(vm->time_ns / BRAID_SECOND_NS),
			  (unsigned long long)(vm->time_ns % BRAID_SECOND_NS),
			  (unsigned long long)vm->counter);
	if (vm->flags & BRAID_VM_BOUND)
		braid_text_printf(t, "bound %llu ns by the hypervisor, %s\n",
				  (unsigned long long)vm->bound_ns, status_name(vm->status));
	else
		braid_text_printf(t, "without a bound, %s\n", status_name(vm->status));
}

void braid_clock_json_vmclock(struct braid_text *t, const struct braid_stream *s)
{
	const struct braid_clock_vm *vm = &s->vmclock;

	if (!s->has_vmclock) {
		braid_text_puts(t, ",\"vmclock\":null");
		return;
	}
	braid_text_printf(t, ",\"vmclock\":{\"marker\":%llu,\"changes\":%u",
			  (unsigned long long)vm->marker, vm->changes);
	if (vm->flags & BRAID_VM_GENERATION)
		braid_text_printf(t, ",\"generation\":%llu", (unsigned long long)vm->generation);
	if (vm->flags & BRAID_VM_TIME)
		braid_text_printf(t, ",\"counter\":%llu,\"time_type\":\"%s\",\"time_ns\":%llu,\"status\":\"%s\"",
				  (unsigned long long)vm->counter, type_name(vm->time_type),
				  (unsigned long long)vm->time_ns, status_name(vm->status));
	if (vm->flags & BRAID_VM_BOUND)
		braid_text_printf(t, ",\"bound_ns\":%llu", (unsigned long long)vm->bound_ns);
	braid_text_putc(t, '}');
}
