/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Looks at each page of VMs' memory for regions at no usual place (docs/guest-memory.md). */
#ifndef BRAID_DISCOVER_WHOLE_SEARCH_H
#define BRAID_DISCOVER_WHOLE_SEARCH_H

#include "host_agent/transport/vm_search.h"

/**
 * braid_whole_search - look for regions in the VMs where none is found otherwise
 * @words: if all are pid:PID, only these processes are searched; NULL: all VMs
 * @nr: their number
 * @step: called during the search of each
 * @arg: handed to it
 *
 * Call it before braid_discover(), which finds these regions then, and so does who opens them. A
 * VM whose memory cannot be read is skipped: braid_discover() reports it.
 *
 * Return: 0; -ENOMEM; or what @step returned. With braid_fail().
 */
int braid_whole_search(const char *const *words, size_t nr, braid_vm_search_step *step, void *arg);

#endif /* BRAID_DISCOVER_WHOLE_SEARCH_H */
