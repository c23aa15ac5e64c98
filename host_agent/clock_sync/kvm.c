// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads KVM's debugfs and the threads of a virtual machine. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/clock_sync/kvm.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/peek.h"

#define DEBUGFS		"/sys/kernel/debug/kvm"
#define ENTERS_TRIES	100
#define ENTERS_STEP_NS	5000000
#define KVM_RUN		0xae80		/* the ioctl that a vCPU's thread spends its life in */

struct kvm_vcpu {
	u32 id;			/* KVM's, on x86 the APIC id */
	pid_t tid;		/* or 0 */
	u64 ratio;
	u32 ratio_bits;		/* 0: not scaled */
};

struct braid_kvm_vm {
	pid_t pid;
	char dir[64];		/* of the machine in debugfs */
	struct kvm_vcpu *vcpus;	/* by id */
	size_t nr_vcpus, capacity;
};

static ssize_t read_text(const char *path, char *to, size_t room)
{
	braid_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, to, room - 1);

	if (n < 0)
		return -errno;
	to[n] = 0;
	return n;
}

/* Such a file can be read only once per open(). */
static int read_number_at(const char *path, u64 *value)
{
	char text[32];
	ssize_t n;

	n = read_text(path, text, sizeof(text));
	if (n <= 0)
		return n ? (int)n : -ENODATA;
	*value = *text == '-' ? (u64)strtoll(text, NULL, 10) : strtoull(text, NULL, 10);
	return 0;
}

static int read_number(const struct braid_kvm_vm *vm, u32 id, const char *file, u64 *value)
{
	char path[128];

	snprintf(path, sizeof(path), DEBUGFS "/%s/vcpu%u/%s", vm->dir, id, file);
	return read_number_at(path, value);
}

/* "<pid>-<fd>"; of a QEMU with several machines the first. */
static int find_machine(struct braid_kvm_vm *vm)
{
	braid_auto_dir DIR *dir = NULL;
	struct dirent *entry;
	char *end;

	if (!braid_pids_of_host())
		return -ENOENT;
	dir = opendir(DEBUGFS);
	if (!dir)
		return errno == EACCES || errno == EPERM ? -EACCES : -ENOENT;
	while ((entry = readdir(dir))) {
		if (strtol(entry->d_name, &end, 10) != vm->pid || *end != '-' ||
		    strlen(entry->d_name) >= sizeof(vm->dir))
			continue;
		strcpy(vm->dir, entry->d_name);
		return 0;
	}
	return -ENOENT;
}

/* Kernels before 6.0 don't report it. */
static pid_t find_thread(const struct braid_kvm_vm *vm, u32 id)
{
	u64 value;

	return read_number(vm, id, "pid", &value) ? 0 : (pid_t)value;
}

/* QEMU numbers its vCPUs in the order of their APIC ids, which may have gaps. */
static void name_threads(struct braid_kvm_vm *vm)
{
	struct braid_qemu_threads named;
	size_t k;

	for (k = 0; k < vm->nr_vcpus && vm->vcpus[k].tid; k++)
		;
	if (k == vm->nr_vcpus)
		return;
	braid_qemu_threads(vm->pid, &named);
	for (k = 0; k < vm->nr_vcpus && k < named.nr; k++)
		if (!vm->vcpus[k].tid)
			vm->vcpus[k].tid = named.of[k];
}

static int by_id(const void *a, const void *b)
{
	const struct kvm_vcpu *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static int add_vcpu(struct braid_kvm_vm *vm, u32 id)
{
	struct kvm_vcpu vcpu = { .id = id, .tid = find_thread(vm, id) };
	u64 bits;

	if (!read_number(vm, id, "tsc-scaling-ratio", &vcpu.ratio) &&
	    !read_number(vm, id, "tsc-scaling-ratio-frac-bits", &bits) && bits && bits < 64 &&
	    vcpu.ratio != 1ULL << bits)
		vcpu.ratio_bits = bits;
	return braid_array_push(vm->vcpus, vm->nr_vcpus, vm->capacity, vcpu);
}

static int find_vcpus(struct braid_kvm_vm *vm)
{
	braid_auto_dir DIR *dir = NULL;
	struct dirent *entry;
	char path[128];
	int err = 0;

	snprintf(path, sizeof(path), DEBUGFS "/%s", vm->dir);
	dir = opendir(path);
	while (dir && !err && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, "vcpu", 4) && isdigit((unsigned char)entry->d_name[4]))
			err = add_vcpu(vm, atoi(entry->d_name + 4));
	if (vm->nr_vcpus)
		qsort(vm->vcpus, vm->nr_vcpus, sizeof(*vm->vcpus), by_id);
	name_threads(vm);
	return err || vm->nr_vcpus ? err : -ENOENT;
}

