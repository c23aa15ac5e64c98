// SPDX-License-Identifier: GPL-2.0-or-later
/* The accounting of a live region, ring by ring, without touching it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/cli.h"
#include "host_agent/live/account.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

struct stat_walk {
	const struct braid_mapping *m;
	struct braid_superblock sb;
	struct braid_ring_account total;
	struct braid_text out;
	const char *buffer;	/* NULL: all */
	bool json;
	bool failed;
	bool moving;
	u32 nr_rings;
	u64 unnamed;		/* addresses that did not fit the guest's symbol table */
	u64 lost_stacks;	/* likewise, stacks and the table of stacks */
};

/* How long recording was off: the guest counts from when the buffer was made. */
static u64 off_ns(const struct stat_walk *w, const struct braid_ring_off *off)
{
	return braid_ring_off_ns(off->steps, w->sb.counter_hz);
}

static void put_json_off(struct stat_walk *w, const struct braid_ring_off *off)
{
	if (off->known)
		braid_text_printf(&w->out, ",\"off\":%s,\"off_times\":%llu,\"off_ns\":%llu",
				  off->now ? "true" : "false", (unsigned long long)off->times,
				  (unsigned long long)off_ns(w, off));
	else
		braid_text_puts(&w->out, ",\"off\":null,\"off_times\":null,\"off_ns\":null");
}

static void put_line_off(struct stat_walk *w, const struct braid_ring_off *off)
{
	if (off->known && off->times)
		braid_text_printf(&w->out, "; recording %s off: %llu time%s, %.6f s in all",
				  off->now ? "is" : "was", (unsigned long long)off->times,
				  off->times == 1 ? "" : "s", (double)off_ns(w, off) / 1e9);
}

static void stat_region_put_json(struct stat_walk *w, u32 buffer, u32 vcpu,
				 const struct braid_ring_account *a,
				 const struct braid_ring_off *off)
{
	braid_text_puts(&w->out, w->nr_rings ? ",\n{\"buffer\":" : "\n{\"buffer\":");
	braid_text_json(&w->out, w->sb.buffers[buffer].name, BRAID_NAME_BYTES);
	braid_text_printf(&w->out, ",\"cpu\":%u,\"written\":%llu,\"read\":%llu,\"lost\":%llu,\"left\":%llu,\"moving\":%s,\"fault\":",
			  vcpu, (unsigned long long)a->written, (unsigned long long)a->read,
			  (unsigned long long)a->lost, (unsigned long long)a->left,
			  a->moving ? "true" : "false");
	if (*a->fault)
		braid_text_json(&w->out, a->fault, strlen(a->fault));
	else
		braid_text_puts(&w->out, "null");
	put_json_off(w, off);
	braid_text_putc(&w->out, '}');
}

static void put_line(struct stat_walk *w, u32 buffer, u32 vcpu, const struct braid_ring_account *a,
		     const struct braid_ring_off *off)
{
	char name[BRAID_NAME_BYTES];

	memcpy(name, w->sb.buffers[buffer].name, sizeof(name));
	braid_text_clean(name);
	braid_text_printf(&w->out, "%-16s %4u %14llu %14llu %12llu %12llu  %s", name, vcpu,
			  (unsigned long long)a->written, (unsigned long long)a->read,
			  (unsigned long long)a->lost, (unsigned long long)a->left,
			  *a->fault ? a->fault : a->moving ? "moving" : "ok");
	put_line_off(w, off);
	braid_text_putc(&w->out, '\n');
}

/* A ring's content. Rings added or removed meanwhile are shown in their final state. */
static bool account(struct stat_walk *w, u32 buffer, u32 vcpu, struct braid_ring_account *a,
		    struct braid_ring_off *off)
{
	struct braid_ring_map map;
	int err, tries;

	for (tries = 0; tries < BRAID_MOVE_TRIES; tries++) {
		if (vcpu >= w->sb.buffers[buffer].nr_rings)
			return false;
		memset(a, 0, sizeof(*a));
		braid_mapping_ring(w->m, &w->sb, buffer, vcpu, &map);
		*off = braid_ring_off(&map);
		err = braid_ring_account(a, &map, w->m, w->sb.incarnation, NULL, NULL);
		if (braid_mapping_buffers_seq(w->m) == w->sb.buffers_seq)
			break;
		braid_mapping_buffers(w->m, &w->sb);
	}
	if (!err && tries < BRAID_MOVE_TRIES)
		return true;
	memset(a, 0, sizeof(*a));
	off->known = false;
	snprintf(a->fault, sizeof(a->fault), "%.150s", err ? braid_failure() :
		 "the guest keeps changing its buffers");
	return true;
}

