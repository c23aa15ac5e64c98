// SPDX-License-Identifier: GPL-2.0-or-later
/* Arguments of probes by name: their registers, types and members, and what is refused. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/control/probe.h"
#include "host_agent/util/error.h"
#include "shared/btf_probe.h"
#include "shared/probe.h"
#include "tests/unit/check.h"
#include "tests/unit/made_btf.h"

static struct braid_btf_types types;
static struct braid_btf_error error;
static struct braid_probe probe;
static bool damaged;		/* the BTF: what is resolved by it is checked by the guest */

static int resolve_by(const char *text, struct braid_btf_types *by)
{
	struct braid_pattern event;
	struct braid_probe asked;
	const char *why;
	int err;

	memset(&error, 0, sizeof(error));
	if (braid_probe_parse(&asked, &event, text, false)) {
		printf("%s\n", braid_failure());
		CHECK(!"the agent refuses it");
		return 1;
	}
	err = braid_btf_resolve(&probe, &asked, by, &error);
	if (err || damaged)
		return err;
	if (braid_probe_check(&probe, &why))
		printf("%s: %s\n", text, why);
	CHECK_EQ(braid_probe_check(&probe, &why), 0);
	CHECK(braid_probe_is_complete(&probe));
	return 0;
}

static int resolve(const char *text)
{
	return resolve_by(text, &types);
}

static void is(u32 at, const char *name, u8 base, u64 value, u8 type)
{
	const struct braid_probe_arg *arg = &probe.args[at];

	CHECK(at < probe.nr_args);
	if (strcmp(arg->name, name) || arg->base != base || arg->value != value ||
	    arg->type != type)
		printf("%u: %s, base %u, value %llu, type %u\n", at, arg->name, arg->base,
		       (unsigned long long)arg->value, arg->type);
	CHECK(!strcmp(arg->name, name));
	CHECK_EQ(arg->base, base);
	CHECK_EQ(arg->value, value);
	CHECK_EQ(arg->type, type);
}

static void has_reads(u32 at, u32 nr, s32 first, s32 second, s32 third)
{
	const s32 offsets[] = { first, second, third };
	u32 k;

	CHECK_EQ(probe.args[at].nr_reads, nr);
	for (k = 0; k < nr; k++)
		CHECK_EQ(probe.args[at].offsets[k], offsets[k]);
}

static void test_arguments(void)
{
	CHECK_EQ(resolve("work $arg*"), 0);
	CHECK_EQ(probe.nr_args, 6);
	is(0, "file", BRAID_PROBE_ARG, 0, BRAID_PROBE_X64);
	is(1, "name", BRAID_PROBE_ARG, 1, BRAID_PROBE_X64);
	is(2, "byte", BRAID_PROBE_ARG, 2, BRAID_PROBE_S8);
	is(3, "half", BRAID_PROBE_ARG, 3, BRAID_PROBE_U16);
	is(4, "flag", BRAID_PROBE_ARG, 4, BRAID_PROBE_U8);
	is(5, "kind", BRAID_PROBE_ARG, 5, BRAID_PROBE_S32);
	CHECK_EQ(resolve("work x=%di $arg* half2=half:x8 $comm"), 0);
	CHECK_EQ(probe.nr_args, 9);
	is(0, "x", BRAID_PROBE_REGISTER, 0, BRAID_PROBE_X64);
	is(7, "half2", BRAID_PROBE_ARG, 3, BRAID_PROBE_X8);
	CHECK_EQ(resolve("nothing $arg*"), 0);
	CHECK_EQ(probe.nr_args, 0);
}

static void test_strings(void)
{
	CHECK_EQ(resolve("work name:string u=name:ustring file->label:string "
			 "file->inode->title:string"), 0);
	is(0, "name", BRAID_PROBE_ARG, 1, BRAID_PROBE_STRING);
	has_reads(0, 1, 0, 0, 0);
	CHECK_EQ(probe.args[0].user, 0);
	CHECK_EQ(probe.args[1].user, 1);
	is(2, "arg3", BRAID_PROBE_ARG, 0, BRAID_PROBE_STRING);
	has_reads(2, 1, 8, 0, 0);
	has_reads(3, 3, 0, 8, 0);
	CHECK_EQ(resolve("work file:string"), -EINVAL);
	CHECK(!strcmp(error.what, "not a string"));
	CHECK_EQ(resolve("work file->inode->number:string"), -EINVAL);
}

