// SPDX-License-Identifier: GPL-2.0
/* Places probes: in the kernel by kprobes, in programs by uprobes. */
#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/module.h>

#include "guest_driver/event/probe_private.h"

#define BRAID_SITE_BATCH	32	/* probes for which the kernel waits once */

/* The kernel's code ------------------------------------------------------------------------- */

static int braid_site_kernel_hit(struct kprobe *kp, struct pt_regs *regs)
{
	braid_probe_hit(container_of(kp, struct braid_probe_event, kernel.kp), regs,
			(unsigned long)kp->addr, 0);
	return 0;
}

static int braid_site_kernel_returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct kretprobe *kernel = get_kretprobe(ri);

	if (kernel)
		braid_probe_hit(container_of(kernel, struct braid_probe_event, kernel), regs,
				(unsigned long)kernel->kp.addr, get_kretprobe_retaddr(ri));
	return 0;
}

static int braid_site_refuse_kernel(const struct braid_probe *probe, int err,
				    struct braid_refusal *refusal)
{
	const char *why = err == -ENOENT ? "the guest's kernel has no such function" :
			  err == -EINVAL ? "the guest's kernel does not allow a probe there: blacklisted, or not the start of an instruction" :
			  err == -EILSEQ ? "not the start of an instruction" :
			  "the guest's kernel places no probe there";

	return braid_refuse(refusal, err, "%.60s: %s", probe->target, why);
}

/* Registered, but disabled: so the kernel has checked the place. */
static int braid_site_place(struct braid_probe_event *p)
{
	struct kprobe *kp = &p->kernel.kp;
	int err;

	memset(&p->kernel, 0, sizeof(p->kernel));
	kp->symbol_name = p->probe.target;
	kp->offset = p->probe.offset;
	kp->flags = KPROBE_FLAG_DISABLED;
	if (p->probe.offset > INT_MAX)
		return -EINVAL;
	if (p->probe.kind == BRAID_PROBE_KERNEL) {
		kp->pre_handler = braid_site_kernel_hit;
		err = register_kprobe(kp);
	} else {
		p->kernel.handler = braid_site_kernel_returned;
		p->kernel.maxactive = BRAID_PROBE_CALLS;
		err = register_kretprobe(&p->kernel);
	}
	p->pending = err;
	p->placed |= !err;
	return err;
}

static void braid_site_displace(struct braid_probe_event *p)
{
	if (p->pending)
		return;
	if (p->probe.kind == BRAID_PROBE_KERNEL)
		unregister_kprobe(&p->kernel.kp);
	else
		unregister_kretprobe(&p->kernel);
	p->pending = true;
}

/* Bytes of the module's name, as of "MODULE:FUNCTION"; 0: none. */
static size_t braid_site_module(const struct braid_probe *probe)
{
	const char *colon = strchr(probe->target, ':');

	return colon ? colon - probe->target : 0;
}

/* Modules are in a set, where each has its own name. */
static bool braid_site_is_loaded(const struct braid_probe *probe)
{
#ifdef MODULE
	struct kset *modules = THIS_MODULE->mkobj.kobj.kset;
	char name[MODULE_NAME_LEN];
	struct kobject *found;

	snprintf(name, sizeof(name), "%.*s", (int)braid_site_module(probe), probe->target);
	found = modules ? kset_find_obj(modules, name) : NULL;
	if (found)
		kobject_put(found);
	return found;
#else
	return false;
#endif
}

static int braid_site_find_kernel(struct braid_probe_event *p, struct braid_refusal *refusal)
{
	size_t module = braid_site_module(&p->probe);
	int err = braid_site_place(p);

	if (err != -ENOENT || !module || braid_site_is_loaded(&p->probe))
		return err ? braid_site_refuse_kernel(&p->probe, err, refusal) : 0;
	braid_refuse(refusal, 0, "pending until the module %.*s is loaded", (int)min(module, 60ul),
		     p->probe.target);
	return 0;
}

static u64 braid_site_kernel_missed(const struct braid_probe_event *p)
{
	return p->kernel.kp.nmissed +
	       (p->probe.kind == BRAID_PROBE_KERNEL_RETURN ? p->kernel.nmissed : 0);
}

/* A probe that is pending is armed when it is placed. */
static int braid_site_arm_kernel(struct braid_probe_event *p)
{
	p->missed_before = braid_site_kernel_missed(p);
	return p->pending ? 0 : enable_kprobe(&p->kernel.kp);
}

static void braid_site_disarm_kernel(struct braid_probe_event *p)
{
	if (p->pending)
		return;
	disable_kprobe(&p->kernel.kp);
	p->missed += braid_site_kernel_missed(p) - p->missed_before;
	p->missed_before = braid_site_kernel_missed(p);
}

static bool braid_site_is_of(const struct braid_probe_event *p, const char *module)
{
	size_t bytes = braid_probe_is_user(&p->probe) ? 0 : braid_site_module(&p->probe);

	return bytes && (!module || (strlen(module) == bytes &&
				     !memcmp(module, p->probe.target, bytes)));
}

void braid_site_came(struct braid_probe_event *p, const char *module)
{
	if (p->pending && braid_site_is_of(p, module) && !braid_site_place(p) && p->on &&
	    braid_site_arm_kernel(p))
		WRITE_ONCE(p->on, false);
}

void braid_site_goes(struct braid_probe_event *p, const char *module)
{
	if (p->pending || !braid_site_is_of(p, module))
		return;
	if (p->on)
		braid_site_disarm_kernel(p);
	braid_site_displace(p);
}

u64 braid_site_missed(const struct braid_probe_event *p)
{
	return p->missed + (braid_probe_is_user(&p->probe) || p->pending || !p->on ? 0 :
			    braid_site_kernel_missed(p) - p->missed_before);
}

