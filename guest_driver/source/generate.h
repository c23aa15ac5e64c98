/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Turns a list of the kernel's trace headers into native probes and their descriptions.
 *
 * A group is one .c file that defines BRAID_GROUP, its name, and BRAID_HEADERS, a
 * file with nothing in it but one "#include <trace/events/...>" a line. Each pass
 * below reads that whole list again under other definitions of the event
 * macros: so a further header costs one line, and no layout is written by
 * hand. What comes out, for an event class C:
 *
 *   struct braid_raw_C       the record, laid out as ftrace lays it out
 *   struct braid_offsets_C   its dynamic fields, measured: on the prober's stack
 *   braid_fields_C[]         name, type and size of each field
 *   braid_print_fmt_C[]      TP_printk() as text; also for an event with its own
 *   braid_symbols_C[]        where it has addresses that print as symbols
 *   braid_measure_C()        fills braid_offsets_C
 *   braid_probe_C()          measure, reserve, assign, commit
 *
 * and braid_group_<BRAID_GROUP>(), which hands out a struct braid_tracepoint
 * for each event and a struct braid_eval for each name of a number.
 *
 * What a header takes from its owner's private files the group has to supply
 * before it includes this file.
 *
 * No include guard: this file does all its work at the place of its inclusion.
 */
#include <linux/trace_events.h>
#include <linux/tracepoint.h>

#include "guest_driver/compat.h"
#include "guest_driver/event/event.h"
#include "guest_driver/source/assign.h"
#include "guest_driver/source/group.h"

/* Pass 0: declarations of the tracepoints, and everything the headers need. */
#include BRAID_HEADERS

#define TRACE_HEADER_MULTI_READ

/* All variants of an event are a class and a member of it. */
#undef TRACE_EVENT
#define TRACE_EVENT(name, proto, args, tstruct, assign, print)		\
	DECLARE_EVENT_CLASS(name, PARAMS(proto), PARAMS(args),		\
			    PARAMS(tstruct), PARAMS(assign),		\
			    PARAMS(print));				\
	DEFINE_EVENT(name, name, PARAMS(proto), PARAMS(args));

/*
 * The tracepoint itself evaluates conditions and runs reg/unreg for every probe: they need no
 * handling here.
 */
#undef TRACE_EVENT_FN
#define TRACE_EVENT_FN(name, proto, args, tstruct, assign, print, reg, unreg) \
	TRACE_EVENT(name, PARAMS(proto), PARAMS(args), PARAMS(tstruct),	\
		    PARAMS(assign), PARAMS(print))
#undef TRACE_EVENT_FN_COND
#define TRACE_EVENT_FN_COND(name, proto, args, cond, tstruct, assign, print, reg, unreg) \
	TRACE_EVENT(name, PARAMS(proto), PARAMS(args), PARAMS(tstruct),	\
		    PARAMS(assign), PARAMS(print))
#undef TRACE_EVENT_CONDITION
#define TRACE_EVENT_CONDITION(name, proto, args, cond, tstruct, assign, print) \
	TRACE_EVENT(name, PARAMS(proto), PARAMS(args), PARAMS(tstruct),	\
		    PARAMS(assign), PARAMS(print))
#undef DEFINE_EVENT_FN
#define DEFINE_EVENT_FN(template, name, proto, args, reg, unreg)	\
	DEFINE_EVENT(template, name, PARAMS(proto), PARAMS(args))
#undef DEFINE_EVENT_CONDITION
#define DEFINE_EVENT_CONDITION(template, name, proto, args, cond)	\
	DEFINE_EVENT(template, name, PARAMS(proto), PARAMS(args))

/* Faultable system call tracepoints call their probes with preemption and migration on. */
#undef TRACE_EVENT_SYSCALL
#define TRACE_EVENT_SYSCALL(name, proto, args, tstruct, assign, print, reg, unreg) \
	DECLARE_EVENT_SYSCALL_CLASS(name, PARAMS(proto), PARAMS(args),	\
			    PARAMS(tstruct), PARAMS(assign),		\
			    PARAMS(print));				\
	DEFINE_EVENT(name, name, PARAMS(proto), PARAMS(args));
#undef DECLARE_EVENT_SYSCALL_CLASS
#define DECLARE_EVENT_SYSCALL_CLASS(name, proto, args, tstruct, assign, print) \
	DECLARE_EVENT_CLASS(name, PARAMS(proto), PARAMS(args),		\
			    PARAMS(tstruct), PARAMS(assign), PARAMS(print))