static void test_members(void)
{
	CHECK_EQ(resolve("work n=file->inode->number file->pair.b d=file->deep e=file->either "
			 "o=file->other"), 0);
	is(0, "n", BRAID_PROBE_ARG, 0, BRAID_PROBE_U64);
	has_reads(0, 2, 0, 0, 0);
	is(1, "arg2", BRAID_PROBE_ARG, 0, BRAID_PROBE_U64);
	has_reads(1, 1, 24, 0, 0);
	is(2, "d", BRAID_PROBE_ARG, 0, BRAID_PROBE_S32);
	has_reads(2, 1, 40, 0, 0);
	is(3, "e", BRAID_PROBE_ARG, 0, BRAID_PROBE_S64);
	has_reads(3, 1, 48, 0, 0);
	is(4, "o", BRAID_PROBE_ARG, 0, BRAID_PROBE_U8);
	CHECK_EQ(resolve("work x=+16(file->inode) y=+u4(name):u8"), 0);
	is(0, "x", BRAID_PROBE_ARG, 0, BRAID_PROBE_X64);
	has_reads(0, 2, 0, 16, 0);
	has_reads(1, 1, 4, 0, 0);
	CHECK_EQ(probe.args[1].user, 1);
	CHECK_EQ(resolve("work file->inode->next->next->next->next->number"), 0);
	CHECK_EQ(resolve("work file->inode->next->next->next->next->next->number"), -E2BIG);
	CHECK_EQ(resolve("work file->low"), -EINVAL);
	CHECK(!strcmp(error.what, "a bit field") && !strcmp(error.name, "low"));
	CHECK_EQ(resolve("work file->pair"), -EINVAL);
	CHECK_EQ(resolve("work file.inode"), -EINVAL);
	CHECK_EQ(resolve("work file->inode.number"), -EINVAL);
	CHECK_EQ(resolve("work half->x"), -EINVAL);
	CHECK(!strcmp(error.what, "not a pointer") && !strcmp(error.name, "half"));
	CHECK_EQ(resolve("work +8(file->pair)"), -EINVAL);
	CHECK_EQ(resolve("text opaque->x"), -EINVAL);
}

static void test_returns(void)
{
	CHECK_EQ(resolve("r work $retval x=$retval:x16"), 0);
	is(0, "arg1", BRAID_PROBE_RETVAL, 0, BRAID_PROBE_S64);
	is(1, "x", BRAID_PROBE_RETVAL, 0, BRAID_PROBE_X16);
	CHECK_EQ(resolve("r text s=+0($retval):string $retval"), 0);
	is(1, "arg2", BRAID_PROBE_RETVAL, 0, BRAID_PROBE_X64);
	CHECK_EQ(resolve("r nothing $retval"), -EINVAL);
	CHECK(!strcmp(error.what, "the function returns nothing"));
	CHECK_EQ(resolve("r work file"), -EINVAL);
	/* As without BTF. */
	CHECK_EQ(resolve_by("r work $retval", NULL), 0);
	is(0, "arg1", BRAID_PROBE_RETVAL, 0, BRAID_PROBE_X64);
	CHECK_EQ(resolve("r unknown $retval"), 0);
	is(0, "arg1", BRAID_PROBE_RETVAL, 0, BRAID_PROBE_X64);
	CHECK_EQ(resolve("r twice $retval"), 0);
	is(0, "arg1", BRAID_PROBE_RETVAL, 0, BRAID_PROBE_X64);
}

static void test_registers(void)
{
#ifdef __x86_64__
	/* big is on the stack, pair in two registers; c to e take the rest, f is behind big. */
	CHECK_EQ(resolve("many a b c d"), 0);
	is(0, "a", BRAID_PROBE_ARG, 0, BRAID_PROBE_S64);
	is(1, "b", BRAID_PROBE_ARG, 1, BRAID_PROBE_S64);
	is(2, "c", BRAID_PROBE_ARG, 4, BRAID_PROBE_S64);
	is(3, "d", BRAID_PROBE_ARG, 5, BRAID_PROBE_S64);
#endif
	CHECK_EQ(resolve("many f"), -EINVAL);
	CHECK(!strcmp(error.what, "an argument that is not in a register"));
	CHECK_EQ(resolve("many big"), -EINVAL);
	CHECK_EQ(resolve("many pair"), -EINVAL);
	CHECK_EQ(resolve("many $arg*"), -EINVAL);
	CHECK_EQ(resolve("text opaque"), 0);
	is(0, "opaque", BRAID_PROBE_ARG, 2, BRAID_PROBE_X64);
}

