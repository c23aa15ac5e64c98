// SPDX-License-Identifier: GPL-2.0-or-later
/* Collects candidates, keeps the regions, names them. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/discover/discover.h"
#include "host_agent/discover/vms.h"
#include "host_agent/transport/vm_mirror.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/folder.h"
#include "host_agent/util/text.h"

#define SHM_DIR			"/dev/shm"
#define LIVENESS_STEP_MS	25
#define LIVENESS_STEPS		(1000 / LIVENESS_STEP_MS)	/* a guest polls every
								   BRAID_POLL_MS */

struct search {
	struct braid_found *items;
	size_t nr;
	size_t capacity;
	struct braid_shared_file *qemu;
	size_t nr_qemu;
	size_t nr_denied;
	bool keep_all;		/* a named file is listed, whatever it contains */
	bool owners;		/* untrusted files are not read */
};

const char *braid_driver_state_name(enum braid_driver_state state)
{
	static const char *const names[] = {
		[BRAID_DRIVER_NONE] = "no driver",
		[BRAID_DRIVER_STARTING] = "starting",
		[BRAID_DRIVER_LIVE] = "live",
		[BRAID_DRIVER_SILENT] = "silent",
		[BRAID_DRIVER_DOWN] = "down",
		[BRAID_DRIVER_UNREADABLE] = "unreadable",
	};

	return names[state];
}

u32 braid_mapping_fill(const struct braid_mapping *m, const struct braid_superblock *sb,
		       u32 buffer)
{
	const struct braid_buffer_desc *desc = &sb->buffers[buffer];
	u32 data_bytes = desc->subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES, vcpu, k;
	u64 unread = 0, room = (u64)data_bytes * desc->nr_slots * desc->nr_rings;
	struct braid_ring_map map;

	for (vcpu = 0; vcpu < desc->nr_rings; vcpu++) {
		braid_mapping_ring(m, sb, buffer, vcpu, &map);
		for (k = 0; k < map.nr_slots; k++) {
			u64 word = braid_load_acquire(&map.slots[k]);
			u32 id = braid_slot_id(word), bytes;

			if (braid_slot_state(word) != BRAID_SLOT_OPEN || id > map.nr_slots)
				continue;
			bytes = braid_commit_bytes(braid_load(&map.states[id].commit));
			unread += bytes < data_bytes ? bytes : data_bytes;
		}
	}
	return room ? (unread * 1000 + room - 1) / room : 0;	/* 0 only if nothing is unread */
}

struct probe {
	struct braid_found *found;
	struct braid_vm_mirror *mirror;	/* NULL: of a file */
	const struct braid_mapping *m;
	u64 heartbeat;
};

static int probe_fill(void *arg)
{
	struct probe *probe = arg;
	u32 k;

	for (k = 0; k < probe->found->sb.nr_buffers; k++)
		if (probe->found->sb.buffers[k].nr_rings)
			probe->found->fill_permille[k] =
				braid_mapping_fill(probe->m, &probe->found->sb, k);
	return 0;
}

static int probe_heartbeat(void *arg)
{
	struct probe *probe = arg;
	const struct braid_mailbox *box =
		braid_mapping_section(probe->m, &probe->found->sb, BRAID_SECTION_MAILBOX);

	if (probe->mirror)
		braid_vm_mirror_pull(probe->mirror);
	probe->heartbeat = braid_load(&box->guest_heartbeat);
	return 0;
}

static void set_unreadable(struct braid_found *f, int err)
{
	f->state = BRAID_DRIVER_UNREADABLE;
	f->error = err;
	snprintf(f->why, sizeof(f->why), "%s", braid_failure());
	braid_text_clean(f->why);
}

/* Fills in what the superblock and the directory say. */
static void discover_describe(struct braid_found *f, const struct braid_mapping *m)
{
	struct probe probe = { .found = f, .m = m };
	struct braid_directory_copy dir;
	int err = braid_mapping_identify(m, &f->sb);

	if (err == -ENODATA || err == -EAGAIN) {
		f->state = err == -ENODATA ? BRAID_DRIVER_NONE : BRAID_DRIVER_STARTING;
		return;
	}
	if (!err)
		err = braid_guard_run(m->base, m->bytes, probe_fill, &probe);
	if (!err)
		err = braid_directory_load(&dir, m, &f->sb, 0);
	if (err) {
		memset(&f->sb, 0, sizeof(f->sb));
		set_unreadable(f, err);
		return;
	}
	f->events = braid_directory_count(&dir);
	braid_directory_free(&dir);
	braid_text_clean(f->sb.guest_name);
	braid_text_clean(f->sb.kernel_release);
	braid_text_clean(f->sb.machine);
	for (u32 k = 0; k < f->sb.nr_buffers; k++) {
		f->sb.buffers[k].name[BRAID_NAME_BYTES - 1] = 0;
		braid_text_clean(f->sb.buffers[k].name);
	}
	f->state = f->sb.state == BRAID_STATE_DOWN ? BRAID_DRIVER_DOWN : BRAID_DRIVER_LIVE;
}

