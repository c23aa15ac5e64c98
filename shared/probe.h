/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Probes: checks one as if an enemy had written it, and computes the layout of its records. */
#ifndef BRAID_SHARED_PROBE_H
#define BRAID_SHARED_PROBE_H

#include "shared/platform.h"
#include "tracebraid/abi.h"

/* Bytes of a record before its arguments. */
#define BRAID_PROBE_HEAD(kind)						\
	((kind) == BRAID_PROBE_KERNEL_RETURN || (kind) == BRAID_PROBE_USER_RETURN ? 24u : 16u)

static inline bool braid_probe_is_return(const struct braid_probe *probe)
{
	return probe->kind == BRAID_PROBE_KERNEL_RETURN || probe->kind == BRAID_PROBE_USER_RETURN;
}

static inline bool braid_probe_is_user(const struct braid_probe *probe)
{
	return probe->kind == BRAID_PROBE_USER || probe->kind == BRAID_PROBE_USER_RETURN;
}

/**
 * braid_probe_check - whether a probe is well-formed
 * @probe: a private copy
 * @why: set on failure: what is wrong; a constant
 *
 * On success names are identifiers, texts end, and each argument's parts fit each other. Whether
 * the place and the registers exist is not known here.
 *
 * Return: 0; -EINVAL; -EOPNOTSUPP: another version.
 */
int braid_probe_check(const struct braid_probe *probe, const char **why);

/** braid_probe_is_name - whether a text in so many bytes ends there, and is an identifier */
bool braid_probe_is_name(const char *text, u32 bytes);

/** braid_probe_bytes - of a number of a type in the record; a STRING has a word */
u32 braid_probe_bytes(u8 type);

/** braid_probe_has_names - whether arguments are named, so that BTF is needed; @probe: any */
bool braid_probe_has_names(const struct braid_probe *probe);

/** braid_probe_is_complete - whether all types of arguments are known; @probe: checked */
bool braid_probe_is_complete(const struct braid_probe *probe);

/**
 * braid_probe_layout - where the arguments are in a record
 * @probe: checked and complete
 * @offsets: set: of each from the record's start
 *
 * Return: bytes of the record without its strings.
 */
u32 braid_probe_layout(const struct braid_probe *probe, u16 offsets[BRAID_PROBE_ARGS]);

#endif /* BRAID_SHARED_PROBE_H */
