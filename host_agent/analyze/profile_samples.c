// SPDX-License-Identifier: GPL-2.0-or-later
/* Counts samples of a guest's vCPUs, and of their threads on the host, by stack. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/private.h"
#include "host_agent/analyze/profile_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define MOST_PATH	1024u
#define FIRST_PERIOD_NS	10000000u	/* at most, of a vCPU's first sample */

struct weight {
	u64 ns, period_ns;
	u64 late, late_ns;	/* periods before it, and their time */
};

/* Events ------------------------------------------------------------------------------------- */

static const struct braid_field *samples_number(const struct braid_layout *layout, const char *name)
{
	const struct braid_field *field = braid_layout_find(layout, name);

	return field && braid_field_is_number(field) ? field : NULL;
}

static const struct braid_field *samples_dynamic(const struct braid_layout *layout,
						 const char *name)
{
	const struct braid_field *field = braid_layout_find(layout, name);

	return field && field->flags & BRAID_FIELD_DYNAMIC ? field : NULL;
}

static enum braid_profile_event samples_look_cpu(struct braid_profile_places *at,
						 const struct braid_layout *layout)
{
	at->ip = samples_number(layout, "ip");
	at->missed = samples_number(layout, "missed");
	at->user = samples_number(layout, "user");
	at->stack = samples_dynamic(layout, "stack");
	/* Earlier drivers have no user stacks. */
	at->user_stack = samples_dynamic(layout, "user_stack");
	at->space = samples_number(layout, "space");
	at->ends = samples_number(layout, "ends");
	at->late = samples_number(layout, "late_ns");
	if (!at->space || !at->ends)
		at->user_stack = NULL;
	return at->ip && at->missed && at->user && at->stack ? BRAID_PROFILE_CPU :
							       BRAID_PROFILE_OTHER;
}

static enum braid_profile_event samples_look_mapping(struct braid_profile_places *at,
						     const struct braid_layout *layout)
{
	at->space = samples_number(layout, "space");
	at->start = samples_number(layout, "start");
	at->end = samples_number(layout, "end");
	at->offset = samples_number(layout, "offset");
	at->path = samples_dynamic(layout, "path");
	at->id_bytes = samples_number(layout, "id_bytes");
	at->id = braid_layout_find(layout, "build_id");
	return at->space && at->start && at->end && at->offset && at->path && at->id_bytes &&
	       at->id && at->id->size == BRAID_BUILD_ID_BYTES ? BRAID_PROFILE_MAPPING :
								BRAID_PROFILE_OTHER;
}

static enum braid_profile_event samples_look_host(struct braid_profile_places *at,
						  const struct braid_layout *layout)
{
	at->stack = braid_layout_find(layout, "caller");
	return at->stack && at->stack->elementsize == sizeof(u64) ? BRAID_PROFILE_HOST :
								    BRAID_PROFILE_OTHER;
}

/* What an event is. NULL: out of memory, with braid_fail(). */
static const struct braid_profile_places *samples_places(struct braid_profile *x,
							 const struct braid_event_type_info *info,
							 bool host)
{
	const struct braid_profile_places none = { 0 };
	struct braid_profile_places *at;

	while (x->nr_places <= info->number)
		if (braid_array_push(x->places, x->nr_places, x->places_capacity, none)) {
			braid_out_of_memory();
			return NULL;
		}
	at = &x->places[info->number];
	if (at->event)
		return at;
	at->event = BRAID_PROFILE_OTHER;
	if (!info->layout)
		return at;
	if (!host && !strcmp(info->system, "sample") && !strcmp(info->name, "cpu"))
		at->event = samples_look_cpu(at, info->layout);
	else if (!host && !strcmp(info->system, "sample") && !strcmp(info->name, "mapping"))
		at->event = samples_look_mapping(at, info->layout);
	else if (host && !strcmp(info->name, "kernel_stack"))
		at->event = samples_look_host(at, info->layout);
	return at;
}

/* Stacks ------------------------------------------------------------------------------------- */

static void samples_push(struct braid_profile_stack *stack, u64 function)
{
	if (stack->nr < BRAID_PROFILE_FRAMES)
		stack->functions[stack->nr++] = function;
}

/* The frame @k of a dynamic array. Return: false: there are fewer. */
static bool samples_frame(const struct braid_field *field, const struct braid_item *item, u32 k,
			  u64 *frame)
{
	u32 offset, length;

	if (!braid_format_range(field, item->payload, item->payload_bytes, &offset, &length) ||
	    k >= length / sizeof(*frame))
		return false;
	memcpy(frame, item->payload + offset + k * sizeof(*frame), sizeof(*frame));
	return true;
}

