/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Resolves arguments of probes by name: their registers and types, by BTF. */
#ifndef BRAID_SHARED_BTF_PROBE_H
#define BRAID_SHARED_BTF_PROBE_H

#include "shared/btf_types.h"
#include "tracebraid/probe.h"

#define BRAID_BTF_WORD		32u	/* bytes of a name in a message; cut */

/* What is wrong, for a line such as "vfs_read: cuont: no such argument; did you mean count?" */
struct braid_btf_error {
	const char *what;	/* a constant */
	char name[BRAID_BTF_WORD];
	char nearest[BRAID_BTF_WORD];	/* "": none is similar */
};

/**
 * braid_btf_resolve() - Replace the names and types of a probe's arguments.
 * @out: Filled on success: @probe with complete arguments. The caller checks it again.
 * @probe: Checked.
 * @types: The BTF that describes the probe's function; NULL: not available.
 * @error: Set on failure.
 *
 * Return: 0; -ENOENT: no such function or name; -EINVAL: not possible; -E2BIG: too many arguments.
 */
int braid_btf_resolve(struct braid_probe *out, const struct braid_probe *probe,
		      struct braid_btf_types *types, struct braid_btf_error *error);

#endif /* BRAID_SHARED_BTF_PROBE_H */