int braid_kvm_open(struct braid_kvm_vm **out, pid_t pid)
{
	struct braid_kvm_vm *vm = calloc(1, sizeof(*vm));
	int err;

	if (!vm)
		return -ENOMEM;
	vm->pid = pid;
	err = find_machine(vm);
	if (!err)
		err = find_vcpus(vm);
	if (err) {
		braid_kvm_close(vm);
		return err;
	}
	*out = vm;
	return 0;
}

void braid_kvm_close(struct braid_kvm_vm *vm)
{
	if (!vm)
		return;
	free(vm->vcpus);
	free(vm);
}

u32 braid_kvm_vcpus(const struct braid_kvm_vm *vm)
{
	return vm->nr_vcpus;
}

pid_t braid_kvm_thread(const struct braid_kvm_vm *vm, u32 vcpu)
{
	return vcpu < vm->nr_vcpus ? vm->vcpus[vcpu].tid : 0;
}

void braid_vcpu_threads(pid_t pid, struct braid_qemu_threads *to)
{
	struct braid_kvm_vm *vm = NULL;
	size_t k;

	braid_qemu_threads(pid, to);
	if (braid_kvm_open(&vm, pid))
		return;
	for (k = 0; k < vm->nr_vcpus && k < BRAID_QEMU_VCPUS; k++)
		if (vm->vcpus[k].tid)
			to->of[k] = vm->vcpus[k].tid;
	to->nr = k > to->nr ? k : to->nr;
	braid_kvm_close(vm);
}

int braid_kvm_offset(const struct braid_kvm_vm *vm, u32 vcpu, struct braid_clock_offset *to)
{
	const struct kvm_vcpu *v = &vm->vcpus[vcpu];
	int err = read_number(vm, v->id, "tsc-offset", &to->offset);

	if (err)
		return err;
	to->vcpu = vcpu;
	to->ratio = v->ratio_bits ? v->ratio : 0;
	to->ratio_bits = v->ratio_bits;
	return 0;
}

int braid_kvm_exits(const struct braid_kvm_vm *vm, u64 *exits)
{
	char path[128];

	snprintf(path, sizeof(path), DEBUGFS "/%s/exits", vm->dir);
	return read_number_at(path, exits);
}

enum where { KVM_IN, KVM_OUT, KVM_UNKNOWN };

/* Where a vCPU's thread is. Of one that is on a CPU it is not known. */
static enum where where_is(const struct braid_kvm_vm *vm, const struct kvm_vcpu *v)
{
	unsigned long long number, fd, request;
	char text[128];

	if (!v->tid || braid_peek_syscall(vm->pid, v->tid, text, sizeof(text)))
		return KVM_UNKNOWN;
	if (sscanf(text, "%llu %llx %llx", &number, &fd, &request) != 3)
		return KVM_UNKNOWN;	/* "running" */
	return request == KVM_RUN ? KVM_IN : KVM_OUT;
}

bool braid_kvm_stands(const struct braid_kvm_vm *vm)
{
	size_t k;

	for (k = 0; k < vm->nr_vcpus; k++)
		if (where_is(vm, &vm->vcpus[k]) != KVM_OUT)
			return false;
	return true;
}

bool braid_kvm_enters(const struct braid_kvm_vm *vm)
{
	const struct timespec step = { .tv_nsec = ENTERS_STEP_NS };
	u64 before, now;
	size_t k, tries;

	if (braid_kvm_exits(vm, &before))
		return false;
	for (tries = 0; tries < ENTERS_TRIES; tries++) {
		for (k = 0; k < vm->nr_vcpus; k++)
			if (where_is(vm, &vm->vcpus[k]) == KVM_IN)
				return true;
		nanosleep(&step, NULL);
		if (!braid_kvm_exits(vm, &now) && now > before)
			return true;
	}
	return false;
}
