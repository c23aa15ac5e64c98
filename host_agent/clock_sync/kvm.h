/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What KVM exports of a guest's time: offsets in debugfs, changes by a tracepoint, vCPU threads. */
#ifndef BRAID_CLOCK_SYNC_KVM_H
#define BRAID_CLOCK_SYNC_KVM_H

#include <stddef.h>
#include <sys/types.h>

#include "host_agent/capture/chunk.h"
#include "host_agent/discover/discover.h"

struct braid_kvm_vm;
struct braid_kvm_watch;

/**
 * braid_kvm_open - find a QEMU's virtual machine in KVM's debugfs
 * @out: set on success
 * @pid: of the QEMU
 *
 * vCPUs are numbered as the guest's Linux does: in the order of their APIC ids.
 *
 * Return: 0, -ENOENT (it does not run on KVM, debugfs is not mounted, or its numbers of processes
 * are not ours), -EACCES (debugfs is root's), or -ENOMEM.
 */
int braid_kvm_open(struct braid_kvm_vm **out, pid_t pid);

/** braid_kvm_close - free; NULL is fine */
void braid_kvm_close(struct braid_kvm_vm *vm);

/** braid_kvm_vcpus - how many vCPUs it has */
u32 braid_kvm_vcpus(const struct braid_kvm_vm *vm);

/** braid_kvm_thread - a vCPU's thread of this host, or 0 when it is not known */
pid_t braid_kvm_thread(const struct braid_kvm_vm *vm, u32 vcpu);

/**
 * braid_vcpu_threads - find the threads of a QEMU's vCPUs, by KVM or by their names
 * @pid: of the QEMU
 * @to: filled; nr and all are 0 when unknown
 */
void braid_vcpu_threads(pid_t pid, struct braid_qemu_threads *to);

/**
 * braid_kvm_offset - read a vCPU's offset and scaling
 * @vm: the machine
 * @vcpu: below braid_kvm_vcpus()
 * @to: vcpu, offset, ratio and ratio_bits are set
 *
 * Return: 0, or -errno: it has none, or is gone.
 */
int braid_kvm_offset(const struct braid_kvm_vm *vm, u32 vcpu, struct braid_clock_offset *to);

/**
 * braid_kvm_exits - number of VM exits up to now
 * @vm: the machine
 * @exits: set on success; of all vCPUs together
 *
 * Return: 0, or -errno: not available from KVM, or it is gone.
 */
int braid_kvm_exits(const struct braid_kvm_vm *vm, u64 *exits);

/**
 * braid_kvm_stands - whether no vCPU is in KVM at this moment
 *
 * A guest that idles is in KVM; one that its QEMU paused is not. While QEMU serves an exit of
 * each vCPU it looks the same: ask twice. A few system calls for each vCPU.
 */
bool braid_kvm_stands(const struct braid_kvm_vm *vm);

/**
 * braid_kvm_enters - whether a vCPU is in KVM_RUN at some moment of this call
 *
 * No reset is in progress at that moment: a VMM stops all vCPUs for it. Sleeps for half a second at most.
 *
 * Return: true; false: not seen.
 */
bool braid_kvm_enters(const struct braid_kvm_vm *vm);

/* KVM wrote an offset. */
struct braid_kvm_change {
	pid_t tid;		/* the vCPU's thread; 0: the kernel lost some changes here */
	u64 host_counter;	/* when */
	u64 offset;		/* the new one */
};

/**
 * braid_kvm_watch_open - watch KVM's writes of offsets
 * @out: set on success
 *
 * Uses a tracefs instance of its own, "tracebraid-<pid>-clock", with one tracepoint.
 *
 * Return: 0, or -errno: no KVM here, no tracefs, no permission.
 */
int braid_kvm_watch_open(struct braid_kvm_watch **out);

/**
 * braid_kvm_watch_poll - read new changes, a bounded number; one read() when there are none
 *
 * Return: whether these are all that KVM made before the call.
 */
bool braid_kvm_watch_poll(struct braid_kvm_watch *w);

/**
 * braid_kvm_watch_next - the changes since the last call
 * @w: the watch; NULL: none
 * @at: the caller's place in them, from 0
 *
 * Return: a change, or NULL; good until the next poll.
 */
const struct braid_kvm_change *braid_kvm_watch_next(const struct braid_kvm_watch *w, size_t *at);

/**
 * braid_kvm_watch_missed - whether the caller missed some of the changes
 * @w: the watch; NULL: none
 * @at: the caller's place
 */
bool braid_kvm_watch_missed(const struct braid_kvm_watch *w, size_t at);

/** braid_kvm_watch_close - remove the instance and free; NULL is fine */
void braid_kvm_watch_close(struct braid_kvm_watch *w);

#endif /* BRAID_CLOCK_SYNC_KVM_H */
