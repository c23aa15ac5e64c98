// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid detach: takes a domain's region away. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "host_agent/cli/cli.h"
#include "host_agent/discover/libvirt.h"
#include "host_agent/util/error.h"

#define USUAL_SECONDS	20
#define MOST_SECONDS	86400

static const char usage[] =
	"Usage: tracebraid detach [OPTION]... DOMAIN\n"
	"Removes the shared memory that `tracebraid attach` added to a libvirt domain: from the\n"
	"running domain, from its configuration, and from /dev/shm. Refused during a recording.\n"
	"\n"
	"      --timeout S     how long to wait for the guest to release the memory. Default: 20\n"
	"  -c, --connect URI   libvirt's URI; default: $LIBVIRT_DEFAULT_URI or qemu:///system\n"
	"      --help          this text\n";

enum { OPT_TIMEOUT = 256 };

static const struct option options[] = {
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "connect", required_argument, NULL, 'c' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* 0, 1 when help was printed, -ENOEXEC, or -errno with braid_fail(). */
static int parse(struct braid_domain_request *request, int argc, char **argv)
{
	u64 seconds = USUAL_SECONDS;
	int c, err = 0;

	optind = 0;
	opterr = 0;
	while (!err && (c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			request->uri = optarg;
			break;
		case OPT_TIMEOUT:
			err = braid_parse_u64(optarg, MOST_SECONDS, &seconds);
			break;
		default:
			return braid_other_option(c, usage);
		}
	}
	if (!err && optind + 1 != argc)
		return braid_fail(-EINVAL, "detach: expected one DOMAIN; 'tracebraid list' shows all");
	request->domain = argv[optind];
	request->timeout_ns = seconds * 1000000000;
	return err;
}

static void tell(const struct braid_domain_result *result)
{
	const struct braid_domain *d = &result->domain;

	if (result->changed_live || result->changed_config)
		printf("%s: the shared memory was removed%s%s%s\n", d->name,
		       result->changed_live ? " from the running domain" : "",
		       result->changed_live && result->changed_config ? " and" : "",
		       result->changed_config ? " from its configuration" : "");
	else
		printf("%s has no shared memory\n", d->name);
	if (result->file_removed)
		printf("%s was removed\n", d->path);
	if (*result->note)
		printf("%s\n", result->note);
}

int braid_cmd_detach(int argc, char **argv)
{
	struct braid_domain_request request = { 0 };
	struct braid_domain_result result;
	int err = parse(&request, argc, argv);

	if (err > 0)
		return EXIT_SUCCESS;
	if (err == -ENOEXEC)
		return braid_complain_option("detach", argc, argv);
	if (!err)
		err = braid_domain_detach(&request, &result);
	if (err)
		return braid_complain();
	tell(&result);
	return EXIT_SUCCESS;
}
