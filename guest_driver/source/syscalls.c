// SPDX-License-Identifier: GPL-2.0
/*
 * Sub-events of raw_syscalls: each system call with its own name and arguments, as in tracefs'
 * system "syscalls".
 */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <trace/syscall.h>

#include "guest_driver/compat.h"
#include "guest_driver/event/subevent.h"
#include "guest_driver/source/syscalls.h"

#define NR_ARGS		6
#define TEXT_ROOM	2048

/* What the two events record: struct braid_record, then this. */
struct enter_record {
	struct braid_record common;
	long id;
	unsigned long args[NR_ARGS];
};

struct exit_record {
	struct braid_record common;
	long id;
	long ret;
};

/* The kernel's table: a number, and its function, "sys_" and the call's name. */
struct entry {
	u32 number;
	const char *function;
};

#undef __SYSCALL	/* before 6.11 a header of arm64 leaves it defined */
#define __SYSCALL(number, function)		{ number, #function },
#define __SYSCALL_NORETURN(number, function)	{ number, #function },
static const struct entry entries[] = {
#ifdef BRAID_SYSCALL_TABLE
#include BRAID_SYSCALL_TABLE
#endif
};

struct syscall {
	const char *function;
	const struct syscall_metadata *meta;	/* NULL: arguments are not known */
};

static struct syscall *syscalls;		/* by number */
static u32 nr_syscalls;				/* length of it */
static struct braid_subevent *enters, *exits;	/* nr_calls of each */
static u32 nr_calls;

static int braid_syscalls_nr_args(const struct syscall *call)
{
	return call->meta ? call->meta->nb_args : NR_ARGS;
}

static const char *braid_syscalls_arg_name(const struct syscall *call, int k)
{
	static const char *const unknown[] = { "arg0", "arg1", "arg2", "arg3", "arg4", "arg5" };

	return call->meta ? call->meta->args[k] : unknown[k];
}

static const char *braid_syscalls_arg_type(const struct syscall *call, int k)
{
	return call->meta ? call->meta->types[k] : "unsigned long";
}

/* Printing in the guest ---------------------------------------------------------------------- */

static const struct syscall *braid_syscalls_find_call(long id)
{
	return id >= 0 && id < nr_syscalls && syscalls[id].function ? &syscalls[id] : NULL;
}

static int braid_syscalls_print_enter(struct seq_file *out, const struct braid_item *item)
{
	const struct enter_record *record = item->payload;
	const struct syscall *call;
	int k;

	if (item->payload_bytes < sizeof(*record))
		return -EBADMSG;
	call = braid_syscalls_find_call(record->id);
	if (!call)
		return -ENOENT;
	seq_printf(out, "%s(", call->function);
	for (k = 0; k < braid_syscalls_nr_args(call); k++)
		seq_printf(out, "%s%s: %lx", k ? ", " : "", braid_syscalls_arg_name(call, k),
			   record->args[k]);
	seq_putc(out, ')');
	return 0;
}

static int braid_syscalls_print_exit(struct seq_file *out, const struct braid_item *item)
{
	const struct exit_record *record = item->payload;
	const struct syscall *call;

	if (item->payload_bytes < sizeof(*record))
		return -EBADMSG;
	call = braid_syscalls_find_call(record->id);
	if (!call)
		return -ENOENT;
	seq_printf(out, "%s -> 0x%lx", call->function, record->ret);
	return 0;
}

/* Texts for the host -------------------------------------------------------------------------- */

static const char id_field[] = "\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n";
static const char exit_fields[] =
	"\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n"
	"\tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n";

static const char *__init braid_syscalls_enter_fields(const struct syscall *call, char *text)
{
	int k, len = scnprintf(text, TEXT_ROOM, "%s", id_field);

	for (k = 0; k < braid_syscalls_nr_args(call); k++)
		len += scnprintf(text + len, TEXT_ROOM - len,
				 "\tfield:%s %s;\toffset:%zu;\tsize:8;\tsigned:0;\n",
				 braid_syscalls_arg_type(call, k), braid_syscalls_arg_name(call, k),
				 offsetof(struct enter_record, args[k]));
	return kstrdup(text, GFP_KERNEL);
}

static const char *__init braid_syscalls_enter_print_fmt(const struct syscall *call, char *text)
{
	int k, len = scnprintf(text, TEXT_ROOM, "\"%s(", call->function);

	for (k = 0; k < braid_syscalls_nr_args(call); k++)
		len += scnprintf(text + len, TEXT_ROOM - len, "%s%s: %%lx", k ? ", " : "",
				 braid_syscalls_arg_name(call, k));
	len += scnprintf(text + len, TEXT_ROOM - len, ")\"");
	for (k = 0; k < braid_syscalls_nr_args(call); k++)
		len += scnprintf(text + len, TEXT_ROOM - len, ", REC->%s",
				 braid_syscalls_arg_name(call, k));
	return kstrdup(text, GFP_KERNEL);
}

static int __init braid_syscalls_describe(u32 number, struct braid_subevent *enter,
					  struct braid_subevent *exit, char *text)
{
	const struct syscall *call = &syscalls[number];
	const char *name = call->function + strlen("sys_");

