// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid detach: takes a domain's region away. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "host_agent/cli/cli.h"
#include "host_agent/discover/libvirt.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

#define USUAL_SECONDS	20
#define MOST_SECONDS	86400

struct arguments {
	struct braid_domain_request request;
	u64 timeout_s;
};

static const struct braid_option options[] = {
	{ 0, "timeout", "SECONDS", BRAID_COUNT(struct arguments, timeout_s),
	  "how long to wait for the guest to release the memory. Default: 20",
	  .most = MOST_SECONDS },
	BRAID_OPTION_CONNECT(struct arguments, request.uri, ""),
	{ 0 },
};

const struct braid_cli_command braid_command_detach = {
	.name = "detach", .summary = "remove a domain's trace memory", .run = braid_cmd_detach,
	.usage = "[OPTION]... DOMAIN",
	.text =
	"Removes the trace memory that `tracebraid attach` added to a libvirt domain: from the "
	"running domain, from its configuration, and from /dev/shm. Refused during a recording.",
	.options = options, .operands = "@domain",
	.least = 1, .most = 1, .expected = "one DOMAIN; 'tracebraid list' shows all",
};

static void cmd_detach_print_result(const struct braid_domain_result *result)
{
	const struct braid_domain *d = &result->domain;

	if (result->changed_live || result->changed_config)
		printf("%s: the trace memory was removed%s%s%s\n", d->name,
		       result->changed_live ? " from the running domain" : "",
		       result->changed_live && result->changed_config ? " and" : "",
		       result->changed_config ? " from its configuration" : "");
	else
		printf("%s has no trace memory\n", d->name);
	if (result->file_removed)
		printf("%s was removed\n", d->path);
	if (*result->note)
		printf("%s\n", result->note);
}

int braid_cmd_detach(int argc, char **argv)
{
	struct arguments a = { .timeout_s = USUAL_SECONDS };
	struct braid_domain_result result;
	int err = braid_options_parse(&braid_command_detach, &a, argc, argv);

	if (err)
		return braid_options_exit(err);
	a.request.domain = argv[optind];
	a.request.timeout_ns = a.timeout_s * BRAID_SECOND_NS;
	err = braid_domain_detach(&a.request, &result);
	if (err)
		return braid_complain();
	cmd_detach_print_result(&result);
	return EXIT_SUCCESS;
}
