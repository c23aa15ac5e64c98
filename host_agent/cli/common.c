// SPDX-License-Identifier: GPL-2.0-or-later
/* What commands share: complaints, numbers, progress. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"
#include "host_agent/util/text.h"

#define MIB		(1ull << 20)
#define LEAST_REGION_MIB	1
#define MOST_REGION_MIB	(64 * 1024)
#define QUIET_NS	BRAID_SECOND_NS	/* before progress is shown */
#define SHOW_NS		200000000ULL	/* from one to the next */

/* A word of these needs no quotation marks. */
#define PLAIN	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:,+@%="

const char *braid_cli_clean(const char *untrusted)
{
	static char clean[1024];

	snprintf(clean, sizeof(clean), "%s", untrusted);
	braid_text_clean(clean);
	return clean;
}

const char *braid_cli_quoted(const char *word)
{
	static char quoted[2 + 4 * 500 + 1];
	const char *clean = braid_cli_clean(word);
	char *at = quoted;

	if (*clean && strspn(clean, PLAIN) == strlen(clean))
		return clean;
	*at++ = '\'';
	for (; *clean && at < quoted + sizeof(quoted) - 6; clean++)
		if (*clean == '\'')
			at = stpcpy(at, "'\\''");
		else
			*at++ = *clean;
	strcpy(at, "'");
	return quoted;
}

static const char *complainer;
static const char *program = "tracebraid ";

void braid_cli_called(const char *prefix)
{
	program = prefix;
}

const char *braid_cli_program(void)
{
	return program;
}

void braid_complain_as(const char *command)
{
	complainer = command;
}

/* A line that begins with an option is about how the command was called. */
static bool names_option(const char *line)
{
	return *line == '-' && (line[1] == '-' || (line[1] >= 'a' && line[1] <= 'z'));
}

int braid_complain(void)
{
	const char *line = braid_cli_clean(braid_failure());	/* file names are untrusted, too */
	bool named = complainer && names_option(line);
	size_t n;

	if (program[strlen(program) - 1] == '-') {
		n = strlen(complainer);
		if (!strncmp(line, complainer, n) && !strncmp(line + n, ": ", 2))
			line += n + 2;	/* it is in the program's name */
		fprintf(stderr, "%s%s: %s\n", program, complainer, line);
	} else {
		fprintf(stderr, "tracebraid: %s%s%s\n", named ? complainer : "", named ? ": " : "", line);
	}
	return EXIT_FAILURE;
}

static bool common_reader_has_exited(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO };

	return poll(&out, 1, 0) > 0 && out.revents & (POLLERR | POLLHUP);
}

int braid_cli_flushed(int status)
{
	/* An earlier write's errno is lost. */
	int err = fflush(stdout) ? errno : ferror(stdout) ? EIO : 0;

	if (!err || status || common_reader_has_exited())
		return status;
	braid_fail(-err, "cannot write to standard output: %s", strerror(err));
	return braid_complain();
}

void braid_cli_capture_head(struct braid_chunk_file *head)
{
	struct utsname uts;

	*head = (struct braid_chunk_file){
		.version_major = BRAID_CAPTURE_MAJOR,
		.version_minor = BRAID_CAPTURE_MINOR,
		.clock = BRAID_HOST_CLOCK,
		.agent_version = BRAID_VERSION,
	};
	uname(&uts);
	snprintf(head->host_name, sizeof(head->host_name), "%.63s", uts.nodename);
	snprintf(head->kernel_release, sizeof(head->kernel_release), "%.63s", uts.release);
	snprintf(head->machine, sizeof(head->machine), "%.31s", uts.machine);
	braid_host_clock_pair(&head->start_host_ns, &head->start_realtime_ns);
}

void braid_cli_warn(void *arg, const char *line)
{
	(void)arg;
	fprintf(stderr, "tracebraid: %s\n", line);
}

int braid_parse_region_size(const char *text, u64 *bytes)
{
	if (braid_text_size(text, MIB, bytes) && *bytes >= LEAST_REGION_MIB * MIB &&
	    *bytes <= MOST_REGION_MIB * MIB && !(*bytes & (*bytes - 1)))
		return 0;
	return braid_fail(-EINVAL, "expected a power of two from 1M to 64G, as PCI devices have");
}

const char *braid_human(char *to, size_t bytes, double value)
{
	static const char units[] = " kMGT";
	int unit = 0;

	while (value >= 999.5 && units[unit + 1]) {
		value /= 1000;
		unit++;
	}
	snprintf(to, bytes, "%.*f%.1s", !unit || value >= 99.95 ? 0 : 1, value,
		 unit ? &units[unit] : "");
	return to;
}

void braid_progress_begin(struct braid_progress *p)
{
	memset(p, 0, sizeof(*p));
	p->terminal = isatty(STDERR_FILENO);
	p->begin_ns = braid_monotonic_ns();
}

void braid_progress_show(void *arg, const char *what, u64 done, u64 total)
{
	struct braid_progress *p = arg;
	u64 now;

	if (!p->terminal || !total)
		return;
	now = braid_monotonic_ns();
	if (now - p->begin_ns < QUIET_NS || now - p->shown_ns < SHOW_NS)
		return;
	p->shown_ns = now;
	p->shown = true;
	fprintf(stderr, "\r%s: %3u %%", what,
		done >= total ? 100 : (unsigned int)(done * 100.0 / total));
}

void braid_progress_end(struct braid_progress *p)
{
	if (p->shown)
		fputs("\r                        \r", stderr);
	p->shown = false;
}
