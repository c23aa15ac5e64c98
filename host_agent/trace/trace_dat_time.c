// SPDX-License-Identifier: GPL-2.0-or-later
/* The times in a trace.dat: how its options convert the stamps of its pages to ns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/trace_dat.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define INTERPOLATE	1u	/* of a shift's flags */
#define MAX_FRACTION	63u

/* "0x4d2" or "-1234": what is added to each time, in @unit ns. */
int braid_dat_take_offset(struct braid_trace_dat *dat, const char *text, s64 unit)
{
	char *end;
	s64 number;

	errno = 0;
	number = strtoll(text, &end, 0);
	if (end == text || errno || __builtin_mul_overflow(number, unit, &number) ||
	    __builtin_add_overflow(dat->times.offset_ns, number, &dat->times.offset_ns))
		return braid_dat_broken(dat, "the offset of its times is not a number");
	return 0;
}

void braid_dat_take_scale(struct braid_dat_input *in)
{
	struct braid_dat_times *times = &in->dat->times;

	times->multiplier = braid_dat_number(in, 4);
	times->shift = braid_dat_number(in, 4);
	if (times->shift > MAX_FRACTION)
		braid_dat_refuse(in, "the rate of its clock is impossible");
}

/* Shifts of a guest's clock to the host's -------------------------------------------------- */

/* One number of each of a CPU's samples: all times are together, then all offsets, ... */
static void take_column(struct braid_dat_input *in, struct braid_dat_shifts *cpu, size_t member)
{
	u32 k;

	for (k = 0; k < cpu->nr; k++)
		*(u64 *)((u8 *)&cpu->at[k] + member) = braid_dat_number(in, 8);
}

static void take_cpu(struct braid_dat_input *in, struct braid_dat_shifts *cpu)
{
	u64 nr = braid_dat_number(in, 4);

	if (nr > (in->end - in->at) / (3 * sizeof(u64)))
		braid_dat_refuse(in, "the shift of its times is truncated");
	cpu->at = in->err ? NULL : calloc(nr + 1, sizeof(*cpu->at));
	if (!in->err && !cpu->at)
		in->err = braid_out_of_memory();
	if (in->err)
		return;
	cpu->nr = nr;
	take_column(in, cpu, offsetof(struct braid_dat_shift, time));
	take_column(in, cpu, offsetof(struct braid_dat_shift, offset));
	take_column(in, cpu, offsetof(struct braid_dat_shift, scale));
}

static int trace_dat_time_by_time(const void *a, const void *b)
{
	const struct braid_dat_shift *x = a, *y = b;

	return braid_compare(x->time, y->time);
}

/* In order of time, each time once. */
static void sort_cpu(struct braid_dat_input *in, struct braid_dat_shifts *cpu)
{
	u32 k, nr = 0;

	for (k = 0; k < cpu->nr; k++)
		if (cpu->at[k].fraction > MAX_FRACTION || cpu->at[k].time > INT64_MAX)
			braid_dat_refuse(in, "the shift of its times is impossible");
	qsort(cpu->at, cpu->nr, sizeof(*cpu->at), trace_dat_time_by_time);
	for (k = 0; k < cpu->nr; k++)
		if (!nr || cpu->at[nr - 1].time != cpu->at[k].time)
			cpu->at[nr++] = cpu->at[k];
	cpu->nr = nr;
}

void braid_dat_take_shifts(struct braid_dat_input *in)
{
	struct braid_dat_times *times = &in->dat->times;
	u64 flags, nr;
	u32 k;

	braid_dat_free_shifts(times);
	times->peer_id = braid_dat_number(in, 8);
	flags = braid_dat_number(in, 4);
	nr = braid_dat_number(in, 4);
	if (nr > BRAID_MAX_CPUS)
		braid_dat_refuse(in, "it has too many CPUs");
	times->cpus = in->err ? NULL : calloc(nr + 1, sizeof(*times->cpus));
	if (!in->err && !times->cpus)
		in->err = braid_out_of_memory();
	if (in->err)
		return;
	times->nr_cpus = nr;
	times->interpolate = flags & INTERPOLATE;
	for (k = 0; k < nr && !in->err; k++)
		take_cpu(in, &times->cpus[k]);
	/* Those of trace-cmd 2.9 end here. */
	for (k = 0; k < nr && !in->err && in->at < in->end; k++)
		take_column(in, &times->cpus[k], offsetof(struct braid_dat_shift, fraction));
	for (k = 0; k < nr && !in->err; k++)
		sort_cpu(in, &times->cpus[k]);
}

