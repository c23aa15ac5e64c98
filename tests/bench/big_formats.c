// SPDX-License-Identifier: GPL-2.0-or-later
/* The kernels' format texts of these events: long lists of names are part of their cost. */
#include <stdio.h>

#include "tests/bench/big_formats.h"
#include "tests/unit/need.h"

#define FIELD_(type_name, offset, size, sign) \
	"\tfield:" type_name ";\toffset:" #offset ";\tsize:" #size ";\tsigned:" #sign ";\n"

static const char head[] =
	FIELD_("unsigned short common_type", 0, 2, 0)
	FIELD_("unsigned char common_flags", 2, 1, 0)
	FIELD_("unsigned char common_preempt_count", 3, 1, 0)
	FIELD_("int common_pid", 4, 4, 1);

/* Bits of a task's state that are reported, and the bit above them. */
#define STATES	"(0x0000 | 0x0001 | 0x0002 | 0x0004 | 0x0008 | 0x0010 | 0x0020 | 0x0040)"
#define REPORTED "REC->prev_state & (((" STATES " + 1) << 1) - 1)"

#define EXIT_REASONS \
	"{ 0, \"EXCEPTION_NMI\" }, { 1, \"EXTERNAL_INTERRUPT\" }, { 2, \"TRIPLE_FAULT\" }, " \
	"{ 3, \"INIT_SIGNAL\" }, { 7, \"INTERRUPT_WINDOW\" }, { 8, \"NMI_WINDOW\" }, " \
	"{ 9, \"TASK_SWITCH\" }, { 10, \"CPUID\" }, { 12, \"HLT\" }, { 13, \"INVD\" }, " \
	"{ 14, \"INVLPG\" }, { 15, \"RDPMC\" }, { 16, \"RDTSC\" }, { 18, \"VMCALL\" }, " \
	"{ 19, \"VMCLEAR\" }, { 20, \"VMLAUNCH\" }, { 24, \"VMRESUME\" }, { 28, \"CR_ACCESS\" }, " \
	"{ 29, \"DR_ACCESS\" }, { 30, \"IO_INSTRUCTION\" }, { 31, \"MSR_READ\" }, " \
	"{ 32, \"MSR_WRITE\" }, { 36, \"MWAIT_INSTRUCTION\" }, { 40, \"PAUSE_INSTRUCTION\" }, " \
	"{ 44, \"APIC_ACCESS\" }, { 45, \"EOI_INDUCED\" }, { 48, \"EPT_VIOLATION\" }, " \
	"{ 49, \"EPT_MISCONFIG\" }, { 52, \"PREEMPTION_TIMER\" }, { 54, \"WBINVD\" }, " \
	"{ 55, \"XSETBV\" }, { 56, \"APIC_WRITE\" }, { 58, \"INVPCID\" }, { 62, \"PML_FULL\" }"

#define SVM_REASONS \
	"{ 0x060, \"interrupt\" }, { 0x061, \"nmi\" }, { 0x064, \"vintr\" }, " \
	"{ 0x072, \"cpuid\" }, { 0x077, \"pause\" }, " \
	"{ 0x078, \"hlt\" }, { 0x07b, \"io\" }, { 0x07c, \"msr\" }, " \
	"{ 0x400, \"npf\" }, { 0x401, \"avic_incomplete_ipi\" }, { -1, \"invalid_guest_state\" }"

#define MODES \
	"{ 0x00, \"ABS\" }, { 0x01, \"REL\" }, { 0x02, \"ABS|PINNED\" }, " \
	"{ 0x03, \"REL|PINNED\" }, " \
	"{ 0x04, \"ABS|SOFT\" }, { 0x05, \"REL|SOFT\" }, { 0x08, \"ABS|HARD\" }, " \
	"{ 0x09, \"REL|HARD\" }, { 0x0a, \"ABS|PINNED|HARD\" }, { 0x0b, \"REL|PINNED|HARD\" }"