static bool already_found(const struct search *s, const struct braid_found *f)
{
	size_t k;

	for (k = 0; k < s->nr; k++)
		if (f->inode && s->items[k].inode == f->inode && s->items[k].device == f->device)
			return true;
	return false;
}

static bool maps(const struct braid_shared_file *qemu, const struct braid_found *f)
{
	return qemu->inode == f->inode && qemu->device == f->device;
}

/*
 * Whether a file belongs to another ordinary user who did not share it with us: neither through a
 * QEMU that maps it, nor, if we are not root and can't see other users' QEMUs, through its group.
 */
static bool is_untrusted(const struct search *s, const struct braid_found *f, gid_t group)
{
	uid_t self = geteuid();
	size_t k;

	if (!f->uid || f->uid == self)
		return false;
	for (k = 0; k < s->nr_qemu; k++)
		if (maps(&s->qemu[k], f) && (!s->qemu[k].uid || s->qemu[k].uid == self ||
					     s->qemu[k].uid == f->uid))
			return false;
	return !self || !(f->mode & S_IRGRP) || !group_member(group);
}

/* Whether no running QEMU maps a file, as far as this user sees. */
static bool has_ended(const struct search *s, const struct braid_found *f)
{
	size_t k;

	if (f->qemu_pid)		/* it is in the memory of one */
		return false;
	for (k = 0; k < s->nr_qemu; k++)
		if (maps(&s->qemu[k], f))
			return false;
	return !geteuid() || f->uid == geteuid();
}

static void set_untrusted(const struct search *s, struct braid_found *f)
{
	f->untrusted = true;
	f->ended = has_ended(s, f);
	set_unreadable(f, f->ended ?
		braid_fail(-EPERM, "%s: owned by user %u, and no running QEMU maps it; if its guest has ended: tracebraid recover '%s' -o FILE",
			   f->path, (unsigned int)f->uid, f->path) :
		braid_fail(-EPERM, "%s: owned by user %u, whose QEMU processes do not map it; use its path to name it",
			   f->path, (unsigned int)f->uid));
}

/* The first bytes of a file, read without mapping it; 0: none. */
static u64 first_word(const struct braid_mapping *m)
{
	u64 word = 0;

	return pread(m->fd, &word, sizeof(word), 0) == sizeof(word) ? word : 0;
}

static bool is_ivshmem(const struct search *s, const struct braid_found *f)
{
	size_t k;

	for (k = 0; k < s->nr_qemu; k++)
		if (s->qemu[k].ivshmem && maps(&s->qemu[k], f))
			return true;
	return false;
}

/* Fills in what an opened file is. Return: whether a search shows it. */
static bool probe_file(const struct search *s, struct braid_found *f, struct braid_mapping *m)
{
	u64 word;

	f->device = m->device;
	f->inode = m->inode;
	f->uid = m->uid;
	f->mode = m->mode;
	if (s->owners && is_untrusted(s, f, m->gid)) {
		word = first_word(m);
		set_untrusted(s, f);
		return word == BRAID_MAGIC || word == BRAID_MARK;
	}
	discover_describe(f, m);
	f->marked = braid_mapping_marked(m);
	if (f->state == BRAID_DRIVER_NONE)
		return f->marked || is_ivshmem(s, f);
	/* What has the magic: broken and newer ones too. */
	return f->state != BRAID_DRIVER_UNREADABLE || f->error == -EBADMSG || f->error == -EPROTO;
}

/* A region in a guest's own memory, if one is found. Return: whether it is shown. */
static bool probe_memory(struct braid_found *f, pid_t pid)
{
	struct braid_vm_mirror *mirror;
	int err = braid_vm_mirror_open(&mirror, pid, f->path, NULL);

	f->qemu_pid = pid;
	f->marked = true;	/* a driver needs no file for it */
	if (err == -ENODATA) {
		f->state = BRAID_DRIVER_NONE;
		return false;
	}
	if (err) {
		set_unreadable(f, err);
		return false;
	}
	discover_describe(f, braid_vm_mirror_mapping(mirror));
	braid_mapping_close(braid_vm_mirror_mapping(mirror));
	braid_vm_mirror_close(mirror);
	return true;
}

