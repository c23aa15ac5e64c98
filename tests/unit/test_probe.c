// SPDX-License-Identifier: GPL-2.0-or-later
/* Definitions of probes: what they compile to, errors, and hostile ones. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/control/probe.h"
#include "host_agent/util/error.h"
#include "shared/probe.h"
#include "tests/unit/check.h"

static struct braid_probe probe;
static struct braid_pattern event;

static bool named(const char *system, const char *name)
{
	return !strcmp(event.system, system) && !strcmp(event.event, name);
}

static void test_places(void)
{
	CHECK_EQ(braid_probe_parse(&probe, &event, "do_sys_openat2", false), 0);
	CHECK(named("kprobes", "p_do_sys_openat2_0"));
	CHECK_EQ(probe.kind, BRAID_PROBE_KERNEL);
	CHECK(!strcmp(probe.target, "do_sys_openat2"));
	CHECK_EQ(braid_probe_parse(&probe, &event, "p ext4:ext4_sync_file+0x10", false), 0);
	CHECK(named("kprobes", "p_ext4_ext4_sync_file_16"));
	CHECK(!strcmp(probe.target, "ext4:ext4_sync_file"));
	CHECK_EQ(probe.offset, 16);
	CHECK_EQ(braid_probe_parse(&probe, &event, "p:mine/open  vfs_read", false), 0);
	CHECK(named("mine", "open"));
	CHECK_EQ(braid_probe_parse(&probe, &event, "r64:opened vfs_read", false), 0);
	CHECK(named("kprobes", "opened"));
	CHECK_EQ(probe.kind, BRAID_PROBE_KERNEL_RETURN);
	CHECK_EQ(braid_probe_parse(&probe, &event, "vfs_read%return", false), 0);
	CHECK(named("kprobes", "r_vfs_read_0"));
	CHECK_EQ(braid_probe_parse(&probe, &event, "p /usr/bin/bash:0x4245", true), 0);
	CHECK(named("uprobes", "p_bash_0x4245"));
	CHECK_EQ(probe.kind, BRAID_PROBE_USER);
	CHECK_EQ(probe.offset, 0x4245);
	CHECK(!*probe.symbol && !strcmp(probe.target, "/usr/bin/bash"));
	CHECK_EQ(braid_probe_parse(&probe, &event, "/lib/libc.so.6:mall-oc+4%return", true), 0);
	CHECK(named("uprobes", "r_libc_so_6_mall_oc_4"));
	CHECK(!strcmp(probe.symbol, "mall-oc"));
	CHECK_EQ(probe.offset, 4);
	CHECK_EQ(probe.kind, BRAID_PROBE_USER_RETURN);
}

static void test_arguments(void)
{
	const struct braid_probe_arg *a = probe.args;
	u16 offsets[BRAID_PROBE_ARGS];

	CHECK_EQ(braid_probe_parse(&probe, &event, "f %di a=%si:s8 f=+0(%si):string u=-8(+u16(%dx)):u16 "
				   "n=$arg3 c=$comm s=$stack2:symbol k=\\0x7:x8 @0xff00 +4($stack):ustring", false), 0);
	CHECK_EQ(probe.nr_args, 10);
	CHECK(!strcmp(a[0].name, "arg1") && !strcmp(a[0].reg, "di"));
	CHECK_EQ(a[0].type, BRAID_PROBE_X64);
	CHECK_EQ(a[1].type, BRAID_PROBE_S8);
	CHECK(a[2].nr_reads == 1 && a[2].offsets[0] == 0 && a[2].type == BRAID_PROBE_STRING);
	CHECK(a[3].nr_reads == 2 && a[3].offsets[0] == 16 && a[3].offsets[1] == -8);
	CHECK_EQ(a[3].user, 1);
	CHECK(a[4].base == BRAID_PROBE_ARG && a[4].value == 2);
	CHECK(a[5].base == BRAID_PROBE_COMM && a[5].type == BRAID_PROBE_STRING);
	CHECK(a[6].base == BRAID_PROBE_STACK && a[6].offsets[0] == 16 && a[6].nr_reads == 1);
	CHECK(a[7].base == BRAID_PROBE_VALUE && a[7].value == 7);
	CHECK(!strcmp(a[8].name, "arg9") && a[8].value == 0xff00);
	CHECK_EQ(braid_probe_layout(&probe, offsets), 84);
	CHECK_EQ(offsets[1], 24);
	CHECK_EQ(offsets[2], 28);
	CHECK_EQ(braid_probe_parse(&probe, &event, "r f $retval:ustring", false), -EINVAL);
	CHECK_EQ(braid_probe_parse(&probe, &event, "r f +0($retval):ustring", false), 0);
	CHECK_EQ(a[0].user, 1);
}

static void test_names(void)
{
	const struct braid_probe_arg *a = probe.args;

	CHECK_EQ(braid_probe_parse(&probe, &event, "f count p=pos:u32 file->f_inode->i_ino $arg* "
				   "+8(buf) name:ustring file->f_path.mnt", false), 0);
	CHECK_EQ(probe.nr_args, 7);
	CHECK(!strcmp(a[0].name, "count") && !strcmp(probe.symbol + a[0].value, "count"));
	CHECK(a[0].base == BRAID_PROBE_NAMED && a[0].type == BRAID_PROBE_AUTO);
	CHECK(!strcmp(a[1].name, "p") && !strcmp(probe.symbol + a[1].value, "pos"));
	CHECK_EQ(a[1].type, BRAID_PROBE_U32);
	CHECK(!strcmp(a[2].name, "arg3"));
	CHECK(!strcmp(probe.symbol + a[2].value, "file->f_inode->i_ino"));
	CHECK(a[3].base == BRAID_PROBE_ALL && !*a[3].name);
	CHECK(a[4].nr_reads == 1 && a[4].type == BRAID_PROBE_X64);
	CHECK(a[5].type == BRAID_PROBE_STRING && a[5].user == 1);
	CHECK(braid_probe_has_names(&probe) && !braid_probe_is_complete(&probe));
	CHECK_EQ(braid_probe_parse(&probe, &event, "r f $retval $retval->x", false), 0);
	CHECK(a[0].base == BRAID_PROBE_RETVAL && a[0].type == BRAID_PROBE_AUTO);
	CHECK(a[1].base == BRAID_PROBE_NAMED);
	CHECK_EQ(braid_probe_parse(&probe, &event, "f a_very_long_name_of_one_argument", false), 0);
	CHECK(!strcmp(a[0].name, "arg1"));
	CHECK_EQ(braid_probe_parse(&probe, &event, "/bin/bash:readline%return $retval", true), 0);
	CHECK_EQ(a[0].type, BRAID_PROBE_X64);
	CHECK(braid_probe_is_complete(&probe));
}

static void refuses(const char *text, bool user, const char *why)
{
	CHECK_EQ(braid_probe_parse(&probe, &event, text, user), -EINVAL);
	if (!strstr(braid_failure(), why))
		printf("%s: %s\n", text, braid_failure());
	CHECK(strstr(braid_failure(), why));
}

static void test_errors(void)
{
	refuses("", false, "expected a function");
	refuses("p:x", false, "expected a function");
	refuses("", true, "expected FILE:SYMBOL");
	refuses("0xffffffff81000000", false, "expected a function of the guest's kernel");
	refuses("f+x", false, "'f+x': its offset is not a number");
	refuses("f%retur", false, "expected a function of the guest's kernel");
	refuses("r f+4", false, "whatever the offset");
	refuses("bash:readline", true, "expected a file");
	refuses("/bin/bash", true, "expected a file");
	refuses("/bin/bash:0x", true, "not an offset");
	refuses("f a=b+c", false, "not a name of an argument and its members");
	refuses("f a=b->", false, "not a name of an argument and its members");
	refuses("f a..b", false, "not a name of an argument and its members");
	refuses("f a=b$", false, "not a name of an argument and its members");
	refuses("f a=$retva", false, "expected %REGISTER");
	refuses("r f a=$retvalx", false, "not a name of an argument and its members");
	refuses("f $retval->x", false, "only when a function returns");
	refuses("f+4 count", false, "only at the start");
	refuses("f+4 $arg*", false, "only at the start");
	refuses("r f $arg*", false, "only at a function's start");
	refuses("f $arg* $arg*", false, "$arg* twice");
	refuses("/bin/bash:readline x", true, "expected %REGISTER");
	refuses("/bin/bash:readline $arg*", true, "only of the kernel's functions");
	refuses("f @jiffies", false, "the addresses of the guest's variables");
	refuses("f +0(%si:string", false, "expected +OFFSET(VALUE)");
	refuses("f +0(+0(+0(+0(+0(+0(+0(%si))))))):string", false, "too many reads");
	refuses("f %si:string", false, "a string is in memory");
	refuses("f $comm:u8", false, "$comm is a string");
	refuses("f $retval", false, "only when a function returns");
	refuses("f+4 $arg1", false, "only at the start");
	refuses("f $arg0", false, "expected %REGISTER");
	refuses("f $arg9", false, "up to 8");
	refuses("f %si:u24", false, "its type is not one of");
	refuses("f a=%si a=%di", false, "two arguments of one name");
	refuses("f common_pid=%si", false, "not a name of an argument");
	refuses("f 1a=%si", false, "not a name of an argument");
	refuses("p:a-b f", false, "not a name of an event");
	refuses("f %1 %2 %3 %4 %5 %6 %7 %8 %9 %10 %11 %12 %13 %14 %15 %16 %17", false, "too many arguments");
}

/* A valid probe with one change. */
#define REFUSES(change, error) do {						\
		const char *why;						\
										\
		CHECK_EQ(braid_probe_parse(&probe, &event, "f a=+0(%si):string", false), 0);	\
		change;								\
		CHECK_EQ(braid_probe_check(&probe, &why), error);		\
		CHECK(why);							\
	} while (0)