void braid_dat_free_shifts(struct braid_dat_times *times)
{
	u32 k;

	for (k = 0; k < times->nr_cpus; k++)
		free(times->cpus[k].at);
	free(times->cpus);
	times->cpus = NULL;
	times->nr_cpus = 0;
}

/* What they are worth ------------------------------------------------------------------------- */

/* Samples that all say the same, as far as they are KVM's; else why not. */
static const char *differ(const struct braid_dat_shifts *cpu)
{
	u32 k;

	if (cpu->nr < 2)
		return "a vCPU has fewer than two samples of KVM's offset";
	for (k = 0; k < cpu->nr; k++) {
		if (cpu->at[k].scale != 1ULL << cpu->at[k].fraction)
			return "KVM scales the guest's counter";
		if (cpu->at[k].offset != cpu->at[0].offset)
			return "KVM's offset changed between two samples";
	}
	return NULL;
}

/*
 * trace-cmd places a guest's counter by KVM's own offset, which is exact, or by an exchange of
 * messages, whose error it does not save. Only an exchange sets the flag to interpolate; KVM's
 * offsets are of the counter alone.
 */
const char *braid_dat_judge_shifts(const struct braid_trace_dat *dat, bool counter, bool *exact)
{
	const struct braid_dat_times *times = &dat->times;
	const char *why = NULL;
	u32 k;

	*exact = false;
	if (times->interpolate)
		return "trace-cmd's exchange of messages, whose error it does not save";
	if (!counter)
		return "the file does not say how";
	for (k = 0; k < dat->stream->stream.nr_cpus && !why; k++)
		why = k < times->nr_cpus ? differ(&times->cpus[k]) : "a vCPU has no sample";
	*exact = !why;
	return why ?: "KVM's offsets, the same in all samples";
}

/* Conversion ------------------------------------------------------------------------------- */

/* The sample that applies at a time: the last one before it that another one follows. */
static u32 sample_at(const struct braid_dat_shifts *cpu, u64 stamp)
{
	u32 k;

	/* Of those between the first and the last one. */
	braid_array_first(k, cpu->nr > 2 ? cpu->nr - 2 : 0, cpu->at[k + 1].time > stamp);
	return k;
}

/*
 * As trace-cmd shifts a guest's time, but without its overflows: each product is of 63 and 64 bits.
 * Negative: out of range.
 */
static __int128 shift(const struct braid_dat_times *times, u32 cpu, u64 stamp)
{
	const struct braid_dat_shift *first, *next;
	__int128 offset, span, gain;

	if (cpu >= times->nr_cpus || !times->cpus[cpu].nr)
		return stamp;
	first = &times->cpus[cpu].at[sample_at(&times->cpus[cpu], stamp)];
	offset = first->offset;
	if (times->cpus[cpu].nr == 1)
		return stamp + offset;
	next = first + 1;
	if (times->interpolate) {
		span = (__int128)next->time - first->time;	/* not 0: each time is there once */
		gain = ((__int128)stamp - first->time) * ((__int128)next->offset - first->offset);
		offset += (gain + span / 2) / span;
		if (offset != (s64)offset)
			return -1;
	}
	return ((__int128)stamp * first->scale >> first->fraction) + offset;
}

bool braid_dat_time(const struct braid_dat_times *times, bool ticks, u32 cpu, u64 stamp, u64 *ns)
{
	__int128 time = stamp > INT64_MAX ? -1 : shift(times, cpu, stamp);

	if (time < 0 || time > INT64_MAX)
		return false;
	if (ticks)
		time = time * times->multiplier >> times->shift;
	time += times->offset_ns;
	if (time < 0 || time > INT64_MAX)
		return false;
	*ns = time;
	return true;
}
