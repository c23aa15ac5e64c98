/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds regions on this machine, and their owners.
 *
 * Invariants:
 * - braid_discover() changes no region. Only region_file.h writes to files, for `attach` and `create`.
 * - braid_discover() knows a file's owner before it reads a byte. Of an untrusted file (docs/threat-model.md) it
 *   reads the first eight bytes only. Such a file has no name, and only its path selects it.
 * - braid_resolve() alone turns a word into a region's file. Names given by the host take precedence over names that
 *   guests choose; a name that two regions have is refused.
 * - A guest's words are loaded once and checked. Names are sanitized; paths are not, because they open files.
 * - A separate process, not confined, asks libvirt for its domains and their events, and reads eight bytes of a file
 *   at most. Attaching and detaching call libvirt in the caller's process. A libvirt on another host is refused.
 */
#ifndef BRAID_DISCOVER_DISCOVER_H
#define BRAID_DISCOVER_DISCOVER_H

#include <sys/types.h>

#include "host_agent/transport/directory.h"
#include "host_agent/transport/transport.h"

#define BRAID_GUEST_NAME_BYTES	64	/* as braid_chunk_stream.name */

/*
 * A file that a running QEMU shares with its guest. Other VMMs count as QEMUs, and any process that
 * maps KVM's vCPUs is one: see docs/vmm.md.
 */
struct braid_shared_file {
	char path[256];				/* as this process opens it */
	dev_t device;
	ino_t inode;
	pid_t pid;
	uid_t uid;				/* user who started it */
	bool elsewhere;				/* in another mount namespace: below /proc/PID/root */
	bool ivshmem;				/* its command line gives the guest this file by ivshmem */
	char guest[BRAID_GUEST_NAME_BYTES];	/* QEMU's -name, or "" */
};

/**
 * braid_qemu_files - files that this machine's QEMUs map shared
 * @files: set on success; free()
 * @nr: their number
 *
 * Processes that this user may not inspect are skipped.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_qemu_files(struct braid_shared_file **files, size_t *nr);

/**
 * braid_qemu_keep - keep the files that QEMUs share within reach
 * @writable: for a process that is to drain them
 *
 * Files of other mount namespaces are opened; where the others are, braid_landlock_allow() lets
 * files be written.
 *
 * For a process that is about to be confined: no path leads it there any more. The files that a QEMU of
 * another namespace maps later are not found.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_qemu_keep(bool writable);

/**
 * braid_is_vmm - whether a process runs a guest
 * @pid: of this host
 * @cmdline: its command line, of which the program's name counts if it maps no vCPU of KVM
 */
bool braid_is_vmm(pid_t pid, const char *cmdline);

/* What a process looks like; see docs/vmm.md. */
struct braid_vmm {
	bool has_vcpu;				/* it maps a vCPU of KVM */
	bool by_name;				/* its program has a VMM's name, or a tool's */
	char program[64];
	char name[BRAID_GUEST_NAME_BYTES];	/* of -name, or "" */
};

/** braid_vmm_of - examine a process. Return: 0, or -ENOMEM with braid_fail() */
int braid_vmm_of(pid_t pid, struct braid_vmm *vmm);

/**
 * braid_qemu_of - the QEMU that maps a file shared
 * @device: of the file
 * @inode: of the file
 *
 * Calls at about the same time share one scan of all processes. Not thread safe.
 *
 * Return: its pid, or 0: unknown.
 */
pid_t braid_qemu_of(dev_t device, ino_t inode);

/**
 * braid_process_users - the users of a process
 * @pid: of this host
 * @real: set to the user who started it
 * @effective: set to the user whose rights it has
 *
 * Owners in /proc are less precise: files of an undumpable process belong to root.
 *
 * Return: whether it is known.
 */
bool braid_process_users(pid_t pid, uid_t *real, uid_t *effective);

#define BRAID_QEMU_VCPUS	512u	/* with known threads */

/* The threads of this host that run a QEMU's vCPUs. */
struct braid_qemu_threads {
	size_t nr;			/* vCPUs, as far as is known */
	pid_t of[BRAID_QEMU_VCPUS];	/* 0: not known */
	pid_t all;			/* runs all vCPUs in turn (TCG, thread=single); 0: none */
};

/**
 * braid_pids_of_host - whether processes have the numbers here that the host's trace and KVM's
 * debugfs give them
 *
 * Return: false in a PID namespace of its own: numbers there are those of other processes.
 */
bool braid_pids_of_host(void);

/**
 * braid_process_threads - the threads of a process
 * @pid: of this host
 * @tids: filled
 * @room: of @tids; further ones are left out
 *
 * Return: their number; 0: no such process.
 */