static void suggests(const char *text, const char *name, const char *nearest)
{
	CHECK_EQ(resolve(text), -ENOENT);
	if (strcmp(error.nearest, nearest))
		printf("%s: %s?\n", text, error.nearest);
	CHECK(!strcmp(error.name, name) && !strcmp(error.nearest, nearest));
}

static void test_suggestions(void)
{
	suggests("work flie", "flie", "file");
	suggests("work bytes", "bytes", "byte");
	suggests("work something", "something", "");
	suggests("work file->inode->numbre", "numbre", "number");
	suggests("work file->eiter", "eiter", "either");
	suggests("nothing file", "file", "");
	suggests("unknown file", "file", "");
	suggests("twice file", "file", "");
	CHECK_EQ(resolve_by("work file", NULL), -ENOENT);
	CHECK_EQ(resolve_by("work $arg*", NULL), -ENOENT);
}

static u8 *copy_of(const struct made_btf *m, size_t bytes)
{
	u8 *whole = malloc(made_btf_bytes(m)), *copy = malloc(bytes ? bytes : 1);

	made_btf_write(m, whole);
	memcpy(copy, whole, bytes);
	free(whole);
	return copy;
}

static void test_module(void)
{
	struct made_btf kernel, module;
	struct made_btf_ids ids;
	u8 *bytes, *more;

	made_btf_kernel(&kernel, &ids);
	made_btf_module(&module, &kernel, &ids);
	bytes = copy_of(&kernel, made_btf_bytes(&kernel));
	more = copy_of(&module, made_btf_bytes(&module));
	CHECK_EQ(braid_btf_types_open(&types, bytes, made_btf_bytes(&kernel)), 0);
	CHECK_EQ(braid_btf_types_add(&types, more, made_btf_bytes(&module)), 0);
	CHECK_EQ(resolve("mod:of_module $arg* own->inode->number own->sign "
			 "i=file->inode->title:string"), 0);
	is(0, "file", BRAID_PROBE_ARG, 0, BRAID_PROBE_X64);
	is(1, "own", BRAID_PROBE_ARG, 1, BRAID_PROBE_X64);
	is(2, "arg2", BRAID_PROBE_ARG, 1, BRAID_PROBE_U64);
	is(3, "arg3", BRAID_PROBE_ARG, 1, BRAID_PROBE_S8);
	/* A function of the kernel is not one of the module. */
	CHECK_EQ(resolve("mod:work file"), -ENOENT);
	CHECK_EQ(braid_btf_types_open(&types, bytes, made_btf_bytes(&kernel)), 0);
	CHECK_EQ(resolve("mod:of_module file"), -ENOENT);
	free(bytes);
	free(more);
}

/* Each truncation, and each byte changed: an answer, and no fault. */
static void test_invalid(void)
{
	struct made_btf kernel;
	struct made_btf_ids ids;
	size_t bytes, k;
	u8 *btf;

	made_btf_kernel(&kernel, &ids);
	bytes = made_btf_bytes(&kernel);
	damaged = true;
	for (k = 0; k < bytes; k++) {
		btf = copy_of(&kernel, k);
		CHECK_EQ(braid_btf_types_open(&types, btf, k), -EINVAL);
		free(btf);
		btf = copy_of(&kernel, bytes);
		btf[k] ^= 0xff;
		if (!braid_btf_types_open(&types, btf, bytes)) {
			resolve("work $arg* file->inode->number file->either");
			resolve("many a");
		}
		free(btf);
	}
	btf = copy_of(&kernel, bytes);
	CHECK_EQ(braid_btf_types_open(&types, btf, bytes), 0);
	free(btf);
}

int main(void)
{
	struct made_btf kernel;
	struct made_btf_ids ids;
	u8 *btf;

	made_btf_kernel(&kernel, &ids);
	btf = copy_of(&kernel, made_btf_bytes(&kernel));
	CHECK_EQ(braid_btf_types_open(&types, btf, made_btf_bytes(&kernel)), 0);
	RUN(test_arguments);
	RUN(test_strings);
	RUN(test_members);
	RUN(test_returns);
	RUN(test_registers);
	RUN(test_suggestions);
	free(btf);
	RUN(test_module);
	RUN(test_invalid);
	return VERDICT();
}
