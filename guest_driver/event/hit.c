// SPDX-License-Identifier: GPL-2.0
/*
 * Records hits of probes: reads registers and memory, as the probe's arguments say.
 *
 * Strings are measured before the record is reserved, and copied into it after that. Other tasks
 * may change them in between, so a copy ends with a NUL where the measured length ends.
 */
#include <linux/mm.h>
#include <linux/ptrace.h>
#include <linux/uaccess.h>

#include "guest_driver/event/probe_private.h"

#define DATA_LOC_SHIFT	16
#define CHUNK		64u	/* of a string that is measured */

static const char fault[] = "(fault)";

/* What the arguments are: numbers, or addresses of strings. */
struct fetched {
	u64 values[BRAID_PROBE_ARGS];
	u16 bytes[BRAID_PROBE_ARGS];	/* of a string with its NUL; 0: it cannot be read */
};

/* Registers --------------------------------------------------------------------------------- */

#define REGISTER(name, member)	{ name, offsetof(struct pt_regs, member) }

static const struct {
	char name[8];
	u16 offset;
} registers[] = {
#ifdef CONFIG_X86
	REGISTER("ax", ax), REGISTER("bx", bx), REGISTER("cx", cx), REGISTER("dx", dx),
	REGISTER("si", si), REGISTER("di", di), REGISTER("bp", bp), REGISTER("sp", sp),
	REGISTER("r8", r8), REGISTER("r9", r9), REGISTER("r10", r10), REGISTER("r11", r11),
	REGISTER("r12", r12), REGISTER("r13", r13), REGISTER("r14", r14), REGISTER("r15", r15),
	REGISTER("ip", ip), REGISTER("flags", flags), REGISTER("orig_ax", orig_ax),
	REGISTER("cs", cs), REGISTER("ss", ss),
#elif defined(CONFIG_ARM64)
	REGISTER("x0", regs[0]), REGISTER("x1", regs[1]), REGISTER("x2", regs[2]),
	REGISTER("x3", regs[3]), REGISTER("x4", regs[4]), REGISTER("x5", regs[5]),
	REGISTER("x6", regs[6]), REGISTER("x7", regs[7]), REGISTER("x8", regs[8]),
	REGISTER("x9", regs[9]), REGISTER("x10", regs[10]), REGISTER("x11", regs[11]),
	REGISTER("x12", regs[12]), REGISTER("x13", regs[13]), REGISTER("x14", regs[14]),
	REGISTER("x15", regs[15]), REGISTER("x16", regs[16]), REGISTER("x17", regs[17]),
	REGISTER("x18", regs[18]), REGISTER("x19", regs[19]), REGISTER("x20", regs[20]),
	REGISTER("x21", regs[21]), REGISTER("x22", regs[22]), REGISTER("x23", regs[23]),
	REGISTER("x24", regs[24]), REGISTER("x25", regs[25]), REGISTER("x26", regs[26]),
	REGISTER("x27", regs[27]), REGISTER("x28", regs[28]), REGISTER("x29", regs[29]),
	REGISTER("x30", regs[30]), REGISTER("lr", regs[30]), REGISTER("sp", sp),
	REGISTER("pc", pc), REGISTER("pstate", pstate),
#endif
};

int braid_probe_register(const char *name)
{
	u32 k;

	for (k = 0; k < ARRAY_SIZE(registers); k++)
		if (!strcmp(registers[k].name, name))
			return registers[k].offset;
	return -EINVAL;
}

/* Memory ------------------------------------------------------------------------------------ */

/* @may_fault: pages may be read from where they are stored. Return: whether all could be read. */
static bool braid_hit_read(void *to, unsigned long from, u32 bytes, bool user, bool may_fault)
{
	if (!user)
		return !copy_from_kernel_nofault(to, (const void *)from, bytes);
	if (may_fault)
		return !copy_from_user(to, (const void __user *)from, bytes);
	return !copy_from_user_nofault(to, (const void __user *)from, bytes);
}

/* As in tracefs: addresses below TASK_SIZE_MAX are of user space. */
static bool braid_hit_is_user(const struct braid_probe *probe, const struct braid_probe_arg *arg,
			      u32 read, u64 address)
{
	return braid_probe_is_user(probe) || arg->user & 1u << read || address < TASK_SIZE_MAX;
}

/* Return: its length with the NUL, at most BRAID_PROBE_STRING_BYTES; 0: it cannot be read. */
static u32 braid_hit_measure(unsigned long at, bool user, bool may_fault)
{
	u32 done = 0, bytes, length;
	char chunk[CHUNK];

	while (done < BRAID_PROBE_STRING_BYTES) {
		bytes = min_t(u32, CHUNK, PAGE_SIZE - offset_in_page(at + done));
		bytes = min(bytes, BRAID_PROBE_STRING_BYTES - done);
		if (!braid_hit_read(chunk, at + done, bytes, user, may_fault))
			return 0;
		length = strnlen(chunk, bytes);
		done += length;
		if (length < bytes)
			return done + 1;
	}
	return BRAID_PROBE_STRING_BYTES;
}

/* Arguments --------------------------------------------------------------------------------- */