/* The process that an address names, if it is one of a guest's own memory; else 0. */
static pid_t pid_of(const char *path)
{
	int pid = 0;

	return sscanf(path, BRAID_VM_SCHEME "%d", &pid) == 1 && pid > 0 ? pid : 0;
}

/* Checks one candidate and keeps it if it is a region. */
static int add_candidate(struct search *s, const char *path)
{
	struct braid_found f = { 0 };
	pid_t pid = pid_of(path);
	struct braid_mapping *m;
	bool wanted = false;
	int err;

	snprintf(f.path, sizeof(f.path), "%s", path);
	if (pid) {
		wanted = probe_memory(&f, pid);
		if (!wanted && !s->keep_all)
			return 0;
		return braid_array_push(s->items, s->nr, s->capacity, f) ? braid_out_of_memory() : 0;
	}
	err = braid_mapping_open(&m, path, false);
	if (err == -ENODATA) {
		f.state = BRAID_DRIVER_NONE;
	} else if (err) {
		set_unreadable(&f, err);
		s->nr_denied += err == -EACCES;
	} else {
		wanted = probe_file(s, &f, m);
		braid_mapping_close(m);
	}
	if ((!s->keep_all && !wanted) || already_found(s, &f))
		return 0;
	if (braid_array_push(s->items, s->nr, s->capacity, f))
		return braid_out_of_memory();
	return 0;
}

/* Whether a VM has a device's region with a driver: it has no other then. */
static bool has_device(const struct search *s, pid_t pid)
{
	size_t k, j;

	for (k = 0; k < s->nr; k++)
		for (j = 0; j < s->nr_qemu && s->items[k].state != BRAID_DRIVER_NONE; j++)
			if (s->qemu[j].pid == pid && maps(&s->qemu[j], &s->items[k]))
				return true;
	return false;
}

static int search_memories(struct search *s)
{
	struct braid_vms vms = { 0 };
	char path[32];
	int err = braid_vms_look(&vms);
	size_t k;

	for (k = 0; k < vms.nr && !err; k++) {
		size_t nr = s->nr;

		if (has_device(s, vms.items[k].pid))
			continue;
		snprintf(path, sizeof(path), BRAID_VM_SCHEME "%d", (int)vms.items[k].pid);
		err = add_candidate(s, path);
		if (s->nr > nr)
			strcpy(s->items[nr].given, vms.items[k].name);
	}
	braid_vms_free(&vms);
	return err;
}

static int search_everywhere(struct search *s)
{
	char path[sizeof(SHM_DIR) + 256];
	struct dirent *entry;
	int err = 0;
	size_t k;
	DIR *dir;

	dir = opendir(SHM_DIR);
	while (dir && !err && (entry = readdir(dir))) {
		if (*entry->d_name == '.' || strlen(entry->d_name) > 200)
			continue;
		snprintf(path, sizeof(path), SHM_DIR "/%s", entry->d_name);
		err = add_candidate(s, path);
	}
	if (dir)
		closedir(dir);
	for (k = 0; k < s->nr_qemu && !err; k++)
		err = add_candidate(s, s->qemu[k].path);
	return err ? err : search_memories(s);
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct braid_found *)a)->path, ((const struct braid_found *)b)->path);
}

/*
 * The QEMU that maps a file. A QEMU of a user who could map it without the owner's permission does
 * not count, and can't name an untrusted file either.
 */
static const struct braid_shared_file *owner_of(const struct search *s, const struct braid_found *f)
{
	size_t k;

	for (k = 0; k < s->nr_qemu && !f->untrusted; k++)
		if (maps(&s->qemu[k], f) && (!(f->mode & S_IWOTH) || !s->qemu[k].uid ||
					     s->qemu[k].uid == f->uid))
			return &s->qemu[k];
	return NULL;
}

/* Whether another region is called so, or, among guests, also if its guest calls itself so. */
static bool name_taken(const struct search *s, const struct braid_found *f, const char *name,
		       bool by_guest)
{
	const struct braid_found *o;

	if (!strcmp(name, "host"))	/* that stream is the host's */
		return true;
	for (o = s->items; o < s->items + s->nr; o++)
		if (o != f && (!strcmp(o->name, name) ||
			       (by_guest && !strcmp(o->sb.guest_name, name))))
			return true;
	return false;
}

