// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads from /proc what files the running QEMUs, and other VMMs, share with their guests. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "host_agent/discover/discover.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/folder.h"
#include "host_agent/util/landlock.h"
#include "host_agent/util/monotonic.h"
#include "host_agent/util/peek.h"
#include "host_agent/util/text.h"

#define CMDLINE_BYTES	(128 * 1024)
#define KVM_VCPU	"anon_inode:kvm-vcpu"	/* what a VMM maps of each vCPU */
#define SCAN_NS		50000000ULL	/* a scan of all processes is valid for this long ... */
#define SCAN_SHARE	10		/* ... or for this multiple of its duration */

struct found_files {
	struct braid_shared_file *items;
	size_t nr;
	size_t capacity;
};

/*
 * Whether a program's name is that of a VMM which can give a guest a region (docs/vmm.md). Emulation
 * leaves no other trace; a VMM that uses KVM is found by the vCPUs that it maps, whatever its name.
 */
static bool is_vmm_name(const char *cmdline)
{
	static const char *const names[] = { "qemu", "cloud-hypervisor", "crosvm", "firecracker" };
	const char *base = braid_folder_name(cmdline);
	size_t k;

	for (k = 0; k < sizeof(names) / sizeof(*names); k++)
		if (strstr(base, names[k]))
			return true;
	return !strcmp(base, "kvm") || !strncmp(base, "kvm-", 4);
}

/* The command line, arguments separated by NUL, and ended by two. */
static size_t read_cmdline(pid_t pid, char *to, size_t room)
{
	braid_auto_file FILE *f = NULL;
	char path[64];
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(to, 1, room - 2, f);
	to[n] = to[n + 1] = 0;
	return n;
}

/* The value of an option -name, in the next argument or behind "="; NULL: it is another option. */
static const char *name_option(const char *arg)
{
	if (strncmp(arg, "-name", 5) && strncmp(arg++, "--name", 6))
		return NULL;
	arg += 5;
	return !*arg || *arg == '=' ? arg + 1 : NULL;
}

/* "-name X", "-name guest=X,...", "-name X,..." or "--name=X" */
static void find_name(const char *cmdline, size_t bytes, char *name)
{
	const char *arg = cmdline, *value;
	size_t n;

	*name = 0;
	for (; arg < cmdline + bytes; arg += strlen(arg) + 1) {
		value = name_option(arg);
		if (!value)
			continue;
		arg = value;
		value = strncmp(arg, "guest=", 6) ? strstr(arg, ",guest=") : arg + 6;
		if (value && *value == ',')
			value += 7;
		if (!value)
			value = arg;
		/* In QEMU's options a comma is escaped by doubling it. */
		for (n = 0; *value && n < BRAID_GUEST_NAME_BYTES - 1; name[n++] = *value++)
			if (*value == ',' && *++value != ',')
				break;
		name[n] = 0;
		braid_text_clean(name);
		return;
	}
}

/*
 * The value of a key in an argument, as "key=VALUE" or as JSON; NULL: none. @bytes: of the value.
 * Paths with a comma or a quotation mark are not supported.
 */
static const char *qemu_value_of(const char *arg, const char *key, size_t *bytes)
{
	size_t n = strlen(key);
	const char *at;

	for (at = strstr(arg, key); at; at = strstr(at + 1, key)) {
		if (at == arg || !strchr(",{\"", at[-1]))
			continue;
		if (at[n] == '=')
			at += n + 1;
		else if (!strncmp(at + n, "\":\"", 3))
			at += n + 3;
		else
			continue;
		*bytes = strcspn(at, ",\"");
		return at;
	}
	return NULL;
}

/* Whether a command line has an ivshmem device for a memory object. */
static bool has_ivshmem(const char *cmdline, size_t bytes, const char *id, size_t id_bytes)
{
	const char *arg, *value;
	size_t n;

	for (arg = cmdline; arg < cmdline + bytes; arg += strlen(arg) + 1) {
		if (!strstr(arg, "ivshmem-plain"))
			continue;
		value = qemu_value_of(arg, "memdev", &n);
		if (value && n == id_bytes && !memcmp(value, id, n))
			return true;
	}
	return false;
}

