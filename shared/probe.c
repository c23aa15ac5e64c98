// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Checks probes, and lays out their records. */
#include "shared/probe.h"

static bool braid_probe_ends(const char *text, u32 bytes)
{
	return memchr(text, 0, bytes);
}

bool braid_probe_is_name(const char *text, u32 bytes)
{
	const char *at = text;

	if (!*text || !braid_probe_ends(text, bytes) || (*text >= '0' && *text <= '9'))
		return false;
	for (; *at; at++) {
		bool letter = (*at | 32) >= 'a' && (*at | 32) <= 'z';

		if (*at != '_' && (*at < '0' || *at > '9') && !letter)
			return false;
	}
	return true;
}

u32 braid_probe_bytes(u8 type)
{
	switch (type) {
	case BRAID_PROBE_U8:
	case BRAID_PROBE_S8:
	case BRAID_PROBE_X8:
		return 1;
	case BRAID_PROBE_U16:
	case BRAID_PROBE_S16:
	case BRAID_PROBE_X16:
		return 2;
	case BRAID_PROBE_U32:
	case BRAID_PROBE_S32:
	case BRAID_PROBE_X32:
	case BRAID_PROBE_STRING:
		return 4;
	}
	return 8;
}

static bool braid_probe_is_letter(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* NAME[->MEMBER|.MEMBER]..., where NAME may be $retval. */
static bool braid_probe_is_path(const char *at)
{
	static const char retval[] = "$retval";

	if (*at == '$') {
		if (strncmp(at, retval, sizeof(retval) - 1))
			return false;
		at += sizeof(retval) - 1;
		if (braid_probe_is_letter(*at))
			return false;
	} else if (!braid_probe_is_letter(*at)) {
		return false;
	}
	while (*at) {
		while (braid_probe_is_letter(*at))
			at++;
		if (!*at)
			break;
		if (*at == '-' && at[1] == '>')
			at++;
		else if (*at != '.')
			return false;
		if (!braid_probe_is_letter(*++at))
			return false;
	}
	return true;
}

/* Return: NULL, or what is wrong. */
static const char *braid_probe_check_named(const struct braid_probe *p,
					   const struct braid_probe_arg *arg)
{
	if (braid_probe_is_user(p))
		return "names of arguments are known only of the kernel's functions";
	if (p->kind == BRAID_PROBE_KERNEL && p->offset)
		return "names of arguments: only at the start of a function";
	if (arg->base == BRAID_PROBE_ALL)
		return p->kind == BRAID_PROBE_KERNEL && arg->type == BRAID_PROBE_AUTO &&
		       !arg->nr_reads ? NULL : "$arg*: only at a function's start, without a type";
	if (arg->value >= sizeof(p->symbol) ||
	    !braid_probe_ends(p->symbol + arg->value, sizeof(p->symbol) - arg->value) ||
	    !braid_probe_is_path(p->symbol + arg->value))
		return "not a name of an argument and its members";
	return p->symbol[arg->value] == '$' && !braid_probe_is_return(p) ?
	       "$retval: only when a function returns" : NULL;
}

/* Return: NULL, or what is wrong. */
static const char *braid_probe_check_base(const struct braid_probe *p,
					  const struct braid_probe_arg *arg)
{
	switch (arg->base) {
	case BRAID_PROBE_REGISTER:
		return *arg->reg && braid_probe_ends(arg->reg, sizeof(arg->reg)) ? NULL :
		       "a register without a name";
	case BRAID_PROBE_RETVAL:
		return braid_probe_is_return(p) ? NULL : "$retval: only when a function returns";
	case BRAID_PROBE_ARG:
		return p->kind == BRAID_PROBE_KERNEL && !p->offset && arg->value < 8 ? NULL :
		       "$argN: only at the start of a kernel function, and up to 8";
	case BRAID_PROBE_COMM:
		return arg->type == BRAID_PROBE_STRING && !arg->nr_reads ? NULL :
		       "$comm is a string";
	case BRAID_PROBE_NAMED:
	case BRAID_PROBE_ALL:
		return braid_probe_check_named(p, arg);
	}
	return arg->base < BRAID_PROBE_NR_BASES ? NULL : "unknown kind of argument";
}

/* Whether an argument may leave its type to BTF. */
static bool braid_probe_may_be_auto(const struct braid_probe *p, const struct braid_probe_arg *arg)
{
	return !arg->nr_reads && (arg->base == BRAID_PROBE_NAMED || arg->base == BRAID_PROBE_ALL ||
				  (arg->base == BRAID_PROBE_RETVAL && !braid_probe_is_user(p)));
}

static const char *braid_probe_check_arg(const struct braid_probe *p, u32 at)
{
	const struct braid_probe_arg *arg = &p->args[at];
	u32 k;

	if (arg->base == BRAID_PROBE_ALL) {
		for (k = 0; k < at; k++)
			if (p->args[k].base == BRAID_PROBE_ALL)
				return "$arg* twice";
		return *arg->name || arg->reserved0 ? "$arg* has no name" :
		       braid_probe_check_base(p, arg);
	}
	if (!braid_probe_is_name(arg->name, sizeof(arg->name)) ||
	    !strncmp(arg->name, "common_", strlen("common_")) ||
	    !strncmp(arg->name, "__probe_", strlen("__probe_")))
		return "not a name of an argument";
	for (k = 0; k < at; k++)
		if (!strcmp(p->args[k].name, arg->name))
			return "two arguments of one name";
	if (arg->type >= BRAID_PROBE_NR_TYPES || arg->reserved0)
		return "unknown type";
	if (arg->type == BRAID_PROBE_AUTO && !braid_probe_may_be_auto(p, arg))
		return "its type is not known";
	if (arg->nr_reads > BRAID_PROBE_READS)
		return "too many reads of memory";
	if (arg->type == BRAID_PROBE_STRING && !arg->nr_reads && arg->base != BRAID_PROBE_COMM &&
	    arg->base != BRAID_PROBE_NAMED)
		return "a string is in memory, as +0(%si)";
	return braid_probe_check_base(p, arg);
}

static const char *braid_probe_check_target(const struct braid_probe *p)
{
	if (!*p->target || !braid_probe_ends(p->target, sizeof(p->target)) ||
	    !braid_probe_ends(p->symbol, sizeof(p->symbol)))
		return "no target";
	if (braid_probe_is_user(p))
		return *p->target == '/' ? NULL : "the path of a file begins with /";
	return *p->symbol && !braid_probe_has_names(p) ? "a symbol in a file, but no file" : NULL;
}

int braid_probe_check(const struct braid_probe *p, const char **why)
{
	u32 k;

	*why = "another version";
	if (p->version != BRAID_PROBE_VERSION)
		return -EOPNOTSUPP;
	*why = "unknown kind of probe";
	if (p->kind == BRAID_PROBE_NONE || p->kind >= BRAID_PROBE_NR_KINDS || p->reserved0)
		return -EINVAL;
	*why = "too many arguments";
	if (p->nr_args > BRAID_PROBE_ARGS)
		return -EINVAL;
	*why = braid_probe_check_target(p);
	for (k = 0; !*why && k < p->nr_args; k++)
		*why = braid_probe_check_arg(p, k);
	return *why ? -EINVAL : 0;
}

bool braid_probe_has_names(const struct braid_probe *p)
{
	u32 k;

	for (k = 0; k < p->nr_args && k < BRAID_PROBE_ARGS; k++)
		if (p->args[k].base == BRAID_PROBE_NAMED || p->args[k].base == BRAID_PROBE_ALL)
			return true;
	return false;
}

bool braid_probe_is_complete(const struct braid_probe *p)
{
	u32 k;

	for (k = 0; k < p->nr_args; k++)
		if (p->args[k].type == BRAID_PROBE_AUTO)
			return false;
	return !braid_probe_has_names(p);
}

u32 braid_probe_layout(const struct braid_probe *p, u16 offsets[BRAID_PROBE_ARGS])
{
	u32 at = BRAID_PROBE_HEAD(p->kind), k, bytes;

	for (k = 0; k < p->nr_args; k++) {
		bytes = braid_probe_bytes(p->args[k].type);
		at = (at + bytes - 1) & ~(bytes - 1);
		offsets[k] = at;
		at += bytes;
	}
	return at;
}