/* Tracepoints without an event in tracefs have none here. */
#undef TRACE_EVENT_NOP
#define TRACE_EVENT_NOP(name, proto, args, tstruct, assign, print)
#undef DECLARE_EVENT_CLASS_NOP
#define DECLARE_EVENT_CLASS_NOP(name, proto, args, tstruct, assign, print)
#undef DEFINE_EVENT_NOP
#define DEFINE_EVENT_NOP(template, name, proto, args)
#undef DECLARE_TRACE
#define DECLARE_TRACE(name, proto, args)
#undef DECLARE_TRACE_CONDITION
#define DECLARE_TRACE_CONDITION(name, proto, args, cond)
#undef TRACE_EVENT_FLAGS
#define TRACE_EVENT_FLAGS(event, flag)
#undef TRACE_EVENT_PERF_PERM
#define TRACE_EVENT_PERF_PERM(event, expr...)
#undef TRACE_DEFINE_ENUM
#define TRACE_DEFINE_ENUM(a)
#undef TRACE_DEFINE_SIZEOF
#define TRACE_DEFINE_SIZEOF(a)
#undef DEFINE_EVENT
#define DEFINE_EVENT(template, name, proto, args)
#undef DEFINE_EVENT_PRINT
#define DEFINE_EVENT_PRINT(template, name, proto, args, print)		\
	DEFINE_EVENT(template, name, PARAMS(proto), PARAMS(args))

/* Pass 1: the record. */
#include <trace/stages/stage1_struct_define.h>
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print)	\
	struct braid_raw_##call {					\
		struct trace_entry ent;					\
		tstruct							\
		char __data[];						\
	};
#include BRAID_HEADERS

/*
 * Pass 2: place, length and source of the dynamic fields. Every kernel stores the source pointer,
 * so that the measured string is the one copied.
 */
#include <trace/stages/stage2_data_offsets.h>
#undef __dynamic_array
#define __dynamic_array(type, item, len)	u32 item; const void *item##_ptr_;
#undef __rel_dynamic_array
#define __rel_dynamic_array(type, item, len)	u32 item; const void *item##_ptr_;
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print)	\
	struct braid_offsets_##call { tstruct };
#include BRAID_HEADERS

/* Pass 3: the description of the fields. */
#include <trace/stages/stage4_event_fields.h>
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print)	\
static const struct braid_field braid_fields_##call[] = { tstruct { } };
#include BRAID_HEADERS

/* Pass 4: the print formats; an event may have one that is not its class's. */
#include <trace/stages/stage7_class_define.h>
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print)	\
static const char braid_print_fmt_##call[] __maybe_unused = print;	\
static u16 braid_symbols_##call[BRAID_SYMBOLS_MAX + 1] __maybe_unused;
#undef DEFINE_EVENT_PRINT
#define DEFINE_EVENT_PRINT(template, call, proto, args, print)		\
static const char braid_print_fmt_##call[] = print;
#include BRAID_HEADERS

#undef DEFINE_EVENT_PRINT
#define DEFINE_EVENT_PRINT(template, name, proto, args, print)		\
	DEFINE_EVENT(template, name, PARAMS(proto), PARAMS(args))