/* QEMUs' names first: no guest can take one away by what it writes. */
static void give_names(struct search *s)
{
	const struct braid_shared_file *owner;
	struct braid_found *f;

	for (f = s->items; f < s->items + s->nr; f++) {
		owner = owner_of(s, f);
		if (!owner && *f->given && !name_taken(s, f, f->given, false))
			strcpy(f->name, f->given);
		if (!owner)
			continue;
		f->qemu_pid = owner->pid;
		strcpy(f->given, owner->guest);
		if (*owner->guest && !name_taken(s, f, owner->guest, false))
			strcpy(f->name, owner->guest);
	}
	for (f = s->items; f < s->items + s->nr; f++) {
		if (*f->name || f->untrusted)
			continue;
		if (*f->sb.guest_name && !name_taken(s, f, f->sb.guest_name, true)) {
			memcpy(f->name, f->sb.guest_name, sizeof(f->name));
			continue;
		}
		snprintf(f->name, sizeof(f->name), "%s", braid_folder_name(f->path));
		braid_text_clean(f->name);
	}
}

static int open_again(struct braid_mapping **m, struct braid_vm_mirror **mirror,
		      const struct braid_found *f)
{
	pid_t pid = pid_of(f->path);
	int err;

	if (!pid)
		return braid_mapping_open_again(m, f->path, &f->sb);
	err = braid_vm_mirror_open(mirror, pid, f->path, NULL);
	if (!err)
		*m = braid_vm_mirror_mapping(*mirror);
	return err;
}

/* Distinguishes LIVE from SILENT: watches all at once, each until its heartbeat advances. */
static int watch_heartbeats(struct search *s)
{
	struct probe *probes = calloc(s->nr + 1, sizeof(*probes));
	const struct timespec step = { .tv_nsec = LIVENESS_STEP_MS * 1000000 };
	size_t k, unsure = 0;
	u32 steps;
	u64 before;

	if (!probes)
		return braid_out_of_memory();
	for (k = 0; k < s->nr; k++) {
		struct braid_mapping *m = NULL;

		if (s->items[k].state != BRAID_DRIVER_LIVE ||
		    open_again(&m, &probes[k].mirror, &s->items[k]))
			continue;
		probes[k].found = &s->items[k];
		probes[k].m = m;
		s->items[k].state = BRAID_DRIVER_SILENT;
		braid_guard_run(m->base, m->bytes, probe_heartbeat, &probes[k]);
		unsure++;
	}
	for (steps = 0; unsure && steps < LIVENESS_STEPS; steps++) {
		nanosleep(&step, NULL);
		for (k = 0; k < s->nr; k++) {
			if (!probes[k].m || s->items[k].state == BRAID_DRIVER_LIVE)
				continue;
			before = probes[k].heartbeat;
			braid_guard_run(probes[k].m->base, probes[k].m->bytes, probe_heartbeat,
					&probes[k]);
			if (probes[k].heartbeat == before)
				continue;
			s->items[k].state = BRAID_DRIVER_LIVE;
			unsure--;
		}
	}
	for (k = 0; k < s->nr; k++) {
		braid_mapping_close((struct braid_mapping *)probes[k].m);
		braid_vm_mirror_close(probes[k].mirror);
		s->items[k].ended |= s->items[k].state == BRAID_DRIVER_SILENT && has_ended(s, &s->items[k]);
	}
	free(probes);
	return 0;
}

int braid_discover(struct braid_found **found, size_t *nr, const char *const *paths,
		   size_t nr_paths, u32 flags, size_t *denied)
{
	struct search s = {
		.keep_all = paths, .owners = !paths || flags & BRAID_DISCOVER_OWNERS,
	};
	int err = braid_qemu_files(&s.qemu, &s.nr_qemu);
	size_t k;

	if (err)
		return err;
	if (!paths)
		err = search_everywhere(&s);
	for (k = 0; paths && k < nr_paths && !err; k++)
		err = add_candidate(&s, paths[k]);
	if (!err && !paths && s.nr)
		qsort(s.items, s.nr, sizeof(*s.items), by_path);
	if (!err) {
		give_names(&s);
		if (flags & BRAID_DISCOVER_LIVENESS)
			err = watch_heartbeats(&s);
	}
	free(s.qemu);
	if (err) {
		free(s.items);
		return err;
	}
	*found = s.items;
	*nr = s.nr;
	if (denied)
		*denied = s.nr_denied;
	return 0;
}
