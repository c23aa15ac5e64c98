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

int braid_dat_take_scale(struct braid_dat_input *in)
{
	struct braid_dat_times *times = &in->dat->times;
	u64 multiplier, shift;

	if (braid_dat_take_number(in, 4, &multiplier) || braid_dat_take_number(in, 4, &shift))
		return -EBADMSG;
	if (shift > MAX_FRACTION)
		return braid_dat_broken(in->dat, "the rate of its clock is impossible");
	times->multiplier = multiplier;
	times->shift = shift;
	return 0;
}

/* Shifts of a guest's clock to the host's -------------------------------------------------- */

/* One number of each of a CPU's samples: all times are together, then all offsets, ... */
static int take_column(struct braid_dat_input *in, struct braid_dat_shifts *cpu, size_t member)
{
	u32 k;

	for (k = 0; k < cpu->nr; k++) {
		u64 *number = (u64 *)((u8 *)&cpu->at[k] + member);

		if (braid_dat_take_number(in, 8, number))
			return -EBADMSG;
	}
	return 0;
}

static int take_cpu(struct braid_dat_input *in, struct braid_dat_shifts *cpu)
{
	u64 nr;

	if (braid_dat_take_number(in, 4, &nr))
		return -EBADMSG;
	if (nr > (in->end - in->at) / (3 * sizeof(u64)))
		return braid_dat_broken(in->dat, "the shift of its times is truncated");
	cpu->at = calloc(nr + 1, sizeof(*cpu->at));
	if (!cpu->at)
		return braid_out_of_memory();
	cpu->nr = nr;
	if (take_column(in, cpu, offsetof(struct braid_dat_shift, time)) ||
	    take_column(in, cpu, offsetof(struct braid_dat_shift, offset)) ||
	    take_column(in, cpu, offsetof(struct braid_dat_shift, scale)))
		return -EBADMSG;
	return 0;
}

static int trace_dat_time_by_time(const void *a, const void *b)
{
	const struct braid_dat_shift *x = a, *y = b;

	return braid_compare(x->time, y->time);
}

/* In order of time, each time once. */
static int sort_cpu(struct braid_trace_dat *dat, struct braid_dat_shifts *cpu)
{
	u32 k, nr = 0;

	for (k = 0; k < cpu->nr; k++)
		if (cpu->at[k].fraction > MAX_FRACTION || cpu->at[k].time > INT64_MAX)
			return braid_dat_broken(dat, "the shift of its times is impossible");
	qsort(cpu->at, cpu->nr, sizeof(*cpu->at), trace_dat_time_by_time);
	for (k = 0; k < cpu->nr; k++)
		if (!nr || cpu->at[nr - 1].time != cpu->at[k].time)
			cpu->at[nr++] = cpu->at[k];
	cpu->nr = nr;
	return 0;
}

int braid_dat_take_shifts(struct braid_dat_input *in)
{
	struct braid_dat_times *times = &in->dat->times;
	u64 peer, flags, nr;
	u32 k;
	int err = 0;

	braid_dat_free_shifts(times);
	if (braid_dat_take_number(in, 8, &peer) || braid_dat_take_number(in, 4, &flags) ||
	    braid_dat_take_number(in, 4, &nr))
		return -EBADMSG;
	if (nr > BRAID_MAX_CPUS)
		return braid_dat_broken(in->dat, "it has too many CPUs");
	times->cpus = calloc(nr + 1, sizeof(*times->cpus));
	if (!times->cpus)
		return braid_out_of_memory();
	times->nr_cpus = nr;
	times->interpolate = flags & INTERPOLATE;
	for (k = 0; k < nr && !err; k++)
		err = take_cpu(in, &times->cpus[k]);
	/* Those of trace-cmd 2.9 end here. */
	for (k = 0; k < nr && !err && in->at < in->end; k++)
		err = take_column(in, &times->cpus[k], offsetof(struct braid_dat_shift, fraction));
	for (k = 0; k < nr && !err; k++)
		err = sort_cpu(in->dat, &times->cpus[k]);
	return err;
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