/* Programs ---------------------------------------------------------------------------------- */

#ifdef CONFIG_UPROBES
static int braid_site_user_hit(struct uprobe_consumer *consumer, struct pt_regs *regs
			       BRAID_UPROBE_DATA)
{
	braid_probe_hit(container_of(consumer, struct braid_probe_event, user.consumer), regs,
			instruction_pointer(regs), 0);
	return 0;
}

static int braid_site_user_returned(struct uprobe_consumer *consumer, unsigned long func,
				    struct pt_regs *regs BRAID_UPROBE_DATA)
{
	braid_probe_hit(container_of(consumer, struct braid_probe_event, user.consumer), regs,
			func, instruction_pointer(regs));
	return 0;
}

static int braid_site_find_user(struct braid_probe_event *p, struct braid_refusal *refusal)
{
	u64 offset = 0;
	int err = braid_path(p->probe.target, &p->user.path);

	if (err == -ENOENT)
		return braid_refuse(refusal, err, "%.60s: no such file in the guest",
				    p->probe.target);
	if (err)
		return braid_refuse(refusal, err, "%.60s: cannot be found in the guest (%d)",
				    p->probe.target, err);
	p->user.inode = d_real_inode(p->user.path.dentry);
	if (!S_ISREG(p->user.inode->i_mode))
		err = braid_refuse(refusal, -EINVAL, "%.60s: not a regular file", p->probe.target);
	else if (*p->probe.symbol)
		err = braid_elf_find(&p->user.path, p->probe.symbol, &offset);
	if (err && !*refusal->text)
		braid_refuse(refusal, err, err == -ENOENT ? "%.40s: no symbol %.40s in it" :
			     "%.40s: its symbols cannot be read, so not %.40s; use an offset",
			     p->probe.target, p->probe.symbol);
	if (!err && offset + p->probe.offset >= i_size_read(p->user.inode))
		err = braid_refuse(refusal, -EINVAL, "%.60s: 0x%llx is beyond its end",
				   p->probe.target, offset + p->probe.offset);
	if (err) {
		path_put(&p->user.path);
		return err;
	}
	p->user.offset = offset + p->probe.offset;
	p->placed = true;
	if (p->probe.kind == BRAID_PROBE_USER)
		p->user.consumer.handler = braid_site_user_hit;
	else
		p->user.consumer.ret_handler = braid_site_user_returned;
	return 0;
}

static void braid_site_release_user(struct braid_probe_event *p)
{
	path_put(&p->user.path);
}

static int braid_site_arm_user(struct braid_probe_event *p)
{
	if (p->user.draining)
		braid_uprobe_synchronize();
	p->user.draining = false;
	return braid_uprobe_register(p->user.inode, p->user.offset, &p->user.consumer,
				     &p->user.handle);
}

/* The kernel may still read the consumer until braid_site_synchronize(). */
static void braid_site_disarm_user(struct braid_probe_event *p)
{
	braid_uprobe_unregister(p->user.inode, p->user.offset, &p->user.consumer, p->user.handle);
	p->user.draining = true;
}
#else
static int braid_site_find_user(struct braid_probe_event *p, struct braid_refusal *refusal)
{
	return braid_refuse(refusal, -EOPNOTSUPP, "the guest's kernel has no uprobes");
}

static void braid_site_release_user(struct braid_probe_event *p)
{
}

static int braid_site_arm_user(struct braid_probe_event *p)
{
	return -EOPNOTSUPP;
}

static void braid_site_disarm_user(struct braid_probe_event *p)
{
}

static void braid_uprobe_synchronize(void)
{
}
#endif

/* ------------------------------------------------------------------------------------------- */

int braid_site_find(struct braid_probe_event *p, struct braid_refusal *refusal)
{
	return braid_probe_is_user(&p->probe) ? braid_site_find_user(p, refusal) :
						braid_site_find_kernel(p, refusal);
}

void braid_site_release(struct braid_probe_event *p)
{
	if (braid_probe_is_user(&p->probe))
		braid_site_release_user(p);
	else
		braid_site_displace(p);
}

void braid_site_release_all(const struct list_head *probes)
{
	struct kretprobe *returns[BRAID_SITE_BATCH];
	struct kprobe *entries[BRAID_SITE_BATCH];
	int nr_returns = 0, nr_entries = 0;
	struct braid_probe_event *p;

	list_for_each_entry(p, probes, list) {
		if (braid_probe_is_user(&p->probe))
			braid_site_release_user(p);
		else if (!p->pending && p->probe.kind == BRAID_PROBE_KERNEL)
			entries[nr_entries++] = &p->kernel.kp;
		else if (!p->pending)
			returns[nr_returns++] = &p->kernel;
		if (nr_entries == BRAID_SITE_BATCH) {
			unregister_kprobes(entries, nr_entries);
			nr_entries = 0;
		}
		if (nr_returns == BRAID_SITE_BATCH) {
			unregister_kretprobes(returns, nr_returns);
			nr_returns = 0;
		}
	}
	unregister_kprobes(entries, nr_entries);
	unregister_kretprobes(returns, nr_returns);
}

int braid_site_arm(struct braid_probe_event *p)
{
	return braid_probe_is_user(&p->probe) ? braid_site_arm_user(p) : braid_site_arm_kernel(p);
}

void braid_site_disarm(struct braid_probe_event *p)
{
	if (braid_probe_is_user(&p->probe))
		braid_site_disarm_user(p);
	else
		braid_site_disarm_kernel(p);
}

void braid_site_synchronize(void)
{
	synchronize_rcu();
	braid_uprobe_synchronize();
}
