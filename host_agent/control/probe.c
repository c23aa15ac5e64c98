// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads definitions of probes. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/control/probe.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"
#include "shared/probe.h"

struct reader {
	struct braid_probe *probe;
	struct braid_pattern *event;
	bool is_return;
	size_t names;		/* bytes of the probe's symbol that names of arguments take */
	char text[256];		/* of the definition, sanitized; cut */
};

static const struct {
	const char *name;
	u8 type;
	bool user;
} types[] = {
	{ "u8", BRAID_PROBE_U8, false }, { "u16", BRAID_PROBE_U16, false },
	{ "u32", BRAID_PROBE_U32, false }, { "u64", BRAID_PROBE_U64, false },
	{ "s8", BRAID_PROBE_S8, false }, { "s16", BRAID_PROBE_S16, false },
	{ "s32", BRAID_PROBE_S32, false }, { "s64", BRAID_PROBE_S64, false },
	{ "x8", BRAID_PROBE_X8, false }, { "x16", BRAID_PROBE_X16, false },
	{ "x32", BRAID_PROBE_X32, false }, { "x64", BRAID_PROBE_X64, false },
	{ "symbol", BRAID_PROBE_SYMBOL, false }, { "string", BRAID_PROBE_STRING, false },
	{ "ustring", BRAID_PROBE_STRING, true },
};

static int refuse(const struct reader *r, const char *word, const char *why)
{
	char clean[64];

	snprintf(clean, sizeof(clean), "%.63s", word);
	braid_text_clean(clean);
	return braid_fail(-EINVAL, "probe '%s': '%s': %s", r->text, clean, why);
}

/* A number in C's notation that is the rest of a word. */
static bool take_number(const char *at, u64 *value)
{
	char *end;

	if (!isdigit((unsigned char)*at))
		return false;
	errno = 0;
	*value = strtoull(at, &end, 0);
	return !*end && !errno;
}

/* Places ------------------------------------------------------------------------------------ */

/* SYMBOL[+OFFSET]: cuts the symbol off. Return: whether the offset is one. */
static bool cut_offset(char *symbol, u64 *offset)
{
	char *plus = strchr(symbol, '+');

	*offset = 0;
	if (!plus)
		return true;
	*plus = 0;
	return take_number(plus + 1, offset);
}

static int read_place(struct reader *r, char *word, bool user)
{
	struct braid_probe *p = r->probe;
	char *end = strstr(word, "%return"), *colon, *plus;

	if (end && !end[strlen("%return")]) {
		r->is_return = true;
		*end = 0;
	}
	if (strlen(word) >= sizeof(p->target))
		return refuse(r, word, "too long");
	if (!user) {
		p->kind = r->is_return ? BRAID_PROBE_KERNEL_RETURN : BRAID_PROBE_KERNEL;
		plus = strchr(word, '+');
		if (!cut_offset(word, &p->offset)) {
			*plus = '+';
			return refuse(r, word, "its offset is not a number");
		}
		if (!*word || isdigit((unsigned char)*word) || strchr(word, '%'))
			return refuse(r, word, "expected a function of the guest's kernel, as do_sys_openat2 or vfs_read+8");
		if (r->is_return && p->offset)
			return refuse(r, word, "a function returns, whatever the offset in it");
		strcpy(p->target, word);
		return 0;
	}
	p->kind = r->is_return ? BRAID_PROBE_USER_RETURN : BRAID_PROBE_USER;
	colon = strrchr(word, ':');
	if (*word != '/' || !colon || !colon[1])
		return refuse(r, word, "expected a file of the guest and a place in it, as /usr/bin/bash:0x4245 or /usr/bin/bash:readline");
	*colon++ = 0;
	if (!take_number(colon, &p->offset) &&
	    (!cut_offset(colon, &p->offset) || !*colon || isdigit((unsigned char)*colon)))
		return refuse(r, colon, "not an offset, and not a symbol");
	if (!isdigit((unsigned char)*colon))
		strcpy(p->symbol, colon);
	strcpy(p->target, word);
	return 0;
}

/* Names ------------------------------------------------------------------------------------- */

/* "p:SYSTEM/EVENT". Return: whether the word is one; the name is checked later. */
static bool read_head(struct reader *r, char *word, bool user)
{
	char *at = word + 1, *slash;

	if (*word != 'p' && *word != 'r')
		return false;
	if (*word == 'r')		/* how many calls to follow: the guest decides */
		at += strspn(at, "0123456789");
	if (*at && *at != ':')
		return false;
	r->is_return = *word == 'r';
	if (!*at)
		return true;
	slash = strpbrk(++at, "/.");
	if (slash)
		*slash = 0;
	snprintf(r->event->system, sizeof(r->event->system), "%s",
		 slash ? at : user ? "uprobes" : "kprobes");
	snprintf(r->event->event, sizeof(r->event->event), "%s", slash ? slash + 1 : at);
	return true;
}

