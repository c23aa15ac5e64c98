// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * BTF, as no kernel makes it: whatever types refer to what, names of arguments and members are
 * looked up in bounded time, within the BTF. What is resolved has complete arguments. Input: which
 * definition, then bytes that are changed in made-up BTF of a kernel and a module.
 */
#include "host_agent/control/probe.h"
#include "shared/btf_probe.h"
#include "shared/probe.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/made_btf.h"

static const char *const definitions[] = {
	"work $arg*",
	"work file->inode->number file->pair.b file->deep e=file->either x=+16(file->inode):u16",
	"work name:string file->label:ustring file->inode->title:string numbre",
	"many a b c d f",
	"r text $retval $retval->next",
	"mod:of_module $arg* own->inode->next->number own->sing",
};

static struct braid_btf_types types;

static u8 *make(const struct made_btf *m, size_t *bytes)
{
	u8 *btf = malloc(*bytes = made_btf_bytes(m));

	made_btf_write(m, btf);
	return btf;
}

static void resolve(const char *definition, struct braid_btf_types *by)
{
	struct braid_btf_error error;
	struct braid_probe asked, probe;
	struct braid_pattern event;
	u32 k;

	MUST_EQ(braid_probe_parse(&asked, &event, definition, false), 0);
	if (braid_btf_resolve(&probe, &asked, by, &error)) {
		MUST(strlen(error.name) < sizeof(error.name));
		MUST(strlen(error.nearest) < sizeof(error.nearest));
		MUST(*error.what);
		return;
	}
	MUST(probe.nr_args <= BRAID_PROBE_ARGS);
	MUST(braid_probe_is_complete(&probe));
	for (k = 0; k < probe.nr_args; k++) {
		MUST(probe.args[k].nr_reads <= BRAID_PROBE_READS);
		MUST(probe.args[k].base != BRAID_PROBE_ARG || probe.args[k].value < 8);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	u8 k = bytes ? data[0] % (sizeof(definitions) / sizeof(*definitions)) : 0;
	struct made_btf kernel, module;
	size_t nr[2], at;
	struct made_btf_ids ids;
	u8 *btf[2];

	made_btf_kernel(&kernel, &ids);
	made_btf_module(&module, &kernel, &ids);
	btf[0] = make(&kernel, &nr[0]);
	btf[1] = make(&module, &nr[1]);
	for (at = 1; at + 2 < bytes; at += 3) {
		u32 place = (data[at] | data[at + 1] << 8) % (nr[0] + nr[1]);

		if (place < nr[0])
			btf[0][place] = data[at + 2];
		else
			btf[1][place - nr[0]] = data[at + 2];
	}
	if (!braid_btf_types_open(&types, btf[0], nr[0])) {
		if (!strchr(definitions[k], ':') ||
		    !braid_btf_types_add(&types, btf[1], nr[1]))
			resolve(definitions[k], &types);
	}
	free(btf[0]);
	free(btf[1]);
	return 0;
}