/* Pass 5: measure the dynamic fields. */
#include <trace/stages/stage5_get_offsets.h>
#undef __string
#define __string(item, src)						\
	__data_offsets->item##_ptr_ = (src);				\
	__dynamic_array(char, item,					\
		braid_string_size(__data_offsets->item##_ptr_))
#undef __string_len
#define __string_len(item, src, len)					\
	__data_offsets->item##_ptr_ = (src);				\
	__dynamic_array(char, item, (len) + 1)
#undef __rel_string
#define __rel_string(item, src)						\
	__data_offsets->item##_ptr_ = (src);				\
	__rel_dynamic_array(char, item,					\
		braid_string_size(__data_offsets->item##_ptr_))
#undef __rel_string_len
#define __rel_string_len(item, src, len)				\
	__data_offsets->item##_ptr_ = (src);				\
	__rel_dynamic_array(char, item, (len) + 1)
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print)	\
static __always_inline __maybe_unused notrace int			\
braid_measure_##call(struct braid_offsets_##call *__data_offsets, proto) \
{									\
	struct braid_raw_##call __maybe_unused *entry;			\
	int __maybe_unused __item_length;				\
	int __data_size = 0;						\
									\
	tstruct								\
	return __data_size;						\
}
#include BRAID_HEADERS

/*
 * Pass 6: the probes, and a check that each fits its tracepoints. Each disables preemption itself:
 * not every kernel's tracepoints do. From the reservation on, entry is in memory that the host may
 * write.
 */
#include <trace/stages/stage6_event_callback.h>
#include "guest_driver/source/assign_private.h"
#define BRAID_PROBE(call, held, proto, args, tstruct, assign)		\
static notrace __maybe_unused void braid_probe_##call(void *__data, proto) \
{									\
	struct braid_offsets_##call __maybe_unused __data_offsets;	\
	unsigned long __braid_pc = preempt_count();			\
	struct braid_raw_##call *entry;					\
	struct braid_slot __braid_slot;					\
	int __data_size;						\
									\
	preempt_disable_notrace();					\
	__data_size = braid_measure_##call(&__data_offsets, args);	\
	entry = braid_event_reserve(__data, &__braid_slot,		\
			braid_record_size(sizeof(*entry), __data_size),	\
			__braid_pc, held);				\
	if (!entry)							\
		goto __braid_out;					\
	tstruct								\
	{ assign; }							\
	if (braid_prints_symbols(braid_print_fmt_##call))		\
		braid_note_symbols(entry, braid_symbols_##call);	\
	braid_event_commit(&__braid_slot);				\
__braid_out:								\
	preempt_enable_notrace();					\
}
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print)	\
	BRAID_PROBE(call, true, PARAMS(proto), PARAMS(args),		\
		    PARAMS(tstruct), PARAMS(assign))
#undef DECLARE_EVENT_SYSCALL_CLASS
#define DECLARE_EVENT_SYSCALL_CLASS(call, proto, args, tstruct, assign, print) \
	BRAID_PROBE(call, false, PARAMS(proto), PARAMS(args),		\
		    PARAMS(tstruct), PARAMS(assign))
#undef DEFINE_EVENT
#define DEFINE_EVENT(template, call, proto, args)			\
static inline void braid_check_##call(void)				\
{									\
	check_trace_callback_type_##call(braid_probe_##template);	\
}
#include BRAID_HEADERS

/*
 * Pass 7: the visit. The headers end each macro with a semicolon, which is not a separator in an
 * initializer but is one between statements.
 */
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(call, proto, args, tstruct, assign, print)
#undef DECLARE_EVENT_SYSCALL_CLASS
#define DECLARE_EVENT_SYSCALL_CLASS(call, proto, args, tstruct, assign, print)
#define BRAID_VISIT(template, call, fmt)				\
	do {								\
		static struct braid_source_state state;			\
		static const struct braid_tracepoint tracepoint = {	\
			.system = __stringify(TRACE_SYSTEM),		\
			.name = #call,					\
			.probe = braid_probe_##template,		\
			.fields = braid_fields_##template,		\
			.print_fmt = braid_print_fmt_##fmt,		\
			.fixed_size = sizeof(struct braid_raw_##template), \
			.symbols = braid_symbols_##template,		\
			.state = &state,				\
		};							\
		visitor->tracepoint(visitor, &tracepoint);		\
	} while (0)
#undef DEFINE_EVENT
#define DEFINE_EVENT(template, call, proto, args)			\
	BRAID_VISIT(template, call, template)
#undef DEFINE_EVENT_PRINT
#define DEFINE_EVENT_PRINT(template, call, proto, args, print)		\
	BRAID_VISIT(template, call, call)
#define BRAID_VISIT_EVAL(text, number)					\
	do {								\
		static const struct braid_eval eval = {			\
			.system = __stringify(TRACE_SYSTEM),		\
			.name = text,					\
			.value = number,				\
		};							\
		visitor->eval(visitor, &eval);				\
	} while (0);
#undef TRACE_DEFINE_ENUM
#define TRACE_DEFINE_ENUM(a)	BRAID_VISIT_EVAL(#a, a)
#undef TRACE_DEFINE_SIZEOF
#define TRACE_DEFINE_SIZEOF(a)	BRAID_VISIT_EVAL("sizeof(" #a ")", sizeof(a))

void __init CONCATENATE(braid_group_, BRAID_GROUP)(struct braid_visitor *visitor)
{
#include BRAID_HEADERS
}