/* Whether a file is memory of an ivshmem device on its QEMU's command line. */
static bool is_ivshmem(const char *cmdline, size_t bytes, const char *path)
{
	const char *arg, *file, *id;
	size_t n, id_bytes;

	for (arg = cmdline; arg < cmdline + bytes; arg += strlen(arg) + 1) {
		file = qemu_value_of(arg, "mem-path", &n);
		if (!file || n != strlen(path) || memcmp(file, path, n))
			continue;
		id = qemu_value_of(arg, "id", &id_bytes);
		if (id && has_ivshmem(cmdline, bytes, id, id_bytes))
			return true;
	}
	return false;
}

static bool known(const struct found_files *files, pid_t pid, ino_t inode, dev_t device)
{
	size_t k;

	for (k = files->nr; k && files->items[k - 1].pid == pid; k--)
		if (files->items[k - 1].inode == inode && files->items[k - 1].device == device)
			return true;
	return false;
}

bool braid_process_users(pid_t pid, uid_t *real, uid_t *effective)
{
	braid_auto_file FILE *f = NULL;
	char line[256];

	snprintf(line, sizeof(line), "/proc/%d/status", (int)pid);
	f = fopen(line, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Uid: %u %u", real, effective) == 2)
			return true;
	return false;
}

/* One line of /proc/PID/maps. Return: whether it is a shared, writable mapping of a file. */
static bool parse_map(const char *line, struct braid_shared_file *file, bool *vcpu)
{
	unsigned int major_number, minor_number;
	unsigned long long inode;
	char mode[5];
	int at = 0;

	if (sscanf(line, "%*x-%*x %4s %*x %x:%x %llu %n", mode, &major_number, &minor_number, &inode,
		   &at) < 4 || !at)
		return false;
	*vcpu |= !strncmp(line + at, KVM_VCPU, strlen(KVM_VCPU));
	if (mode[1] != 'w' || mode[3] != 's' || line[at] != '/' ||
	    strlen(line + at) >= sizeof(file->path))
		return false;
	strcpy(file->path, line + at);
	file->device = makedev(major_number, minor_number);
	file->inode = inode;
	return true;
}

/*
 * Makes a file's path one of this process's: the one in maps is of the VMM's mount namespace, where
 * another file may have it. Where /proc has btrfs' own number of the device, stat()'s replaces it.
 */
static void locate(struct braid_shared_file *file)
{
	const char *kept = braid_mapping_kept(file->device, file->inode);
	char path[sizeof(file->path) + 32];
	struct stat here, there;
	bool same;

	if (kept) {
		strcpy(file->path, kept);
		return;
	}
	same = !stat(file->path, &here) && here.st_ino == file->inode;
	if (same && here.st_dev == file->device)
		return;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)file->pid, file->path);
	if (stat(path, &there) || there.st_ino != file->inode)
		return;
	if (same && there.st_dev == here.st_dev) {
		file->device = here.st_dev;
	} else if (there.st_dev == file->device && strlen(path) < sizeof(file->path)) {
		file->elsewhere = true;
		strcpy(file->path, path);
	}
}

/* Reads one process's maps. Return: whether it maps a vCPU of KVM; or -ENOMEM with braid_fail(). */
static int read_maps(struct found_files *files, pid_t pid)
{
	braid_auto_file FILE *f = NULL;
	struct braid_shared_file file;
	bool vcpu = false;
	char line[512];
	int fd;

	fd = braid_peek_maps(pid);
	f = fd < 0 ? NULL : fdopen(fd, "r");
	if (!f && fd >= 0)
		close(fd);
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		memset(&file, 0, sizeof(file));
		if (!parse_map(line, &file, &vcpu) || known(files, pid, file.inode, file.device))
			continue;
		file.pid = pid;
		if (braid_array_push(files->items, files->nr, files->capacity, file))
			return braid_out_of_memory();
	}
	return vcpu;
}