/* Return: 0 or -ENOMEM with braid_fail(). */
static int samples_read_user(struct braid_profile *x, const struct braid_profile_places *at,
			     const struct braid_item *item, struct braid_profile_stack *stack)
{
	u64 space = braid_field_number(at->space, item->payload), frame, function;
	u64 ends = braid_field_number(at->ends, item->payload);
	u32 k;
	int err;

	for (k = 0; samples_frame(at->user_stack, item, k, &frame); k++) {
		err = braid_user_code_of(&x->user, item->stream, space, frame, k, &function);
		if (err)
			return err;
		samples_push(stack, function);
	}
	if (k && (ends == BRAID_STACK_BROKEN || ends == BRAID_STACK_DEEP))
		samples_push(stack, BRAID_FUNCTION_ENDS);
	return 0;
}

/* Return: 0 or -ENOMEM with braid_fail(). */
static int samples_read_stack(struct braid_profile *x, const struct braid_profile_places *at,
			      const struct braid_item *item, struct braid_profile_stack *stack)
{
	u64 ip = braid_field_number(at->ip, item->payload), frame;
	bool user = braid_field_number(at->user, item->payload);
	u32 k;

	memset(stack, 0, sizeof(*stack));
	stack->of = item->stream;
	if (!user)
		samples_push(stack, braid_function_of(&x->functions, item->stream, ip));
	for (k = 0; !user && samples_frame(at->stack, item, k, &frame); k++)
		/* The call is before the address that it returns to. */
		samples_push(stack, braid_function_of(&x->functions, item->stream, frame - 1));
	if (at->user_stack && samples_frame(at->user_stack, item, 0, &frame))
		return samples_read_user(x, at, item, stack);
	if (user)
		samples_push(stack, BRAID_FUNCTION_USER);
	return 0;
}

static bool samples_same_stack(const void *in, u32 number, const void *key)
{
	return !memcmp(&((const struct braid_profile_stack *)in)[number], key,
		       sizeof(struct braid_profile_stack));
}

/* Sets the number of a stack; or BRAID_PROFILE_NO_STACK: there are too many. Return: as above. */
static int samples_number_stack(struct braid_profile *x, const struct braid_profile_stack *stack,
				u32 *number)
{
	u32 hash = braid_hash_of(stack, sizeof(*stack), 0);

	*number = braid_hash_find(&x->by_stack, hash, samples_same_stack, x->stacks, stack);
	if (*number != BRAID_HASH_NONE)
		return 0;
	*number = x->nr_stacks < BRAID_PROFILE_STACKS ? x->nr_stacks : BRAID_PROFILE_NO_STACK;
	if (*number == BRAID_PROFILE_NO_STACK)
		return 0;
	if (braid_hash_reserve(&x->by_stack, BRAID_PROFILE_STACKS) ||
	    braid_array_push(x->stacks, x->nr_stacks, x->stacks_capacity, *stack))
		return braid_out_of_memory();
	braid_hash_put(&x->by_stack, hash, *number);
	return 0;
}

/* What samples stand for. */
struct counted {
	u64 nr;			/* 0: only of periods without one */
	u64 periods, ns;
};

/* Those of too many stacks, or too many rows, count for none. */
static int samples_count(struct braid_profile *x, struct braid_sums *samples,
			 struct braid_sum_key *key, const struct braid_profile_stack *stack,
			 const struct counted *of)
{
	struct braid_sum *row;
	u32 number;
	int err = samples_number_stack(x, stack, &number);

	if (err)
		return err;
	if (number == BRAID_PROFILE_NO_STACK) {
		x->nr_others += of->nr;
		return 0;
	}
	key->detail = number;
	err = braid_sums_add(samples, key, of->ns, 0, &row);
	if (err)
		return err;
	row->returned += of->periods;
	if (row->key.vcpu == BRAID_NO_VCPU)
		x->nr_others += of->nr;
	return 0;
}

/* Of guests ---------------------------------------------------------------------------------- */

/* What a vCPU has executed until a moment of its state of now, or until that began. */
static u64 samples_executed_ns(const struct braid_vcpu *v, s64 ns)
{
	u64 executed = v->ns[BRAID_VCPU_GUEST] + v->ns[BRAID_VCPU_RUNS];

	return braid_profile_executes(v->now.state) && ns > v->now.from_ns ?
	       executed + (ns - v->now.from_ns) : executed;
}