/* As tracefs names it. */
static void name_event(struct reader *r, bool user)
{
	const struct braid_probe *p = r->probe;
	const char *file = strrchr(p->target, '/');
	char *at;

	if (!*r->event->system)
		strcpy(r->event->system, user ? "uprobes" : "kprobes");
	if (*r->event->event)
		return;
	if (user && *p->symbol)
		snprintf(r->event->event, sizeof(r->event->event), "%c_%.20s_%.30s_%llu",
			 r->is_return ? 'r' : 'p', file + 1, p->symbol,
			 (unsigned long long)p->offset);
	else if (user)
		snprintf(r->event->event, sizeof(r->event->event), "%c_%.40s_0x%llx",
			 r->is_return ? 'r' : 'p', file + 1, (unsigned long long)p->offset);
	else
		snprintf(r->event->event, sizeof(r->event->event), "%c_%.50s_%llu",
			 r->is_return ? 'r' : 'p', p->target, (unsigned long long)p->offset);
	for (at = r->event->event; *at; at++)
		if (!isalnum((unsigned char)*at))
			*at = '_';
}

/* Arguments --------------------------------------------------------------------------------- */

/* NAME[->MEMBER|.MEMBER]..., which the guest resolves. Return: NULL, or what is wrong. */
static const char *read_name(struct reader *r, struct braid_probe_arg *arg, const char *at)
{
	size_t bytes = strlen(at) + 1;

	if (bytes > sizeof(r->probe->symbol) - r->names)
		return "the names of arguments are too long";
	arg->base = BRAID_PROBE_NAMED;
	arg->value = r->names;
	memcpy(r->probe->symbol + r->names, at, bytes);
	r->names += bytes;
	return NULL;
}

/* What is not memory. Return: NULL, or what is wrong. */
static const char *read_base(struct reader *r, struct braid_probe_arg *arg, const char *at)
{
	if (*at == '%') {
		arg->base = BRAID_PROBE_REGISTER;
		if (strlen(at + 1) >= sizeof(arg->reg) || !at[1])
			return "not a register";
		strcpy(arg->reg, at + 1);
		return NULL;
	}
	if (*at == '@' || *at == '\\') {
		arg->base = BRAID_PROBE_VALUE;
		if (take_number(at + 1, &arg->value))
			return NULL;
		return *at == '@' ? "expected an address: the addresses of the guest's variables are not known here" :
				    "expected a number";
	}
	if (!strcmp(at, "$retval")) {
		arg->base = BRAID_PROBE_RETVAL;
		return NULL;
	}
	if (!strcmp(at, "$comm")) {
		arg->base = BRAID_PROBE_COMM;
		return NULL;
	}
	if (!strcmp(at, "$stack")) {
		arg->base = BRAID_PROBE_STACK;
		return NULL;
	}
	if (!strncmp(at, "$arg", 4) && take_number(at + 4, &arg->value) && arg->value--) {
		arg->base = BRAID_PROBE_ARG;
		return NULL;
	}
	if (!braid_probe_is_user(r->probe) &&
	    (isalpha((unsigned char)*at) || *at == '_' || !strncmp(at, "$retval", 7)))
		return read_name(r, arg, at);
	return "expected %REGISTER, $argN, $retval, $stack, $stackN, $comm, @ADDRESS, \\NUMBER, +OFFSET(...) or a name";
}

/* +OFFSET(...), [+|-][u]OFFSET; ends the text before the ')'. Return: what is inside, or NULL. */
static char *read_memory(char *at, s32 *offset, bool *user)
{
	char *end, *close = strrchr(at, ')');
	bool negative = *at == '-';
	unsigned long value;

	if (*at != '+' && *at != '-')
		return NULL;
	at++;
	*user = *at == 'u';
	at += *user;
	value = strtoul(at, &end, 0);
	if (!isdigit((unsigned char)*at) || *end != '(' || !close || close[1] || value > 0x7fffffff)
		return NULL;
	*offset = negative ? -(s32)value : (s32)value;
	*close = 0;
	return end + 1;
}

/* Return: NULL, or what is wrong. */
static const char *read_value(struct reader *r, struct braid_probe_arg *arg, char *at)
{
	s32 offsets[BRAID_PROBE_READS];	/* the outermost, which is the last read, first */
	bool users[BRAID_PROBE_READS];
	const char *why;
	u32 nr = 0, k;
	u64 entry;

	while (*at == '+' || *at == '-') {
		if (nr == BRAID_PROBE_READS)
			return "too many reads of memory, one in the other";
		at = read_memory(at, &offsets[nr], &users[nr]);
		if (!at)
			return "expected +OFFSET(VALUE)";
		nr++;
	}
	if (!strncmp(at, "$stack", 6) && take_number(at + 6, &entry) && entry < 1 << 16) {
		if (nr == BRAID_PROBE_READS)
			return "too many reads of memory, one in the other";
		arg->base = BRAID_PROBE_STACK;
		offsets[nr] = 8 * entry;
		users[nr++] = false;
	} else {
		why = read_base(r, arg, at);
		if (why)
			return why;
	}
	arg->nr_reads = nr;
	for (k = 0; k < nr; k++) {
		arg->offsets[k] = offsets[nr - 1 - k];
		arg->user |= users[nr - 1 - k] << k;
	}
	return NULL;
}

