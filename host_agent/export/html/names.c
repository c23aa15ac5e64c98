// SPDX-License-Identifier: GPL-2.0-or-later
/* Names by their numbers, and the ones not yet in the page; what spans are called. */
#include <errno.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/export/html/names.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/hash.h"

#define MAX_NAMES	(1u << 20)	/* a guest could invent new ones without limit */
#define MAX_NAME_BYTES	128u

struct name {
	s64 number;
	size_t at;		/* of its text in texts */
	u32 group;
	u16 type;
	u16 bytes;
};

struct braid_html_names {
	struct name *names;
	size_t nr, capacity;
	struct braid_hash by_name;
	struct braid_text texts;
	struct braid_text sanitized;	/* the text to find */
	struct braid_text chunk;
	size_t written;		/* names that the page has */
};

static u32 html_names_hash_of(const struct name *name, const char *text)
{
	const u64 head[] = { name->number, (u64)name->group << 32 | name->type };

	return braid_hash_of(text, name->bytes, braid_hash_of(head, sizeof(head), 0));
}

struct key {
	const struct name *name;
	const char *text;
};

static bool html_names_same(const void *in, u32 number, const void *of)
{
	const struct braid_html_names *n = in;
	const struct key *key = of;
	const struct name *a = &n->names[number], *b = key->name;

	return a->number == b->number && a->group == b->group && a->type == b->type &&
	       a->bytes == b->bytes && !memcmp(n->texts.data + a->at, key->text, b->bytes);
}

u32 braid_html_name(struct braid_html_names *n, enum braid_html_name_type type, u32 group,
		    s64 number, const char *text, size_t bytes)
{
	struct name name = { .number = number, .group = group, .type = type };
	u32 hash, found;

	bytes = strnlen(text, bytes < MAX_NAME_BYTES ? bytes : MAX_NAME_BYTES);
	if (!braid_text_plain(text, bytes)) {
		n->sanitized.bytes = 0;
		braid_text_safe(&n->sanitized, text, bytes);
		if (n->sanitized.failed)
			return BRAID_HTML_NAME_MANY;
		text = n->sanitized.data;
		bytes = n->sanitized.bytes;
	}
	name.bytes = bytes;
	name.at = n->texts.bytes;
	hash = html_names_hash_of(&name, text);
	found = braid_hash_find(&n->by_name, hash, html_names_same, n, &(struct key){ &name, text });
	if (found != BRAID_HASH_NONE)
		return found;
	if (braid_hash_reserve(&n->by_name, MAX_NAMES))
		return BRAID_HTML_NAME_MANY;
	braid_text_put(&n->texts, text, bytes);
	if (n->texts.failed || braid_array_push(n->names, n->nr, n->capacity, name))
		return BRAID_HTML_NAME_MANY;
	braid_hash_put(&n->by_name, hash, n->nr - 1);
	return n->nr - 1;
}

static u32 plain(struct braid_html_names *n, const char *text)
{
	return braid_html_name(n, BRAID_HTML_OTHER, 0, 0, text, strlen(text));
}

struct braid_html_names *braid_html_names_new(void)
{
	struct braid_html_names *n = calloc(1, sizeof(*n));

	if (!n || !braid_text_reserve(&n->sanitized, MAX_NAME_BYTES) ||
	    !braid_text_reserve(&n->texts, MAX_NAME_BYTES) ||
	    plain(n, "LOST") != BRAID_HTML_NAME_LOST || plain(n, "NOTE") != BRAID_HTML_NAME_NOTE ||
	    plain(n, "(too many names)") != BRAID_HTML_NAME_MANY) {
		braid_html_names_free(n);
		return NULL;
	}
	return n;
}

void braid_html_names_free(struct braid_html_names *n)
{
	if (!n)
		return;
	free(n->names);
	braid_hash_free(&n->by_name);
	braid_text_free(&n->texts);
	braid_text_free(&n->sanitized);
	braid_text_free(&n->chunk);
	free(n);
}

int braid_html_names_flush(struct braid_html_names *n, struct braid_html_out *o)
{
	size_t k;

	if (n->written == n->nr)
		return 0;
	n->chunk.bytes = 0;
	for (k = n->written; k < n->nr; k++) {
		const struct name *name = &n->names[k];

		braid_html_put(&n->chunk, name->type);
		braid_html_put(&n->chunk, name->group);
		braid_html_put_signed(&n->chunk, name->number);
		braid_html_put(&n->chunk, name->bytes);
		braid_text_put(&n->chunk, n->texts.data + name->at, name->bytes);
	}
	if (n->chunk.failed)
		return braid_out_of_memory();
	n->written = n->nr;
	return braid_html_out_chunk(o, "names", n->chunk.data, n->chunk.bytes);
}