/*
 * A sample stands for what the vCPU executed from when the last one was due until it was due. So a
 * vCPU that is stolen often, and has a sample in each short time between, does not count for more,
 * and neither does code for which a sample is late. If that is more than a period, and periods were
 * missed, the rest is late: interrupts were off. In periods in which the vCPU did not execute no
 * timer could expire.
 */
static struct weight samples_weigh(struct braid_profile_vcpu *of, const struct braid_vcpu *v,
				   s64 ns, u64 missed)
{
	u64 now_ns = samples_executed_ns(v, ns), executed_ns;
	struct weight w = { .period_ns = FIRST_PERIOD_NS };

	now_ns = now_ns > of->executed_ns ? now_ns : of->executed_ns;
	executed_ns = now_ns - of->executed_ns;
	if (of->sampled_ns && ns > of->sampled_ns) {
		w.period_ns = (ns - of->sampled_ns) / (missed + 1);
		w.late = w.period_ns ? executed_ns / w.period_ns : 0;
		w.late = !w.late ? 0 : w.late - 1 < missed ? w.late - 1 : missed;
	}
	w.ns = (w.late || !of->sampled_ns) && executed_ns > w.period_ns ? w.period_ns : executed_ns;
	w.late_ns = w.late ? executed_ns - w.ns : 0;
	w.ns += !w.ns;		/* it counts, however little */
	of->sampled_ns = ns;
	of->executed_ns = now_ns;
	return w;
}

static int samples_take_cpu(struct braid_profile *x, const struct braid_profile_places *at,
			    const struct braid_item *item, u32 vcpu)
{
	const struct braid_vcpu *v = &x->s->vcpus[vcpu];
	struct braid_sum_key key = { .vcpu = vcpu, .task = v->task };
	u64 missed = braid_field_number(at->missed, item->payload) & UINT32_MAX;
	u64 late_ns = at->late ? braid_field_number(at->late, item->payload) & UINT32_MAX : 0;
	struct weight w = samples_weigh(&x->vcpus[vcpu], v, item->host_ns - late_ns, missed);
	struct braid_profile_stack stack;
	int err = samples_read_stack(x, at, item, &stack);

	if (err)
		return err;
	x->nr_samples++;
	x->nr_missed += w.late;
	err = samples_count(x, &x->samples, &key, &stack,
			    &(struct counted){ .nr = 1, .periods = 1, .ns = w.ns });
	stack.late = braid_field_number(at->user, item->payload) ? BRAID_PROFILE_LATE :
								   BRAID_PROFILE_OFF;
	return err || !w.late ? err :
	       samples_count(x, &x->samples, &key, &stack,
			     &(struct counted){ .periods = w.late, .ns = w.late_ns });
}

static int samples_take_mapping(struct braid_profile *x, const struct braid_profile_places *at,
				const struct braid_item *item)
{
	struct user_mapping m = {
		.space = braid_field_number(at->space, item->payload),
		.start = braid_field_number(at->start, item->payload),
		.end = braid_field_number(at->end, item->payload),
		.offset = braid_field_number(at->offset, item->payload),
	};
	u64 id_bytes = braid_field_number(at->id_bytes, item->payload);
	struct braid_binary_name name = {
		.id_bytes = id_bytes < sizeof(name.id) ? id_bytes : sizeof(name.id),
	};
	char path[MOST_PATH];
	u32 offset, length;

	if (!braid_format_range(at->path, item->payload, item->payload_bytes, &offset, &length) ||
	    length >= sizeof(path))
		return 0;
	memcpy(path, item->payload + offset, length);
	path[length] = 0;
	name.path = path;
	memcpy(name.id, item->payload + at->id->offset, name.id_bytes);
	return braid_user_code_map(&x->user, item->stream, &m, &name);
}

/* Of the host -------------------------------------------------------------------------------- */

/* Where an interrupt begins on the stack: what it interrupted follows. */
static bool samples_is_entry(const char *name)
{
	return !strncmp(name, "asm_sysvec_", 11) || !strcmp(name, "asm_common_interrupt") ||
	       !strcmp(name, "el1h_64_irq") || !strcmp(name, "el0t_64_irq");
}

