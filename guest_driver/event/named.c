// SPDX-License-Identifier: GPL-2.0
/*
 * Completes arguments of probes that have names, or types by BTF. The BTF is read for each such
 * probe, and then freed, because it takes several MiB.
 */
#include <linux/err.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "guest_driver/core/btf.h"
#include "guest_driver/event/probe_private.h"
#include "shared/btf_probe.h"

struct named {
	struct braid_btf_types types;
	struct braid_btf_error error;
	struct braid_probe probe;
};

/* The module that a place is in, from "FUNCTION [MODULE]"; "": the kernel itself. */
static void braid_named_module(const void *place, char *module, size_t bytes)
{
	char text[BRAID_PROBE_TARGET];
	char *open, *close;

	snprintf(text, sizeof(text), "%ps", place);
	open = strchr(text, '[');
	close = open ? strpbrk(open, " ]") : NULL;	/* some add the build id */
	if (close)
		*close = 0;
	strscpy(module, close ? open + 1 : "", bytes);
}

static int braid_named_refuse(const struct braid_probe_event *p,
			      const struct braid_btf_error *error, int err,
			      struct braid_refusal *refusal)
{
	return braid_refuse(refusal, err, "%.30s: %s: %s%s%s%s", p->probe.target, error->name,
			    error->what, *error->nearest ? "; did you mean " : "", error->nearest,
			    *error->nearest ? "?" : "");
}

/* Whether the names of the function can be looked up. */
static bool braid_named_open(struct named *n, const void *kernel, size_t kernel_bytes,
			     const void *module, size_t module_bytes, bool in_module)
{
	return kernel && !braid_btf_types_open(&n->types, kernel, kernel_bytes) &&
	       (!in_module ||
		(module && !braid_btf_types_add(&n->types, module, module_bytes)));
}

static int braid_named_look_up(struct braid_probe_event *p, struct named *n, bool known,
			       struct braid_refusal *refusal)
{
	const char *why;
	int err;

	if (p->pending && braid_probe_has_names(&p->asked))
		return braid_refuse(refusal, -ENOENT,
				    "%.40s: names need a loaded module; use $argN:TYPE",
				    p->asked.target);
	if (!known && braid_probe_has_names(&p->asked))
		return braid_refuse(refusal, -EOPNOTSUPP,
				    "%.40s: the guest's kernel has no BTF of it; use $argN:TYPE",
				    p->asked.target);
	err = braid_btf_resolve(&n->probe, &p->asked, known ? &n->types : NULL, &n->error);
	if (err)
		return braid_named_refuse(p, &n->error, err, refusal);
	err = braid_probe_check(&n->probe, &why);
	if (err || !braid_probe_is_complete(&n->probe))
		return braid_refuse(refusal, -EINVAL, "%.40s: %s", p->asked.target,
				    err ? why : "its types are not known");
	p->probe = n->probe;
	return 0;
}

int braid_named_resolve(struct braid_probe_event *p, struct braid_refusal *refusal)
{
	size_t kernel_bytes = 0, module_bytes = 0;
	char name[MODULE_NAME_LEN];
	void *kernel, *module;
	struct named *n;
	int err;

	if (braid_probe_is_complete(&p->asked))
		return 0;
	n = vmalloc(sizeof(*n));
	if (!n)
		return -ENOMEM;
	braid_named_module(p->kernel.kp.addr, name, sizeof(name));
	kernel = p->pending ? NULL : braid_btf_read("vmlinux", &kernel_bytes);
	module = kernel && *name ? braid_btf_read(name, &module_bytes) : NULL;
	err = braid_named_look_up(p, n, braid_named_open(n, kernel, kernel_bytes, module,
							 module_bytes, *name), refusal);
	vfree(module);
	vfree(kernel);
	vfree(n);
	return err;
}