size_t braid_process_threads(pid_t pid, pid_t *tids, size_t room);

/**
 * braid_qemu_threads - find the threads of vCPUs by their names
 * @pid: of a QEMU that names them: -name debug-threads=on, which libvirt sets; or of a VMM that
 *	always does
 * @to: filled; nr and all are 0 when no thread is named so
 *
 * braid_vcpu_threads() also knows those that KVM reports.
 */
void braid_qemu_threads(pid_t pid, struct braid_qemu_threads *to);

/* A thread's scheduler times up to now, in ns. */
struct braid_thread_times {
	u64 run_ns;
	u64 wait_ns;		/* it could have run, and another one did */
};

/**
 * braid_thread_times - read a thread's scheduler times
 * @tid: of this host
 * @times: filled on success
 *
 * Return: 0, or -errno: no such thread, or no permission.
 */
int braid_thread_times(pid_t tid, struct braid_thread_times *times);

enum braid_driver_state {
	BRAID_DRIVER_NONE,	/* never loaded */
	BRAID_DRIVER_STARTING,
	BRAID_DRIVER_LIVE,
	BRAID_DRIVER_SILENT,	/* state LIVE, but its heartbeat has stopped */
	BRAID_DRIVER_DOWN,
	BRAID_DRIVER_UNREADABLE,	/* see error and why */
};

/** braid_driver_state_name - "live", ... */
const char *braid_driver_state_name(enum braid_driver_state state);

/* A region that was found. */
struct braid_found {
	char path[256];
	char name[BRAID_GUEST_NAME_BYTES];	/* QEMU's, or the guest's if unique, or the file's; "": untrusted */
	char given[BRAID_GUEST_NAME_BYTES];	/* QEMU's -name, or "" */
	bool marked;				/* NONE: the driver may use it */
	bool untrusted;				/* UNREADABLE, and not read */
	bool ended;				/* SILENT or untrusted, and no running QEMU maps it */
	pid_t qemu_pid;				/* 0: not known */
	enum braid_driver_state state;
	int error;				/* UNREADABLE: -errno ... */
	char why[256];				/* ... and its line */
	struct braid_superblock sb;		/* SILENT, LIVE, DOWN: valid; else zero */
	struct braid_event_count events;
	u32 fill_permille[BRAID_MAX_BUFFERS];	/* of the buffer's bytes, unread */
	dev_t device;
	ino_t inode;
	uid_t uid;				/* of the file, as its mode */
	mode_t mode;
};

#define BRAID_DISCOVER_LIVENESS	(1u << 0)	/* wait up to 1 s to distinguish LIVE from SILENT */
#define BRAID_DISCOVER_OWNERS	(1u << 1)	/* a file can be untrusted even if it is in @paths */

/**
 * braid_discover - find regions
 * @found: set on success; free()
 * @nr: their number
 * @paths: check only these, whatever they are; when NULL, all of /dev/shm and the files that
 *	running QEMUs share, of which only regions and marked files are reported
 * @nr_paths: their number
 * @flags: BRAID_DISCOVER_*
 * @denied: set on success to the number of files that this user may not read; may be NULL
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_discover(struct braid_found **found, size_t *nr, const char *const *paths,
		   size_t nr_paths, u32 flags, size_t *denied);

/* A word that names a region. */
struct braid_named {
	const char *word;
	char path[256];		/* set on success */
};

/**
 * braid_resolve - resolve names to files
 * @named: the words
 * @nr: their number
 *
 * A word with a slash is a path, and pid:PID is the memory of a process. Any other is a name given
 * by the host: QEMU's, the file's in /dev/shm or in this folder, that of a domain set up by attach;
 * else a guest's own name.
 *
 * Return: 0, or -errno with braid_fail(): -ENOENT: none found; -EPERM: it is untrusted;
 * -ENOTUNIQ: there are several.
 */
int braid_resolve(struct braid_named *named, size_t nr);

/**
 * braid_split_name - split an option's value, PLACE[,name=NAME]
 * @argument: the value
 * @place: set
 * @name: set to the sanitized name; "": none
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_split_name(const char *argument, char place[256], char name[BRAID_GUEST_NAME_BYTES]);

/**
 * braid_mapping_fill - how full a buffer's rings are
 * @m: the mapping, under braid_guard_run()
 * @sb: the validated copy of its superblock
 * @buffer: its index, of an entry in use
 *
 * Return: unread bytes as permille of what the rings hold, rounded up.
 */
u32 braid_mapping_fill(const struct braid_mapping *m, const struct braid_superblock *sb,
		       u32 buffer);

#endif /* BRAID_DISCOVER_DISCOVER_H */