static int samples_take_host(struct braid_profile *x, const struct braid_profile_places *at,
			     const struct braid_item *item)
{
	u32 offset = at->stack->offset, nr, k;
	const struct braid_host_state *host = braid_states_host(x->s, item->stream);
	const struct braid_vcpu *v = braid_vcpu_of_thread(x->s, host, braid_format_pid(item),
							  item->host_ns);
	struct braid_profile_stack stack = { .of = item->stream };
	struct braid_sum_key key = { 0 };
	char name[BRAID_NAME_TEXT];
	u64 frame, function;

	if (!v || v->guest->kind == BRAID_STREAM_HOST || item->host_ns < v->begin_ns ||
	    item->host_ns > v->end_ns || item->payload_bytes < offset)
		return 0;
	key = (struct braid_sum_key){
		.vcpu = v - x->s->vcpus, .task = v->task, .level = v->now.state,
	};
	if (!braid_analysis_wants(x->s, &x->o, key.vcpu, v->task) ||
	    (key.level != BRAID_VCPU_KVM && key.level != BRAID_VCPU_VMM))
		return 0;
	key.reason = v->now.reason;
	nr = (item->payload_bytes - offset) / sizeof(frame);
	for (k = 0; k < nr; k++) {
		memcpy(&frame, item->payload + offset + k * sizeof(frame), sizeof(frame));
		if (!frame || frame == ~0ULL)
			break;
		function = braid_function_of(&x->functions, item->stream, frame - 1);
		braid_function_name(&x->functions, item->stream, function, name);
		if (samples_is_entry(name))	/* equal stacks have equal bytes */
			stack = (struct braid_profile_stack){ .of = item->stream };
		else
			samples_push(&stack, function);
	}
	if (!stack.nr)
		samples_push(&stack, BRAID_FUNCTION_USER);
	x->nr_host_samples++;
	return samples_count(x, &x->host_samples, &key, &stack,
			     &(struct counted){ .nr = 1, .periods = 1, .ns = 1 });
}

int braid_profile_take_event(void *state, const struct braid_item *item,
			     const struct braid_event_type_info *info)
{
	struct braid_profile *x = state;
	const struct braid_profile_places *at;
	const struct braid_vcpu *v;
	u32 vcpu;

	vcpu = braid_states_vcpu_of(x->s, item);
	if (item->lost_before && vcpu != BRAID_NO_VCPU)
		x->vcpus[vcpu].sampled_ns = 0;	/* a sample may be lost, too */
	at = samples_places(x, info, item->stream->kind == BRAID_STREAM_HOST);
	if (!at)
		return -ENOMEM;
	if (at->event == BRAID_PROFILE_OTHER)
		return 0;
	if (at->event == BRAID_PROFILE_HOST)
		return samples_take_host(x, at, item);
	if (!braid_format_fields_of(info, item))
		return 0;
	if (at->event == BRAID_PROFILE_MAPPING)
		return samples_take_mapping(x, at, item);
	v = vcpu == BRAID_NO_VCPU ? NULL : &x->s->vcpus[vcpu];
	if (!v || item->host_ns < v->begin_ns || item->host_ns > v->end_ns ||
	    !braid_analysis_wants(x->s, &x->o, vcpu, v->task))
		return 0;
	return samples_take_cpu(x, at, item, vcpu);
}

/* At the end --------------------------------------------------------------------------------- */

/* Now that all mappings are known. Below an address where no code is, a stack is no stack. */
static void samples_settle_stack(struct braid_profile *x, const struct braid_profile_stack *from,
				 struct braid_profile_stack *to)
{
	bool any = false;
	u64 function;
	u32 k;

	memset(to, 0, sizeof(*to));
	to->of = from->of;
	to->late = from->late;
	for (k = 0; k < from->nr; k++) {
		bool user = from->functions[k] >= BRAID_FUNCTION_CODE &&
			    !(from->functions[k] & BRAID_FUNCTION_KERNEL);

		function = user ? braid_user_code_settle(&x->user, from->functions[k]) :
				  from->functions[k];
		if (!function && user) {
			samples_push(to, any ? BRAID_FUNCTION_ENDS : BRAID_FUNCTION_USER);
			return;
		}
		any |= user;
		samples_push(to, function);
	}
}

int braid_profile_settle(void *state)
{
	struct braid_profile *x = state;
	struct braid_sums before = x->samples;
	struct braid_profile_stack stack;
	size_t k;
	int err = 0;

	memset(&x->samples, 0, sizeof(x->samples));
	for (k = 0; k < before.nr && !err; k++) {
		const struct braid_sum *row = before.all[k];
		struct braid_sum_key key = row->key;

		if (key.vcpu != BRAID_NO_VCPU) {
			samples_settle_stack(x, &x->stacks[key.detail], &stack);
			err = samples_count(x, &x->samples, &key, &stack, &(struct counted){
				.nr = stack.late ? 0 : row->returned,
				.periods = row->returned, .ns = row->total_ns,
			});
		}
	}
	braid_sums_free(&before);
	return err;
}