	enter->number = number;
	enter->name = kasprintf(GFP_KERNEL, "sys_enter_%s", name);
	enter->fields = braid_syscalls_enter_fields(call, text);
	enter->print_fmt = braid_syscalls_enter_print_fmt(call, text);
	enter->outputs.trace = braid_syscalls_print_enter;
	exit->number = number;
	exit->name = kasprintf(GFP_KERNEL, "sys_exit_%s", name);
	exit->fields = exit_fields;
	exit->print_fmt = kasprintf(GFP_KERNEL, "\"%s -> 0x%%lx\", REC->ret", call->function);
	exit->outputs.trace = braid_syscalls_print_exit;
	return enter->name && enter->fields && enter->print_fmt && exit->name &&
	       exit->print_fmt ? 0 : -ENOMEM;
}

/* Finding the calls ----------------------------------------------------------------------------- */

#ifdef CONFIG_FTRACE_SYSCALLS

/* The call's arguments are in its built-in event, which is never removed. */
static const struct syscall_metadata *__init braid_syscalls_find_meta(const struct entry *entry)
{
	const struct syscall_metadata *meta = NULL;
	struct trace_event_file *file;
	char name[64];

	snprintf(name, sizeof(name), "sys_enter_%s", entry->function + strlen("sys_"));
	file = trace_get_event_file(NULL, "syscalls", name);
	if (IS_ERR_OR_NULL(file))
		return NULL;
	meta = file->event_call->data;
	trace_put_event_file(file);
	return meta && meta->syscall_nr == entry->number && meta->nb_args <= NR_ARGS ? meta : NULL;
}

#else

static const struct syscall_metadata *__init braid_syscalls_find_meta(const struct entry *entry)
{
	return NULL;
}

#endif

static bool __init braid_syscalls_is_call(const struct entry *entry)
{
	return !strncmp(entry->function, "sys_", 4) && strcmp(entry->function, "sys_ni_syscall");
}

static int __init braid_syscalls_gather(void)
{
	u32 k;

	for (k = 0; k < ARRAY_SIZE(entries); k++)
		nr_syscalls = max(nr_syscalls, entries[k].number + 1);
	syscalls = kvcalloc(nr_syscalls, sizeof(*syscalls), GFP_KERNEL);
	if (!syscalls)
		return -ENOMEM;
	for (k = 0; k < ARRAY_SIZE(entries); k++) {
		if (!braid_syscalls_is_call(&entries[k]) || syscalls[entries[k].number].function)
			continue;
		syscalls[entries[k].number].function = entries[k].function;
		syscalls[entries[k].number].meta = braid_syscalls_find_meta(&entries[k]);
		nr_calls++;
	}
	return 0;
}

static int __init braid_syscalls_describe_all(void)
{
	char *text = kmalloc(TEXT_ROOM, GFP_KERNEL);
	int err = text ? 0 : -ENOMEM;
	u32 number, k = 0;

	for (number = 0; number < nr_syscalls && !err; number++) {
		if (!syscalls[number].function)
			continue;
		err = braid_syscalls_describe(number, &enters[k], &exits[k], text);
		k++;
	}
	kfree(text);
	return err;
}

static int __init braid_syscalls_add_to(struct braid_event *events, unsigned int nr,
					const char *name, const struct braid_subevent *subevents,
					u32 nr_subevents)
{
	const struct braid_subevent_table table = {
		.subevents = subevents,
		.nr = nr_subevents,
		.number_offset = offsetof(struct enter_record, id) - sizeof(struct braid_record),
		.number_bytes = sizeof(long),
	};
	unsigned int k;

	for (k = 0; k < nr; k++)
		if (!strcmp(events[k].system, "raw_syscalls") && !strcmp(events[k].name, name))
			return braid_subevents_add(&events[k], &table);
	return 0;
}

int __init braid_syscalls_add(struct braid_event *events, unsigned int nr)
{
	int err;

	if (!ARRAY_SIZE(entries))
		return 0;
	err = braid_syscalls_gather();
	if (err)
		return err;
	enters = kvcalloc(nr_calls, sizeof(*enters), GFP_KERNEL);
	exits = kvcalloc(nr_calls, sizeof(*exits), GFP_KERNEL);
	err = enters && exits ? braid_syscalls_describe_all() : -ENOMEM;
	if (!err)
		err = braid_syscalls_add_to(events, nr, "sys_enter", enters, nr_calls);
	if (!err)
		err = braid_syscalls_add_to(events, nr, "sys_exit", exits, nr_calls);
	return err;
}

void braid_syscalls_exit(void)
{
	u32 k;

	for (k = 0; enters && exits && k < nr_calls; k++) {
		kfree(enters[k].name);
		kfree(enters[k].fields);
		kfree(enters[k].print_fmt);
		kfree(exits[k].name);
		kfree(exits[k].print_fmt);
	}
	kvfree(enters);
	kvfree(exits);
	kvfree(syscalls);
	enters = exits = NULL;
	syscalls = NULL;
	nr_syscalls = 0;
	nr_calls = 0;
}
