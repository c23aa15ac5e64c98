// SPDX-License-Identifier: GPL-2.0
/* Keeps the host's probes: each is an event of the buffer "trace". */
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/slab.h>

#include "guest_driver/event/probe_private.h"

static LIST_HEAD(probes);
static DEFINE_MUTEX(probes_lock);	/* of the list, which modules that come and go walk */

static struct braid_probe_event *braid_probe_of(const struct braid_event *ev)
{
	return container_of(ev, struct braid_probe_event, ev);
}

/* The event --------------------------------------------------------------------------------- */

static int braid_probe_enable(struct braid_event *ev)
{
	struct braid_probe_event *p = braid_probe_of(ev);
	int err;

	smp_store_release(&p->on, true);
	err = braid_site_arm(p);
	if (err)
		WRITE_ONCE(p->on, false);
	return err;
}

static void braid_probe_disable(struct braid_event *ev)
{
	struct braid_probe_event *p = braid_probe_of(ev);

	WRITE_ONCE(p->on, false);
	braid_site_disarm(p);
}

/* A field's type, and how it is printed: NULL for a number: below. */
static const struct {
	const char *type, *print;
	bool is_signed;
} types[] = {
	[BRAID_PROBE_U8] = { "u8", "%u" }, [BRAID_PROBE_U16] = { "u16", "%u" },
	[BRAID_PROBE_U32] = { "u32", "%u" }, [BRAID_PROBE_U64] = { "u64", "%Lu" },
	[BRAID_PROBE_S8] = { "s8", "%d", true }, [BRAID_PROBE_S16] = { "s16", "%d", true },
	[BRAID_PROBE_S32] = { "s32", "%d", true }, [BRAID_PROBE_S64] = { "s64", "%Ld", true },
	[BRAID_PROBE_X8] = { "u8", "0x%x" }, [BRAID_PROBE_X16] = { "u16", "0x%x" },
	[BRAID_PROBE_X32] = { "u32", "0x%x" }, [BRAID_PROBE_X64] = { "u64", "0x%Lx" },
	[BRAID_PROBE_SYMBOL] = { "u64", "%pS" },
	[BRAID_PROBE_STRING] = { "__data_loc char[]", "\\\"%s\\\"" },
};

/* The place of a hit, by the kind: fields, print format, values. */
static const char *const places[][3] = {
	[BRAID_PROBE_KERNEL] = {
		"\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n",
		"(%pS)", ", (void *)REC->__probe_ip",
	},
	[BRAID_PROBE_KERNEL_RETURN] = {
		"\tfield:unsigned long __probe_func;\toffset:8;\tsize:8;\tsigned:0;\n"
		"\tfield:unsigned long __probe_ret_ip;\toffset:16;\tsize:8;\tsigned:0;\n",
		"(%pS <- %ps)", ", (void *)REC->__probe_ret_ip, (void *)REC->__probe_func",
	},
	[BRAID_PROBE_USER] = {
		"\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n",
		"(0x%lx)", ", REC->__probe_ip",
	},
	[BRAID_PROBE_USER_RETURN] = {
		"\tfield:unsigned long __probe_func;\toffset:8;\tsize:8;\tsigned:0;\n"
		"\tfield:unsigned long __probe_ret_ip;\toffset:16;\tsize:8;\tsigned:0;\n",
		"(0x%lx <- 0x%lx)", ", REC->__probe_ret_ip, REC->__probe_func",
	},
};

