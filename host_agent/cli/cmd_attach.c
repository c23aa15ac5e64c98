// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid attach, detach: give a libvirt domain a region, and take it away. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/discover/libvirt.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"
#include "host_agent/util/text.h"

#define MIB		(1ull << 20)
#define DETACH_SECONDS	20
#define MOST_SECONDS	86400
#define SHORT_WAIT_MS	3000	/* a guest with the driver installed loads it at once */
#define CHECK_MS		100
#define SIGNALLED	128	/* as in shells: this plus the signal's number */

struct arguments {
	struct braid_domain_request request;
	u64 timeout_s;
	bool print_xml;
	bool size_given;
};

#define ATTACH	struct arguments

static const struct braid_option attach_options[] = {
	BRAID_OPTION_REGION_SIZE(ATTACH, request.bytes),
	{ 0, "config", NULL, BRAID_FLAG(ATTACH, request.config),
	  "also add it to the persistent configuration, for each start of the domain; required if "
	  "the domain is shut off or has no free slot" },
	{ 0, "timeout", "SECONDS", BRAID_COUNT(ATTACH, timeout_s),
	  "how long to wait for the driver. Default: check once, and print what to do in the "
	  "guest", .most = MOST_SECONDS },
	{ 0, "print-xml", NULL, BRAID_FLAG(ATTACH, print_xml),
	  "print the device's XML, and on standard error the commands that create its file; change "
	  "nothing" },
	BRAID_OPTION_CONNECT(ATTACH, request.uri, ""),
	{ 0 },
};

const struct braid_cli_command braid_command_attach = {
	.name = "attach", .summary = "add trace memory to a running libvirt domain",
	.run = braid_cmd_attach, .usage = "[OPTION]... DOMAIN",
	.text =
	"Adds trace memory to a running libvirt domain: shared memory to which the guest's driver "
	"writes the trace. A domain that already has trace memory keeps it.",
	.options = attach_options, .operands = "@domain",
	.notes =
	"The file is /dev/shm/tracebraid-DOMAIN. It belongs to the user and the group that the "
	"domain's QEMU runs as, and others have no access, because whoever can read it can read the "
	"trace.\n"
	"A domain with an ivshmem device cannot be saved (virsh save, managedsave), migrated, or put "
	"into a snapshot with its memory; `tracebraid detach` makes these possible again. With --config, "
	"the file is needed before each start of the domain, and a restart of the host empties "
	"/dev/shm: see `tracebraid create --from`.\n"
	"The file of a former run is cleared, unless it holds events that were not recorded: `tracebraid "
	"recover DOMAIN` keeps them, then remove the file.",
	.status = "0 on success, 1 on error, 128 plus the signal's number if it is interrupted.",
	.least = 1, .most = 1, .expected = "one DOMAIN; 'tracebraid list' shows all",
};

static void print_virsh(const struct arguments *a, const struct braid_domain *domain)
{
	fputs("virsh ", stderr);
	if (a->request.uri)
		fprintf(stderr, "-c %s ", braid_cli_quoted(a->request.uri));
	fprintf(stderr, "attach-device %s", braid_cli_quoted(a->request.domain));
	fprintf(stderr, " shmem.xml%s%s\n", domain->active ? " --live" : "",
		a->request.config || !domain->active ? " --config" : "");
}

static int print_xml(const struct arguments *a)
{
	struct braid_domain_result result = { 0 };
	const struct braid_domain *domain = &result.domain;
	braid_auto_free char *xml = NULL;
	int err = braid_domain_plan(&a->request, &result);

	if (err)
		return err;
	xml = result.xml;
	fputs(xml, stdout);
	fprintf(stderr, "# first, as root, and after each start of this host:\n"
		"tracebraid create --size %lluM --owner %u:%u %s\n"
		"# then, with the above as shmem.xml, attach it to the domain, which is %s (a running q35\n"
		"# machine needs a <controller type='pci' model='pcie-to-pci-bridge'/>; with --config and\n"
		"# without --live, libvirt adds one for the next start):\n",
		(unsigned long long)(domain->bytes / MIB), (unsigned int)result.uid,
		(unsigned int)result.gid, domain->path, domain->state);
	print_virsh(a, domain);
	return 0;
}

static void cmd_attach_print_result(const struct arguments *a,
				    const struct braid_domain_result *result)
{
	const struct braid_domain *d = &result->domain;

	if (!result->changed_live && !result->changed_config)
		printf("%s already has trace memory%s: %llu MiB, %s\n", d->name,
		       d->attached ? "" : " in its configuration",
		       (unsigned long long)(d->bytes / MIB), d->path);
	else
		printf("%s: %llu MiB of trace memory %s, %s, for user %u and group %u\n", d->name,
		       (unsigned long long)(d->bytes / MIB),
		       result->changed_live ? "attached" : "in its configuration", d->path,
		       (unsigned int)result->uid, (unsigned int)result->gid);
	if (a->size_given && d->bytes != a->request.bytes)
		printf("--size: that memory keeps its size; for another one, tracebraid detach %s first\n",
		       braid_cli_quoted(d->name));
	if (*result->why_later)
		printf("%s gets the memory at its next start: shut it down, then start it. It cannot be added now: %s\n",
		       d->name, result->why_later);
	if (a->request.config && d->configured)
		printf("A restart of this host empties /dev/shm. Once, as root, so that the file is back before the domain starts:\n"
		       "  mkdir -p /etc/tracebraid && echo '%lluM %u:%u %s' >>/etc/tracebraid/memory\n"
		       "  systemctl enable tracebraid-memory\n",
		       (unsigned long long)(d->bytes / MIB), (unsigned int)result->uid,
		       (unsigned int)result->gid, d->path);
	printf("As long as it has this memory, %s cannot be saved, migrated, or put into a snapshot with its memory:\n"
	       "QEMU does not migrate ivshmem. 'tracebraid detach %s' makes these possible again.\n",
	       d->name, d->name);
	if (*result->note)
		printf("%s\n", result->note);
	fflush(stdout);
}