/* Adds the files that one process shares with its guest, if it is a VMM. */
static int add_process(struct found_files *files, pid_t pid, char *cmdline)
{
	size_t bytes = read_cmdline(pid, cmdline, CMDLINE_BYTES), before = files->nr, k;
	uid_t real, effective;
	int vcpu;

	if (!bytes)	/* a thread of the kernel */
		return 0;
	vcpu = read_maps(files, pid);
	if (vcpu < 0)
		return vcpu;
	if ((!vcpu && !is_vmm_name(cmdline)) || !braid_process_users(pid, &real, &effective))
		files->nr = before;
	for (k = before; k < files->nr; k++) {
		struct braid_shared_file *file = &files->items[k];

		file->uid = real;
		file->ivshmem = is_ivshmem(cmdline, bytes, file->path);
		find_name(cmdline, bytes, file->guest);
		locate(file);
	}
	return 0;
}

bool braid_is_vmm(pid_t pid, const char *cmdline)
{
	struct found_files files = { 0 };
	bool is = is_vmm_name(cmdline) || read_maps(&files, pid) > 0;

	free(files.items);
	return is;
}

int braid_vmm_of(pid_t pid, struct braid_vmm *vmm)
{
	braid_auto_free char *cmdline = malloc(CMDLINE_BYTES);
	struct found_files files = { 0 };
	const char *program;
	size_t bytes;
	int vcpu;

	*vmm = (struct braid_vmm){ 0 };
	if (!cmdline)
		return braid_out_of_memory();
	bytes = read_cmdline(pid, cmdline, CMDLINE_BYTES);
	if (!bytes)	/* a thread of the kernel */
		return 0;
	vcpu = read_maps(&files, pid);
	free(files.items);
	if (vcpu < 0)
		return vcpu;
	program = strrchr(cmdline, '/');
	snprintf(vmm->program, sizeof(vmm->program), "%s", program ? program + 1 : cmdline);
	braid_text_clean(vmm->program);
	find_name(cmdline, bytes, vmm->name);
	vmm->has_vcpu = vcpu;
	vmm->by_name = is_vmm_name(cmdline);
	return 0;
}

int braid_qemu_files(struct braid_shared_file **out, size_t *nr)
{
	braid_auto_free char *cmdline = malloc(CMDLINE_BYTES);
	struct found_files files = { 0 };
	struct dirent *entry;
	int err = 0;
	DIR *proc;

	proc = opendir("/proc");
	if (!cmdline || !proc) {
		if (proc)
			closedir(proc);
		return braid_fail(-ENOENT, "cannot read /proc");
	}
	while (!err && (entry = readdir(proc)))
		if (isdigit((unsigned char)*entry->d_name))
			err = add_process(&files, atoi(entry->d_name), cmdline);
	closedir(proc);
	if (err) {
		free(files.items);
		return err;
	}
	*out = files.items;
	*nr = files.nr;
	return 0;
}

int braid_qemu_keep(bool writable)
{
	braid_auto_free struct braid_shared_file *files = NULL;
	size_t nr = 0, k;
	int err = braid_qemu_files(&files, &nr);

	for (k = 0; k < nr && !err; k++) {
		if (files[k].elsewhere)
			err = braid_mapping_keep(files[k].path, files[k].device, files[k].inode, writable);
		else if (writable)
			err = braid_landlock_allow(files[k].path, BRAID_PLACE_WRITTEN);
	}
	return err;
}

pid_t braid_qemu_of(dev_t device, ino_t inode)
{
	static struct braid_shared_file *files;
	static u64 good_ns;
	static size_t nr;
	u64 start_ns = braid_monotonic_ns();
	size_t k;

	if (start_ns >= good_ns) {
		free(files);
		if (braid_qemu_files(&files, &nr)) {
			files = NULL;
			nr = 0;
		}
		good_ns = (braid_monotonic_ns() - start_ns) * SCAN_SHARE;
		good_ns = braid_monotonic_ns() + (good_ns > SCAN_NS ? good_ns : SCAN_NS);
	}
	for (k = 0; k < nr; k++)
		if (files[k].inode == inode && files[k].device == device)
			return files[k].pid;
	return 0;
}
