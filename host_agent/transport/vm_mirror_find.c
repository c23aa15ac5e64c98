// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which of a process' regions is the guest's: after a reset, regions of former kernels can be there
 * whole, and say LIVE.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "host_agent/transport/vm_mirror_private.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"
#include "shared/region.h"

#define STEP_NS		1000000
#define SILENT_NS	1000000000ULL	/* without a heartbeat: the guest may have been reset */

u64 braid_vm_mirror_now_ns(void)
{
	return braid_clock_read_ns(CLOCK_MONOTONIC_RAW);
}

static u64 vm_find_load_beat(struct braid_vm_mirror *m, const struct braid_superblock *sb)
{
	u64 beat = 0;

	braid_vm_batch_add(&m->batch, sb->sections[BRAID_SECTION_MAILBOX].offset +
			   offsetof(struct braid_mailbox, guest_heartbeat), &beat, sizeof(beat));
	return braid_vm_batch_read(&m->batch) ? 0 : beat;
}

/* The LIVE region whose heart beats: others were LIVE when the guest was reset. */
static u32 vm_find_living(struct braid_vm_mirror *m, const struct braid_vm_region *regions,
			    const struct braid_superblock *sbs, u32 nr)
{
	const struct timespec step = { .tv_nsec = STEP_NS };
	u64 end_ns = braid_vm_mirror_now_ns() + 3000000ULL * BRAID_POLL_MS, first[BRAID_VM_REGIONS];
	u32 tries, k;

	for (tries = 0; nr > 1 && braid_vm_mirror_now_ns() < end_ns; tries++) {
		for (k = 0; k < nr && braid_vm_mirror_now_ns() < end_ns; k++) {
			u64 beat;

			m->region = regions[k];
			beat = vm_find_load_beat(m, &sbs[k]);
			if (!tries)
				first[k] = beat;
			else if (beat && beat != first[k])
				return k;
		}
		nanosleep(&step, NULL);
	}
	return nr - 1;
}

/*
 * Valid regions: those that are LIVE; if none is, one. @regions, @sbs: room for BRAID_VM_REGIONS.
 * Return: their number, or -errno with braid_fail().
 */
static int vm_find_regions(struct braid_vm_mirror *m, struct braid_vm_region *regions,
			   struct braid_superblock *sbs, struct braid_vm_search *search)
{
	struct braid_superblock sb;
	u32 k, nr = 0;
	int err = braid_vm_search(&m->vm, regions, search);

	if (err)
		return err;
	for (k = 0; k < search->nr_regions; k++) {
		m->region = regions[k];
		if (regions[k].bytes < sizeof(sb) || braid_vm_mirror_load_superblock(m, &sb) ||
		    braid_region_check(&sb, regions[k].bytes) ||
		    (nr && sb.state != BRAID_STATE_LIVE))
			continue;
		if (nr && sbs[0].state != BRAID_STATE_LIVE)
			nr = 0;
		sbs[nr] = sb;
		regions[nr++] = regions[k];
	}
	return nr;
}

int braid_vm_mirror_find(struct braid_vm_mirror *m, const char *path)
{
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	struct braid_superblock sbs[BRAID_VM_REGIONS];
	struct braid_vm_search search;
	int nr = vm_find_regions(m, regions, sbs, &search);
	u32 k;

	if (nr < 0)
		return nr;
	if (!nr && braid_vm_memory_is_encrypted(m->vm.pid))
		return braid_fail(-ENODATA, "%s: the guest's memory is encrypted: no region can be in it; give the VM an ivshmem device",
				  path);
	if (!nr)
		return braid_fail(-ENODATA, "%s: no region in the guest's memory; load the driver in the guest%s",
				  path, search.nr_incomplete ? ", whose memory is not complete here" : "");
	k = vm_find_living(m, regions, sbs, nr);
	m->region = regions[k];
	m->sb = sbs[k];
	return 0;
}

void braid_vm_mirror_seek(struct braid_vm_mirror *m)
{
	struct braid_vm_region regions[BRAID_VM_REGIONS], ours = m->region;
	struct braid_superblock sbs[BRAID_VM_REGIONS];
	struct braid_vm_search search;
	u64 start_ns, end_ns, beat;
	int nr, k;

	if (m->now_ns - m->beat_ns < SILENT_NS || m->now_ns < m->seek_ns)
		return;
	start_ns = braid_vm_mirror_now_ns();
	nr = vm_find_regions(m, regions, sbs, &search);
	for (k = 0; k < nr; k++) {
		if (regions[k].nonce == ours.nonce || sbs[k].state != BRAID_STATE_LIVE)
			continue;
		m->region = regions[k];
		beat = vm_find_load_beat(m, &sbs[k]);
		if (regions[k].nonce == m->other_nonce && beat && beat != m->other_beat)
			braid_vm_mirror_gone(m, "the guest was reset, and has another one");
		m->other_nonce = regions[k].nonce;
		m->other_beat = beat;
	}
	m->region = ours;
	end_ns = braid_vm_mirror_now_ns();
	m->seek_ns = end_ns + BRAID_VM_SEARCH_SHARE * (end_ns - start_ns);
	if (m->seek_ns < end_ns + SILENT_NS)
		m->seek_ns = end_ns + SILENT_NS;
}