/* Whether it beats: what a former life of the guest left in the file does not. */
static bool driver_lives(const char *path)
{
	braid_auto_free struct braid_found *found = NULL;
	size_t nr;

	return !braid_discover(&found, &nr, &path, 1, BRAID_DISCOVER_LIVENESS, NULL) && nr &&
	       found->state == BRAID_DRIVER_LIVE;
}

/* Waits until the driver is there: 1, 0 after so long, or minus the signal that ended it. */
static int wait_for_driver(const char *path, u64 limit_ms, int signal_fd)
{
	struct pollfd p = { .fd = signal_fd, .events = POLLIN };
	struct signalfd_siginfo signal;
	struct braid_progress progress;
	u64 start_ns = braid_monotonic_ns(), waited_ms;
	int ret = 0;

	braid_progress_begin(&progress);
	do {
		waited_ms = (braid_monotonic_ns() - start_ns) / 1000000;
		braid_progress_show(&progress, "waiting for the driver", waited_ms, limit_ms);
		if (driver_lives(path))
			ret = 1;
		else if (poll(&p, 1, CHECK_MS) > 0)
			ret = read(signal_fd, &signal, sizeof(signal)) == sizeof(signal) ?
			      -(int)signal.ssi_signo : -SIGTERM;
	} while (!ret && waited_ms < limit_ms);
	braid_progress_end(&progress);
	return ret;
}

static int find_driver(const struct arguments *a, const struct braid_domain *domain,
		       int signal_fd)
{
	u64 limit_ms = a->timeout_s ? a->timeout_s * 1000 : SHORT_WAIT_MS;
	int ret = wait_for_driver(domain->path, limit_ms, signal_fd);

	if (ret > 0)
		printf("Its driver is loaded. Next: tracebraid record -d %s\n",
		       braid_cli_quoted(a->request.domain));
	else if (ret < 0)
		printf("Interrupted. The memory stays attached; tracebraid detach %s removes it.\n",
		       braid_cli_quoted(a->request.domain));
	else
		printf("No driver yet. In the guest, as root: modprobe tracebraid (or insmod, where it was built)\n"
		       "Then: tracebraid record -d %s\n", braid_cli_quoted(a->request.domain));
	if (ret < 0)
		return SIGNALLED - ret;
	if (!a->timeout_s || ret)
		return EXIT_SUCCESS;
	braid_fail(-ETIMEDOUT, "%s: no driver within %llu s", domain->name,
		   (unsigned long long)a->timeout_s);
	return braid_complain();
}

int braid_cmd_attach(int argc, char **argv)
{
	struct arguments a = { 0 };
	struct braid_domain_result result;
	sigset_t signals;
	int signal_fd, err = braid_options_parse(&braid_command_attach, &a, argc, argv);

	if (err)
		return braid_options_exit(err);
	a.request.domain = argv[optind];
	a.size_given = a.request.bytes;
	if (!a.size_given)
		a.request.bytes = BRAID_USUAL_REGION_BYTES;
	if (a.print_xml) {
		err = print_xml(&a);
		return err ? braid_complain() : EXIT_SUCCESS;
	}
	err = braid_domain_attach(&a.request, &result);
	if (err)
		return braid_complain();
	/* When interrupted, it reports the state. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
	cmd_attach_print_result(&a, &result);
	if (!result.domain.attached)
		return EXIT_SUCCESS;
	/* From here on it reads what the guest writes. */
	if (braid_cli_confine(BRAID_CONFINE_INSPECT, NULL))
		return braid_complain();
	return find_driver(&a, &result.domain, signal_fd);
}

/* Detach ------------------------------------------------------------------------------------- */

static const struct braid_option detach_options[] = {
	{ 0, "timeout", "SECONDS", BRAID_COUNT(ATTACH, timeout_s),
	  "how long to wait for the guest to release the memory. Default: 20",
	  .most = MOST_SECONDS },
	BRAID_OPTION_CONNECT(ATTACH, request.uri, ""),
	{ 0 },
};

const struct braid_cli_command braid_command_detach = {
	.name = "detach", .summary = "remove a domain's trace memory", .run = braid_cmd_detach,
	.usage = "[OPTION]... DOMAIN",
	.text =
	"Removes the trace memory that `tracebraid attach` added to a libvirt domain: from the "
	"running domain, from its configuration, and from /dev/shm. Refused during a recording.",
	.options = detach_options, .operands = "@domain",
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
	struct arguments a = { .timeout_s = DETACH_SECONDS };
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