const struct big_format big_formats[BIG_FORMATS] = {
	[BIG_SWITCH] = {
		"sched", "sched_switch",
		FIELD_("char prev_comm[16]", 8, 16, 0) FIELD_("pid_t prev_pid", 24, 4, 1)
		FIELD_("int prev_prio", 28, 4, 1) FIELD_("long prev_state", 32, 8, 1)
		FIELD_("char next_comm[16]", 40, 16, 0) FIELD_("pid_t next_pid", 56, 4, 1)
		FIELD_("int next_prio", 60, 4, 1),
		"\"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> "
		"next_comm=%s next_pid=%d next_prio=%d\", REC->prev_comm, REC->prev_pid, "
		"REC->prev_prio, (" REPORTED ") ? __print_flags(" REPORTED ", \"|\", "
		"{ 0x0001, \"S\" }, { 0x0002, \"D\" }, { 0x0004, \"T\" }, { 0x0008, \"t\" }, "
		"{ 0x0010, \"X\" }, { 0x0020, \"Z\" }, { 0x0040, \"P\" }, { 0x0080, \"I\" }) : "
		"\"R\", "
		"REC->prev_state & ((" STATES " + 1) << 1) ? \"+\" : \"\", "
		"REC->next_comm, REC->next_pid, REC->next_prio",
	},
	[BIG_WAKEUP] = {
		"sched", "sched_wakeup",
		FIELD_("char comm[16]", 8, 16, 0) FIELD_("pid_t pid", 24, 4, 1)
		FIELD_("int prio", 28, 4, 1) FIELD_("int target_cpu", 32, 4, 1),
		"\"comm=%s pid=%d prio=%d target_cpu=%03d\", REC->comm, REC->pid, REC->prio, "
		"REC->target_cpu",
	},
	[BIG_RUNTIME] = {
		"sched", "sched_stat_runtime",
		FIELD_("__data_loc char[] comm", 8, 4, 0) FIELD_("pid_t pid", 12, 4, 1)
		FIELD_("u64 runtime", 16, 8, 0),
		"\"comm=%s pid=%d runtime=%Lu [ns]\", __get_str(comm), REC->pid, "
		"(unsigned long long)REC->runtime",
	},
	[BIG_IRQ_ENTRY] = {
		"irq", "irq_handler_entry",
		FIELD_("int irq", 8, 4, 1) FIELD_("__data_loc char[] name", 12, 4, 0),
		"\"irq=%d name=%s\", REC->irq, __get_str(name)",
	},
	[BIG_IRQ_EXIT] = {
		"irq", "irq_handler_exit",
		FIELD_("int irq", 8, 4, 1) FIELD_("int ret", 12, 4, 1),
		"\"irq=%d ret=%s\", REC->irq, REC->ret ? \"handled\" : \"unhandled\"",
	},
	[BIG_SOFTIRQ] = {
		"irq", "softirq_entry",
		FIELD_("unsigned int vec", 8, 4, 0),
		"\"vec=%u [action=%s]\", REC->vec, __print_symbolic(REC->vec, { 0, \"HI\" }, "
		"{ 1, \"TIMER\" }, { 2, \"NET_TX\" }, { 3, \"NET_RX\" }, { 4, \"BLOCK\" }, "
		"{ 5, \"IRQ_POLL\" }, { 6, \"TASKLET\" }, { 7, \"SCHED\" }, { 8, \"HRTIMER\" }, "
		"{ 9, \"RCU\" })",
	},
	[BIG_SYS_ENTER] = {
		"raw_syscalls", "sys_enter",
		FIELD_("long id", 8, 8, 1) FIELD_("unsigned long args[6]", 16, 48, 0),
		"\"NR %ld (%lx, %lx, %lx, %lx, %lx, %lx)\", REC->id, REC->args[0], REC->args[1], "
		"REC->args[2], REC->args[3], REC->args[4], REC->args[5]",
	},
	[BIG_SYS_EXIT] = {
		"raw_syscalls", "sys_exit",
		FIELD_("long id", 8, 8, 1) FIELD_("long ret", 16, 8, 1),
		"\"NR %ld = %ld\", REC->id, REC->ret",
	},
	[BIG_TIMER_START] = {
		"timer", "hrtimer_start",
		FIELD_("void * hrtimer", 8, 8, 0) FIELD_("void * function", 16, 8, 0)
		FIELD_("s64 expires", 24, 8, 1) FIELD_("s64 softexpires", 32, 8, 1)
		FIELD_("enum hrtimer_mode mode", 40, 4, 0),
		"\"hrtimer=%p function=%ps expires=%llu softexpires=%llu mode=%s\", REC->hrtimer, "
		"REC->function, (unsigned long long) REC->expires, "
		"(unsigned long long) REC->softexpires, __print_symbolic(REC->mode, " MODES ")",
	},
	[BIG_TIMER_EXPIRE] = {
		"timer", "hrtimer_expire_entry",
		FIELD_("void * hrtimer", 8, 8, 0) FIELD_("s64 now", 16, 8, 1)
		FIELD_("void * function", 24, 8, 0),
		"\"hrtimer=%p function=%ps now=%llu\", REC->hrtimer, REC->function, "
		"(unsigned long long) REC->now",
	},
	[BIG_KVM_ENTRY] = {
		"kvm", "kvm_entry",
		FIELD_("unsigned int vcpu_id", 8, 4, 0) FIELD_("unsigned long rip", 16, 8, 0)
		FIELD_("bool immediate_exit", 24, 1, 0),
		"\"vcpu %u, rip 0x%lx%s\", REC->vcpu_id, REC->rip, "
		"REC->immediate_exit ? \"[immediate exit]\" : \"\"",
	},
	[BIG_KVM_EXIT] = {
		"kvm", "kvm_exit",
		FIELD_("unsigned int exit_reason", 8, 4, 0)
		FIELD_("unsigned long guest_rip", 16, 8, 0)
		FIELD_("u32 isa", 24, 4, 0) FIELD_("u64 info1", 32, 8, 0)
		FIELD_("u64 info2", 40, 8, 0)
		FIELD_("u32 intr_info", 48, 4, 0) FIELD_("u32 error_code", 52, 4, 0)
		FIELD_("unsigned int vcpu_id", 56, 4, 0),
		"\"vcpu %u reason %s%s%s rip 0x%lx info1 0x%016llx info2 0x%016llx "
		"intr_info 0x%08x error_code 0x%08x\", REC->vcpu_id, (REC->isa == 1) ? "
		"__print_symbolic(REC->exit_reason & 0xffff, " EXIT_REASONS ") : "
		"__print_symbolic(REC->exit_reason, " SVM_REASONS "), "
		"(REC->isa == 1 && REC->exit_reason & ~0xffff) ? \" \" : \"\", (REC->isa == 1) ? "
		"__print_flags(REC->exit_reason & ~0xffff, \" \", "
		"{ 0x80000000, \"FAILED_VMENTRY\" }) : \"\", REC->guest_rip, REC->info1, "
		"REC->info2, REC->intr_info, REC->error_code",
	},
	[BIG_MIGRATE] = {
		"sched", "sched_migrate_task",
		FIELD_("char comm[16]", 8, 16, 0) FIELD_("pid_t pid", 24, 4, 1)
		FIELD_("int prio", 28, 4, 1) FIELD_("int orig_cpu", 32, 4, 1)
		FIELD_("int dest_cpu", 36, 4, 1),
		"\"comm=%s pid=%d prio=%d orig_cpu=%d dest_cpu=%d\", REC->comm, REC->pid, "
		"REC->prio, REC->orig_cpu, REC->dest_cpu",
	},
	[BIG_ONLINE] = {
		"tracebraid", "cpu_online",
		FIELD_("unsigned int cpu", 8, 4, 0) FIELD_("unsigned int online", 12, 4, 0),
		"\"cpu=%u online=%u\", REC->cpu, REC->online",
	},
	[BIG_SAMPLE] = {
		"sample", "cpu",
		FIELD_("unsigned long ip", 8, 8, 0) FIELD_("unsigned int missed", 16, 4, 0)
		FIELD_("unsigned short user", 20, 2, 0) FIELD_("unsigned short ends", 22, 2, 0)
		FIELD_("__data_loc unsigned long[] stack", 24, 4, 0)
		FIELD_("__data_loc unsigned long[] user_stack", 28, 4, 0)
		FIELD_("unsigned long space", 32, 8, 0) FIELD_("unsigned int late_ns", 40, 4, 0),
		"\"ip=%pS user=%u\", (void *)REC->ip, REC->user",
	},
	[BIG_MAPPING] = {
		"sample", "mapping",
		FIELD_("unsigned long space", 8, 8, 0) FIELD_("unsigned long start", 16, 8, 0)
		FIELD_("unsigned long end", 24, 8, 0) FIELD_("unsigned long offset", 32, 8, 0)
		FIELD_("__data_loc char[] path", 44, 4, 0) FIELD_("unsigned int id_bytes", 48, 4, 0)
		FIELD_("unsigned char build_id[20]", 52, 20, 0),
		"\"path=%s\", __get_str(path)",
	},
	[BIG_STACK] = {
		"ftrace", "kernel_stack",
		FIELD_("int size", 8, 4, 1) FIELD_("unsigned long caller[8]", 16, 64, 0),
		"\"%pS\", (void *)REC->caller[0]",
	},
};

size_t big_format_text(enum big_event event, u16 id, char *to, size_t room)
{
	const struct big_format *f = &big_formats[event];
	int n = snprintf(to, room, "name: %s\nID: %u\nformat:\n%s\n%s\nprint fmt: %s\n", f->name,
			 id, head, f->fields, f->print);

	NEED(n > 0 && (size_t)n < room);
	return n;
}