static u64 braid_hit_base(const struct braid_probe_event *p, u32 at, struct pt_regs *regs)
{
	const struct braid_probe_arg *arg = &p->probe.args[at];

	switch (arg->base) {
	case BRAID_PROBE_REGISTER:
		return *(const unsigned long *)((const u8 *)regs + p->registers[at]);
	case BRAID_PROBE_STACK:
		return braid_probe_is_user(&p->probe) ? user_stack_pointer(regs) :
							kernel_stack_pointer(regs);
	case BRAID_PROBE_RETVAL:
		return regs_return_value(regs);
	case BRAID_PROBE_ARG:
#ifdef CONFIG_HAVE_FUNCTION_ARG_ACCESS_API
		return regs_get_kernel_argument(regs, arg->value);
#else
		return 0;
#endif
	case BRAID_PROBE_COMM:
		return (unsigned long)current->comm;
	}
	return arg->value;
}

/* Return: the number, or the address of a string; 0: memory that cannot be read. */
static u64 braid_hit_value(const struct braid_probe_event *p, u32 at, struct pt_regs *regs,
			   bool *is_user)
{
	const struct braid_probe_arg *arg = &p->probe.args[at];
	u64 value = braid_hit_base(p, at, regs), word;
	u32 k, bytes;

	*is_user = false;
	for (k = 0; k < arg->nr_reads; k++) {
		bool last = k + 1 == arg->nr_reads;

		value += arg->offsets[k];
		*is_user = braid_hit_is_user(&p->probe, arg, k, value);
		if (last && arg->type == BRAID_PROBE_STRING)
			break;
		bytes = last ? braid_probe_bytes(arg->type) : sizeof(word);
		word = 0;
		if (!braid_hit_read(&word, value, bytes, *is_user, braid_probe_is_user(&p->probe)))
			return 0;
		value = word;
	}
	return value;
}

/* Return: bytes of all strings. */
static u32 braid_hit_fetch(const struct braid_probe_event *p, struct pt_regs *regs,
			   struct fetched *f, u32 *users)
{
	u32 k, bytes = 0;
	bool user;

	*users = 0;
	for (k = 0; k < p->probe.nr_args; k++) {
		const struct braid_probe_arg *arg = &p->probe.args[k];

		f->values[k] = braid_hit_value(p, k, regs, &user);
		if (arg->type != BRAID_PROBE_STRING)
			continue;
		*users |= user << k;
		f->bytes[k] = arg->base == BRAID_PROBE_COMM ?
			      strnlen(current->comm, sizeof(current->comm) - 1) + 1 :
			      braid_hit_measure(f->values[k], user, braid_probe_is_user(&p->probe));
		bytes += f->bytes[k] ?: sizeof(fault);
	}
	return bytes;
}

/* Writes a string at @at of the record. Return: its bytes. */
static u32 braid_hit_put_string(u8 *record, u32 at, u64 from, u32 bytes, bool user)
{
	u32 room = bytes ?: sizeof(fault);

	if (!bytes || !braid_hit_read(record + at, from, bytes, user, false)) {
		memset(record + at, 0, room);
		memcpy(record + at, fault, min_t(u32, room, sizeof(fault)));
	}
	record[at + room - 1] = 0;
	return room;
}

static void braid_hit_put(const struct braid_probe_event *p, const struct fetched *f, u32 users,
			  u8 *record)
{
	u32 k, tail = p->bytes, bytes, word;

	for (k = 0; k < p->probe.nr_args; k++) {
		if (p->probe.args[k].type != BRAID_PROBE_STRING) {
			memcpy(record + p->offsets[k], &f->values[k],
			       braid_probe_bytes(p->probe.args[k].type));
			continue;
		}
		bytes = braid_hit_put_string(record, tail, f->values[k], f->bytes[k],
					     users >> k & 1);
		word = bytes << DATA_LOC_SHIFT | tail;
		memcpy(record + p->offsets[k], &word, sizeof(word));
		tail += bytes;
	}
}

/* Names of kernel addresses that the record has. */
static void braid_hit_note(const struct braid_probe_event *p, const struct fetched *f,
			   unsigned long ip, unsigned long ret_ip)
{
	u32 k;

	for (k = 0; k < p->probe.nr_args; k++)
		if (p->probe.args[k].type == BRAID_PROBE_SYMBOL)
			braid_symbol_note(f->values[k]);
	if (braid_probe_is_user(&p->probe))
		return;
	braid_symbol_note(ip);
	if (ret_ip)
		braid_symbol_note(ret_ip);
}

void braid_probe_hit(struct braid_probe_event *p, struct pt_regs *regs, unsigned long ip,
		     unsigned long ret_ip)
{
	unsigned long pc = preempt_count();
	struct braid_slot slot;
	struct fetched f;
	u32 users, bytes;
	u64 *record;

	if (!smp_load_acquire(&p->on))
		return;
	bytes = p->bytes + braid_hit_fetch(p, regs, &f, &users);
	preempt_disable_notrace();
	record = braid_event_reserve(&p->ev, &slot, bytes, pc, true);
	if (record) {
		record[1] = ip;
		if (braid_probe_is_return(&p->probe))
			record[2] = ret_ip;
		braid_hit_put(p, &f, users, (u8 *)record);
		braid_event_commit(&slot);
		braid_hit_note(p, &f, ip, ret_ip);
	}
	preempt_enable_notrace();
}