/* Spans ----------------------------------------------------------------------------------- */

/* How the text of an event that begins a handler names what it is about. */
static const struct {
	const char *stem, *called, *before;
	char after;
} details[] = {
	{ "irq_handler", "irq", "name=", '\0' },
	{ "softirq", "softirq", "[action=", ']' },
	{ "hrtimer_expire", "hrtimer", "function=", ' ' },
	{ "timer_expire", "timer", "function=", ' ' },
};

#define NR(list)	(sizeof(list) / sizeof(*(list)))

u32 braid_html_irq_name(struct braid_html_names *n, const struct braid_html_seen *seen)
{
	size_t k, bytes = strlen(seen->info->name) - strlen("_entry");
	const char *from, *to;
	char name[160], *at;

	for (k = 0; k < NR(details); k++) {
		if (strlen(details[k].stem) != bytes ||
		    memcmp(seen->info->name, details[k].stem, bytes))
			continue;
		from = strstr(seen->text, details[k].before);
		if (!from)
			break;
		from += strlen(details[k].before);
		to = strchrnul(from, details[k].after);
		at = stpcpy(stpcpy(name, details[k].called), " ");
		at = mempcpy(at, from, to - from < 128 ? to - from : 128);
		return braid_html_name(n, BRAID_HTML_IRQ, 0, 0, name, at - name);
	}
	return braid_html_name(n, BRAID_HTML_IRQ, 0, 0, seen->info->name, bytes);
}

/* libseccomp's words for machines as uname(1) names them. */
static const struct {
	const char *machine;
	u32 arch;
} archs[BRAID_HTML_MACHINES] = {
	{ "x86_64", SCMP_ARCH_X86_64 }, { "aarch64", SCMP_ARCH_AARCH64 },
	{ "riscv64", SCMP_ARCH_RISCV64 }, { "ppc64le", SCMP_ARCH_PPC64LE },
	{ "s390x", SCMP_ARCH_S390X }, { "i686", SCMP_ARCH_X86 },
	{ "i586", SCMP_ARCH_X86 }, { "armv7l", SCMP_ARCH_ARM },
};

/* By its number: libseccomp searches through all names. */
static u32 number_name(struct braid_html_names *n, u32 machine, u32 id)
{
	char number[32], *name = NULL;
	const char *label = number;
	u32 ret;

	snprintf(number, sizeof(number), "syscall %u", id);
	if (machine < BRAID_HTML_MACHINES)
		name = seccomp_syscall_resolve_num_arch(archs[machine].arch, id);
	if (name)
		label = name;
	ret = braid_html_name(n, BRAID_HTML_SYSCALL, 0, 0, label, strlen(label));
	free(name);
	return ret;
}

u32 braid_html_call_name(struct braid_html_names *n, struct braid_html_calls *calls,
			 u32 call, const char *name, const char *machine)
{
	u32 id = call - BRAID_CALL_NUMBER, number = 0, *known;

	if (call < BRAID_CALL_NUMBER)
		return braid_html_name(n, BRAID_HTML_SYSCALL, 0, 0, name, strlen(name));
	while (number < BRAID_HTML_MACHINES && strcmp(machine, archs[number].machine))
		number++;
	if (number == BRAID_HTML_MACHINES || id >= BRAID_HTML_CALLS)
		return number_name(n, number, id);
	known = &calls->names[number][id];
	if (!*known)
		*known = number_name(n, number, id) + 1;
	return *known - 1;
}

u32 braid_html_exit_name(struct braid_html_names *n, const struct braid_html_seen *seen)
{
	char name[BRAID_NAME_TEXT];

	braid_exit_name(braid_role_reason(seen->role, seen->item), name);
	return braid_html_name(n, BRAID_HTML_EXIT, 0, 0, name, strlen(name));
}

u32 braid_html_next_name(struct braid_html_names *n, const struct braid_html_seen *seen, s32 pid)
{
	const char *comm = braid_format_comm(seen->item, pid);
	char last[BRAID_COMM_BYTES] = "";

	/* The host's tracefs drops names; the event has it. */
	if (!strcmp(comm, BRAID_COMM_UNKNOWN) && braid_role_comm(seen->role, 3, seen->item, last))
		comm = last;
	return braid_html_name(n, BRAID_HTML_TASK, seen->group, pid, comm, strlen(comm));
}