static int braid_probe_format(const struct braid_event *ev, u16 id, char *text, size_t bytes)
{
	const struct braid_probe_event *p = braid_probe_of(ev);
	const char *const *place = places[p->probe.kind];
	size_t len = 0;
	u32 k;

	len += scnprintf(text + len, bytes - len,
			 "name: %s\nID: %u\nformat:\n" BRAID_COMMON_FIELDS "%s", ev->name, id,
			 place[0]);
	for (k = 0; k < p->probe.nr_args; k++) {
		const struct braid_probe_arg *arg = &p->probe.args[k];

		len += scnprintf(text + len, bytes - len,
				 "\tfield:%s %s;\toffset:%u;\tsize:%u;\tsigned:%d;\n",
				 types[arg->type].type, arg->name, p->offsets[k],
				 braid_probe_bytes(arg->type), types[arg->type].is_signed);
	}
	len += scnprintf(text + len, bytes - len, "\nprint fmt: \"%s", place[1]);
	for (k = 0; k < p->probe.nr_args; k++)
		len += scnprintf(text + len, bytes - len, " %s=%s", p->probe.args[k].name,
				 types[p->probe.args[k].type].print);
	len += scnprintf(text + len, bytes - len, "\"%s", place[2]);
	for (k = 0; k < p->probe.nr_args; k++) {
		const struct braid_probe_arg *arg = &p->probe.args[k];

		len += scnprintf(text + len, bytes - len,
				 arg->type == BRAID_PROBE_STRING ? ", __get_str(%s)" :
				 arg->type == BRAID_PROBE_SYMBOL ? ", (void *)REC->%s" :
				 ", REC->%s", arg->name);
	}
	len += scnprintf(text + len, bytes - len, "\n");
	return len + 1 < bytes ? len : -ENOSPC;
}

static const struct braid_event_ops probe_ops = {
	.enable = braid_probe_enable,
	.disable = braid_probe_disable,
	.synchronize = braid_site_synchronize,
	.format = braid_probe_format,
	.filters = true,
	.of_host = true,
};

/* Modules ----------------------------------------------------------------------------------- */

static int braid_probe_module(struct notifier_block *block, unsigned long state, void *data)
{
	const struct module *module = data;
	struct braid_probe_event *p;

	if (state != MODULE_STATE_COMING && state != MODULE_STATE_GOING)
		return NOTIFY_DONE;
	mutex_lock(&probes_lock);
	braid_registry_lock();
	list_for_each_entry(p, &probes, list) {
		if (state == MODULE_STATE_COMING)
			braid_site_came(p, module->name);
		else
			braid_site_goes(p, module->name);
	}
	braid_registry_unlock();
	mutex_unlock(&probes_lock);
	return NOTIFY_DONE;
}

static struct notifier_block of_modules = { .notifier_call = braid_probe_module };

void braid_probe_init(void)
{
	register_module_notifier(&of_modules);	/* fails only if it is registered already */
}

void braid_probe_exit(void)
{
	unregister_module_notifier(&of_modules);
}

/* Setting ----------------------------------------------------------------------------------- */

/* Frees probes that are no longer in the list; the kernel waits once for many of them. */
static void braid_probe_free_all(struct list_head *removed)
{
	struct braid_probe_event *p, *next;
	LIST_HEAD(withdrawn);

	list_for_each_entry(p, removed, list)
		braid_event_withdraw(&p->ev, &withdrawn);
	braid_event_release_all(&withdrawn);
	braid_site_release_all(removed);
	list_for_each_entry_safe(p, next, removed, list)
		kfree(p);
}

static void braid_probe_remove(struct braid_probe_event *p)
{
	LIST_HEAD(removed);

	mutex_lock(&probes_lock);
	list_move(&p->list, &removed);
	mutex_unlock(&probes_lock);
	braid_probe_free_all(&removed);
}

static struct braid_probe_event *braid_probe_find(const char *system, const char *name)
{
	struct braid_probe_event *p;

	list_for_each_entry(p, &probes, list)
		if (!strcmp(p->system, system) && !strcmp(p->name, name))
			return p;
	return NULL;
}

/* Whether there is an event of that name that is not a probe. */
static bool braid_probe_is_taken(const char *system, const char *name)
{
	struct braid_event *ev = NULL;
	bool taken = false;

	braid_registry_lock();
	while (!taken && (ev = braid_registry_next(braid_trace_buffer(), ev)))
		taken = !strcmp(ev->system, system) && !strcmp(ev->name, name);
	braid_registry_unlock();
	return taken;
}