static void stat_ring(struct stat_walk *w, u32 buffer, u32 vcpu)
{
	struct braid_ring_account a;
	struct braid_ring_off off;

	if (!account(w, buffer, vcpu, &a, &off))
		return;
	w->failed |= *a.fault;
	w->moving |= a.moving;
	w->total.written += a.written;
	w->total.read += a.read;
	w->total.lost += a.lost;
	w->total.left += a.left;
	if (w->json)
		stat_region_put_json(w, buffer, vcpu, &a, &off);
	else
		put_line(w, buffer, vcpu, &a, &off);
	w->nr_rings++;
}

static int stat_rings(void *arg)
{
	const struct braid_symbol_table *symbols;
	const struct braid_stack_table *stacks;
	struct stat_walk *w = arg;
	u32 buffer, vcpu;

	symbols = braid_mapping_section(w->m, &w->sb, BRAID_SECTION_SYMBOLS);
	w->unnamed = braid_load(&symbols->missed);
	if (w->sb.sections[BRAID_SECTION_STACKS].bytes) {
		stacks = braid_mapping_section(w->m, &w->sb, BRAID_SECTION_STACKS);
		w->lost_stacks = braid_load(&stacks->missed);
	}
	for (buffer = 0; buffer < w->sb.nr_buffers; buffer++) {
		/* Added or removed meanwhile: show the present state. */
		if (braid_mapping_buffers_seq(w->m) != w->sb.buffers_seq)
			braid_mapping_buffers(w->m, &w->sb);
		if (w->buffer && strcmp(w->sb.buffers[buffer].name, w->buffer))
			continue;
		for (vcpu = 0; vcpu < w->sb.buffers[buffer].nr_rings; vcpu++)
			stat_ring(w, buffer, vcpu);
	}
	if (w->buffer && !w->nr_rings)
		return braid_fail(-ENOENT, "%s: no buffer '%s'", w->m->path, w->buffer);
	return 0;
}

static void put_total(struct stat_walk *w)
{
	const struct braid_ring_account *t = &w->total;

	if (w->json) {
		braid_text_printf(&w->out,
				  "\n],\"written\":%llu,\"read\":%llu,\"lost\":%llu,\"left\":%llu,\"unnamed_symbols\":%llu,\"lost_stacks\":%llu,\"ok\":%s}\n",
				  (unsigned long long)t->written, (unsigned long long)t->read,
				  (unsigned long long)t->lost, (unsigned long long)t->left,
				  (unsigned long long)w->unnamed,
				  (unsigned long long)w->lost_stacks, w->failed ? "false" : "true");
		return;
	}
	braid_text_printf(&w->out, "%-16s %4s %14llu %14llu %12llu %12llu\n", "all", "",
			  (unsigned long long)t->written, (unsigned long long)t->read,
			  (unsigned long long)t->lost, (unsigned long long)t->left);
	if (w->unnamed)
		braid_text_printf(&w->out,
				  "Unnamed kernel addresses in events: at least %llu. The guest's symbol table is full; load its driver with a larger symbols=.\n",
				  (unsigned long long)w->unnamed);
	if (w->lost_stacks)
		braid_text_printf(&w->out,
				  "Stacks of events that are not known: %llu. The guest's table of stacks is full; load its driver with a larger stacks=.\n",
				  (unsigned long long)w->lost_stacks);
	if (w->failed)
		braid_text_puts(&w->out, "The accounting does not add up.\n");
	else if (w->moving)
		braid_text_puts(&w->out, "Rings marked \"moving\" changed faster than they could be counted.\n");
	else
		braid_text_puts(&w->out, "written = read + lost + left, in every ring.\n");
}

int braid_stat_region(const char *path, bool json, const char *buffer)
{
	braid_auto_free struct stat_walk *w = calloc(1, sizeof(*w));
	struct braid_mapping *m = NULL;
	int err;

	if (!w) {
		braid_out_of_memory();
		return braid_complain();
	}
	w->json = json;
	w->buffer = buffer;
	err = braid_mapping_open(&m, path, false);
	if (!err)
		err = braid_mapping_identify(m, &w->sb);
	w->m = m;
	braid_text_printf(&w->out, json ? "{\"rings\":[" : "%-16s %4s %14s %14s %12s %12s\n", "BUFFER", "VCPU",
			  "WRITTEN", "READ", "LOST", "LEFT");
	if (!err)
		err = braid_guard_run(m->base, m->bytes, stat_rings, w);
	braid_mapping_close(m);
	if (!err) {
		put_total(w);
		fwrite(w->out.data, 1, w->out.bytes, stdout);
		err = fflush(stdout) || w->out.failed;
	} else {
		braid_complain();
	}
	braid_text_free(&w->out);
	return err || w->failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