static u8 default_type(const struct braid_probe *p, const struct braid_probe_arg *arg)
{
	if (arg->nr_reads)
		return BRAID_PROBE_X64;
	if (arg->base == BRAID_PROBE_COMM)
		return BRAID_PROBE_STRING;
	return arg->base == BRAID_PROBE_NAMED ||
	       (arg->base == BRAID_PROBE_RETVAL && !braid_probe_is_user(p)) ? BRAID_PROBE_AUTO :
									      BRAID_PROBE_X64;
}

/* Return: NULL, or what is wrong. */
static const char *read_type(const struct braid_probe *p, struct braid_probe_arg *arg,
			     const char *type)
{
	size_t k;

	if (!type) {
		arg->type = default_type(p, arg);
		return NULL;
	}
	for (k = 0; k < sizeof(types) / sizeof(*types); k++) {
		if (strcmp(types[k].name, type))
			continue;
		arg->type = types[k].type;
		if (types[k].user && arg->nr_reads)
			arg->user |= 1 << (arg->nr_reads - 1);
		else if (types[k].user && arg->base == BRAID_PROBE_NAMED)
			arg->user = 1;
		return NULL;
	}
	return "its type is not one of u8 to u64, s8 to s64, x8 to x64, symbol, string and ustring";
}

/* As in tracefs: that of the argument, or argN. */
static void name_argument(struct braid_probe_arg *arg, const char *value, u32 number)
{
	if (strlen(value) < sizeof(arg->name) && braid_probe_is_name(value, strlen(value) + 1))
		strcpy(arg->name, value);
	else
		snprintf(arg->name, sizeof(arg->name), "arg%u", number);
}

static int read_argument(struct reader *r, char *word)
{
	struct braid_probe *p = r->probe;
	struct braid_probe_arg *arg = &p->args[p->nr_args];
	char *equal = strchr(word, '='), *value = equal ? equal + 1 : word, *type;
	const char *why;
	char was[64];

	if (p->nr_args == BRAID_PROBE_ARGS)
		return refuse(r, word, "too many arguments");
	p->nr_args++;
	snprintf(was, sizeof(was), "%.63s", word);
	if (equal)
		*equal = 0;
	if (equal && strlen(word) >= sizeof(arg->name))
		return refuse(r, word, "the name is too long");
	if (!strcmp(word, "$arg*")) {
		arg->base = BRAID_PROBE_ALL;
		arg->type = BRAID_PROBE_AUTO;
		return 0;
	}
	type = strrchr(value, ':');
	if (type)
		*type++ = 0;
	if (equal)
		strcpy(arg->name, word);
	else
		name_argument(arg, value, p->nr_args);
	why = read_value(r, arg, value);
	if (!why)
		why = read_type(p, arg, type);
	return why ? refuse(r, was, why) : 0;
}

/* ------------------------------------------------------------------------------------------- */

static int read_words(struct reader *r, char *text, bool user)
{
	char *word = strtok_r(text, " \t", &text);
	int err;

	if (word && read_head(r, word, user))
		word = strtok_r(NULL, " \t", &text);
	if (!word)
		return braid_fail(-EINVAL, user ? "expected FILE:SYMBOL or FILE:OFFSET, and arguments, as '/bin/bash:readline line=+0($retval):string'" :
				  "expected a function and arguments, as 'do_sys_openat2 file=+0(%%si):string'");
	err = read_place(r, word, user);
	while (!err && (word = strtok_r(NULL, " \t", &text)))
		err = read_argument(r, word);
	return err;
}

int braid_probe_parse(struct braid_probe *out, struct braid_pattern *event, const char *text,
		      bool user)
{
	braid_auto_free char *copy = strdup(text);
	struct reader r = { .probe = out, .event = event };
	const char *why;
	int err;

	if (!copy)
		return braid_out_of_memory();
	memset(out, 0, sizeof(*out));
	memset(event, 0, sizeof(*event));
	out->version = BRAID_PROBE_VERSION;
	snprintf(r.text, sizeof(r.text), "%.255s", text);
	braid_text_clean(r.text);
	err = read_words(&r, copy, user);
	if (err)
		return err;
	name_event(&r, user);
	if (!braid_probe_is_name(event->system, sizeof(event->system)) ||
	    !braid_probe_is_name(event->event, sizeof(event->event)))
		return refuse(&r, event->event, "not a name of an event");
	err = braid_probe_check(out, &why);
	return err ? braid_fail(err, "probe '%s': %s", r.text, why) : 0;
}