static void test_hostile(void)
{
	REFUSES(probe.version++, -EOPNOTSUPP);
	REFUSES(probe.kind = 0, -EINVAL);
	REFUSES(probe.kind = BRAID_PROBE_NR_KINDS, -EINVAL);
	REFUSES(probe.kind = BRAID_PROBE_USER, -EINVAL);
	REFUSES(probe.reserved0 = 1, -EINVAL);
	REFUSES(probe.nr_args = BRAID_PROBE_ARGS + 1, -EINVAL);
	REFUSES(probe.nr_args = 2, -EINVAL);
	REFUSES(memset(probe.target, 'x', sizeof(probe.target)), -EINVAL);
	REFUSES(*probe.target = 0, -EINVAL);
	REFUSES(memset(probe.symbol, 'x', sizeof(probe.symbol)), -EINVAL);
	REFUSES(*probe.symbol = 'x', -EINVAL);
	REFUSES(memset(probe.args[0].name, 'x', sizeof(probe.args[0].name)), -EINVAL);
	REFUSES(*probe.args[0].name = '"', -EINVAL);
	REFUSES(memset(probe.args[0].reg, 'x', sizeof(probe.args[0].reg)), -EINVAL);
	REFUSES(probe.args[0].base = BRAID_PROBE_NR_BASES, -EINVAL);
	REFUSES(probe.args[0].type = BRAID_PROBE_NR_TYPES, -EINVAL);
	REFUSES(probe.args[0].type = BRAID_PROBE_AUTO, -EINVAL);
	REFUSES(probe.args[0].base = BRAID_PROBE_ALL, -EINVAL);
	REFUSES(probe.args[0].base = BRAID_PROBE_NAMED, -EINVAL);
	REFUSES((probe.args[0].base = BRAID_PROBE_NAMED, probe.args[0].value = ~0ULL), -EINVAL);
	REFUSES((probe.args[0].base = BRAID_PROBE_NAMED,
		 memset(probe.symbol, 'x', sizeof(probe.symbol))), -EINVAL);
	REFUSES(probe.args[0].nr_reads = BRAID_PROBE_READS + 1, -EINVAL);
	REFUSES(probe.args[0].nr_reads = 0, -EINVAL);
	REFUSES(probe.args[0].reserved0 = 1, -EINVAL);
}

int main(void)
{
	RUN(test_places);
	RUN(test_arguments);
	RUN(test_names);
	RUN(test_errors);
	RUN(test_hostile);
	return VERDICT();
}