/* What its arguments are in the registers of this machine. */
static int braid_probe_lay_out(struct braid_probe_event *p, struct braid_refusal *refusal)
{
	int offset;
	u32 k;

	p->bytes = braid_probe_layout(&p->probe, p->offsets);
	for (k = 0; k < p->probe.nr_args; k++) {
		const struct braid_probe_arg *arg = &p->probe.args[k];

		if (arg->base == BRAID_PROBE_ARG &&
		    !IS_ENABLED(CONFIG_HAVE_FUNCTION_ARG_ACCESS_API))
			return braid_refuse(refusal, -EOPNOTSUPP,
					    "$argN is not known on this architecture");
		offset = arg->base == BRAID_PROBE_REGISTER ? braid_probe_register(arg->reg) : 0;
		if (offset < 0)
			return braid_refuse(refusal, offset, "%%%s: no such register", arg->reg);
		p->registers[k] = offset;
	}
	return 0;
}

static int braid_probe_resolve(struct braid_probe_event *p, struct braid_refusal *refusal)
{
	int err = braid_site_find(p, refusal);

	if (err)
		return err;
	err = braid_named_resolve(p, refusal) ?: braid_probe_lay_out(p, refusal);
	if (err)
		braid_site_release(p);
	return err;
}

static int braid_probe_add(const char *system, const char *name, const struct braid_probe *probe,
			   struct braid_refusal *refusal)
{
	struct braid_probe_event *p = kzalloc(sizeof(*p), GFP_KERNEL);
	int id;

	if (!p)
		return -ENOMEM;
	p->asked = p->probe = *probe;
	strscpy(p->system, system, sizeof(p->system));
	strscpy(p->name, name, sizeof(p->name));
	p->ev.buffer = braid_trace_buffer();
	p->ev.system = p->system;
	p->ev.name = p->name;
	p->ev.ops = &probe_ops;
	id = braid_probe_resolve(p, refusal);
	if (id) {
		kfree(p);
		return id;
	}
	id = braid_event_add(&p->ev, 0);
	if (id < 0) {
		braid_site_release(p);
		kfree(p);
		return braid_refuse(refusal, id, "no room for another event (%d)", id);
	}
	mutex_lock(&probes_lock);
	list_add_tail(&p->list, &probes);
	braid_registry_lock();
	braid_site_came(p, NULL);	/* it may have been loaded meanwhile */
	braid_registry_unlock();
	mutex_unlock(&probes_lock);
	return 0;
}

int braid_probe_set(const char *system, const char *name, const struct braid_probe *probe,
		    struct braid_refusal *refusal)
{
	struct braid_probe_event *former;
	const char *why;
	int err;

	if (probe->version == BRAID_PROBE_VERSION && probe->kind == BRAID_PROBE_NONE) {
		braid_probe_remove_all();
		return 0;
	}
	err = braid_probe_check(probe, &why);
	if (err)
		return braid_refuse(refusal, err, "%s", why);
	if (!braid_probe_is_name(system, BRAID_PATTERN_BYTES) ||
	    !braid_probe_is_name(name, BRAID_PATTERN_BYTES))
		return braid_refuse(refusal, -EINVAL, "not a name of an event");
	former = braid_probe_find(system, name);
	if (former && !memcmp(&former->asked, probe, sizeof(*probe)))
		return 0;
	if (former)
		braid_probe_remove(former);
	else if (braid_probe_is_taken(system, name))
		return braid_refuse(refusal, -EEXIST, "the guest has another event of that name");
	return braid_probe_add(system, name, probe, refusal);
}

int braid_probe_hits(const char *system, const char *name, struct braid_probe_hits *hits)
{
	const struct braid_probe_event *p = braid_probe_find(system, name);

	if (!p)
		return -ENOENT;
	braid_registry_lock();
	*hits = (struct braid_probe_hits){
		.missed = braid_site_missed(p), .placed = p->placed,
	};
	braid_registry_unlock();
	return 0;
}

void braid_probe_remove_all(void)
{
	LIST_HEAD(removed);

	mutex_lock(&probes_lock);
	list_splice_init(&probes, &removed);
	mutex_unlock(&probes_lock);
	braid_probe_free_all(&removed);
}
