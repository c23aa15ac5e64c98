// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Probes, as a hostile host writes them: what the check accepts has names that end, and a record
 * whose arguments follow one another. And definitions, as a user writes them: what is read passes
 * the check. Input: a probe, then a definition.
 */
#include "host_agent/control/probe.h"
#include "host_agent/util/error.h"
#include "shared/probe.h"
#include "tests/fuzz/fuzz.h"

static void check(const struct braid_probe *probe)
{
	u16 offsets[BRAID_PROBE_ARGS];
	u32 bytes, end, k;
	const char *why;

	if (braid_probe_check(probe, &why)) {
		MUST(why);
		return;
	}
	MUST(strlen(probe->target) < sizeof(probe->target));
	MUST(strlen(probe->symbol) < sizeof(probe->symbol));
	bytes = braid_probe_layout(probe, offsets);
	end = BRAID_PROBE_HEAD(probe->kind);
	for (k = 0; k < probe->nr_args; k++) {
		const struct braid_probe_arg *arg = &probe->args[k];

		MUST(braid_probe_is_name(arg->name, sizeof(arg->name)));
		MUST(arg->nr_reads <= BRAID_PROBE_READS);
		MUST(arg->base != BRAID_PROBE_REGISTER || strlen(arg->reg) < sizeof(arg->reg));
		MUST(offsets[k] >= end);
		end = offsets[k] + braid_probe_bytes(arg->type);
	}
	MUST_EQ(bytes, end);
}

static const struct {
	char text[96];
	bool user;
} valid[] = {
	{ "p:open do_sys_openat2 dfd=%di:s32 file=+0(%si):string $arg3 $stack2:symbol", false },
	{ "r:mine/back vfs_read+0 ret=$retval:x16 $comm \\7:u8 @0xff:s64", false },
	{ "/bin/bash:readline+4%return +8(-4(+u16($retval))):ustring", true },
	{ "p /usr/lib/libc.so.6:0x4245 %sp +0($stack):u64", true },
};

static void read_definition(const char *text, bool user)
{
	struct braid_pattern event;
	struct braid_probe probe;

	if (!braid_probe_parse(&probe, &event, text, user))
		check(&probe);
	else
		MUST(*braid_failure());
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct braid_pattern event;
	struct braid_probe probe;
	char text[sizeof(valid[0].text)];
	const char *why;
	u8 k = bytes ? data[0] % (sizeof(valid) / sizeof(valid[0])) : 0;
	size_t at;

	memcpy(text, valid[k].text, sizeof(text));
	MUST_EQ(braid_probe_parse(&probe, &event, text, valid[k].user), 0);
	MUST_EQ(braid_probe_check(&probe, &why), 0);
	for (at = 1; at + 2 < bytes; at += 3) {
		u32 place = data[at] | data[at + 1] << 8;

		((u8 *)&probe)[place % sizeof(probe)] = data[at + 2];
		text[place % (sizeof(text) - 1)] = data[at + 2];
	}
	check(&probe);
	read_definition(text, valid[k].user);
	return 0;
}
