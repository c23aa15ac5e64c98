// SPDX-License-Identifier: GPL-2.0-or-later
/* Which VMs' memory is searched page by page. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/discover/vms.h"
#include "host_agent/discover/whole_search.h"
#include "host_agent/transport/vm_mirror.h"

struct whole_search {
	braid_vm_search_step *step;
	void *arg;
	int err;			/* of step */
};

static int whole_search_step(void *arg, u64 done, u64 total)
{
	struct whole_search *s = arg;

	s->err = s->step(s->arg, done, total);
	return s->err;
}

/* Return: 0, also if its memory cannot be read; or -errno with braid_fail(). */
static int whole_search_process(struct whole_search *s, pid_t pid)
{
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	struct braid_vm_search search;
	struct braid_vm_memory memory;
	int err = braid_vm_memory_open(&memory, pid);

	if (err)
		return err == -ENOMEM ? err : 0;
	err = braid_vm_search(&memory, regions, &search);
	if (!err && !search.nr_regions)
		err = braid_vm_search_whole(&memory, whole_search_step, s);
	braid_vm_memory_close(&memory);
	return s->err || err == -ENOMEM ? err : 0;
}

/* Whether each word names a process; false without words. */
static bool whole_search_named(const char *const *words, size_t nr)
{
	size_t k;

	for (k = 0; k < nr; k++)
		if (strncmp(words[k], BRAID_VM_SCHEME, strlen(BRAID_VM_SCHEME)))
			return false;
	return nr;
}

int braid_whole_search(const char *const *words, size_t nr, braid_vm_search_step *step, void *arg)
{
	struct whole_search s = { .step = step, .arg = arg };
	struct braid_vms vms = { 0 };
	bool named = whole_search_named(words, nr);
	int err = named ? 0 : braid_vms_look(&vms), pid;
	size_t k;

	for (k = 0; named && k < nr && !err; k++)
		if (sscanf(words[k], BRAID_VM_SCHEME "%d", &pid) == 1 && pid > 0)
			err = whole_search_process(&s, pid);
	for (k = 0; k < vms.nr && !err; k++)
		err = whole_search_process(&s, vms.items[k].pid);
	braid_vms_free(&vms);
	return err;
}
