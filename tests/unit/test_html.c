// SPDX-License-Identifier: GPL-2.0-or-later
/* The page of the HTML export: what of it the browser's test can't see. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/html_names.h"
#include "host_agent/export/html_seen.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/report_text.h"

static char capture[64], page[64];

static char *read_page(void)
{
	struct stat st;
	FILE *file = fopen(page, "r");
	char *text;

	NEED(file && !fstat(fileno(file), &st));
	CHECK_EQ(st.st_mode & 0777, 0600);
	text = calloc(1, st.st_size + 1);
	NEED(text && fread(text, 1, st.st_size, file) == (size_t)st.st_size);
	fclose(file);
	return text;
}

static int export(struct braid_export_totals *totals)
{
	static const struct braid_export_options all;
	char *names[] = { capture };
	struct braid_source *source;
	int err;

	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	err = braid_export_html(page, source, &all, totals);
	braid_source_free(source);
	return err;
}

/* Behind the program there are only chunks, of letters that mean nothing to HTML. */
static void chunks(void)
{
	static const char begin[] = "<script type=\"application/octet-stream\" data-kind=\"";
	struct braid_export_totals totals, said;
	const char *at, *end;
	char *text, *lines;
	u32 nr = 0;

	synth_standard(capture);
	CHECK_EQ(export(&totals), 0);
	lines = report_text(capture, false, NULL, &said);
	CHECK_EQ(totals.events, said.events);
	CHECK_EQ(totals.lost, said.lost);
	CHECK_EQ(totals.lines, said.lines);
	text = read_page();
	CHECK(strstr(text, "default-src 'none'"));
	CHECK(!strstr(text, "hello"));		/* what the events say */
	at = strstr(text, begin);
	for (; at && !strncmp(at, begin, strlen(begin)); at = end + strlen("</script>\n")) {
		at = strchr(at, '>') + 1;
		end = at + strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
		CHECK(!strncmp(end, "</script>\n", 10));
		nr++;
	}
	CHECK(nr >= 4);
	CHECK(at && !strcmp(at, "</body>\n</html>\n"));
	free(text);
	free(lines);
}

static u32 named(struct braid_html_names *n, const char *text)
{
	return braid_html_name(n, BRAID_HTML_IRQ, 0, 0, text, strlen(text));
}

/* More names than a page has room for end in one that says so, and the old ones stay. */
static void names(void)
{
	struct braid_html_names *n = braid_html_names_new();
	char text[300];
	u32 k, first;

	NEED(n);
	first = named(n, "first");
	CHECK(first > BRAID_HTML_NAME_MANY);
	CHECK_EQ(named(n, "first"), first);
	CHECK(braid_html_name(n, BRAID_HTML_TASK, 0, 0, "first", 5) != first);
	CHECK_EQ(named(n, "con\ntrol"), named(n, "con?trol"));
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	CHECK(named(n, text) != BRAID_HTML_NAME_MANY);
	for (k = 0; k < 2u << 20; k++)
		if (braid_html_name(n, BRAID_HTML_TASK, 0, k, "t", 1) == BRAID_HTML_NAME_MANY)
			break;
	CHECK(k > 1000000 && k < 1u << 20);
	CHECK_EQ(named(n, "another"), BRAID_HTML_NAME_MANY);
	CHECK_EQ(named(n, "first"), first);
	braid_html_names_free(n);
}

static struct braid_html_meaning meaning(const char *system, const char *name)
{
	const struct braid_event_type_info info = { .system = system, .name = name };

	return braid_html_meaning_of(&info);
}

static void meanings(void)
{
	CHECK_EQ(meaning("sched", "sched_switch").action, BRAID_HTML_SWITCH);
	CHECK_EQ(meaning("other", "sched_switch").action, BRAID_HTML_NOTHING);
	CHECK_EQ(meaning("irq", "softirq_entry").action, BRAID_HTML_IRQ_BEGIN);
	CHECK_EQ(meaning("irq", "softirq_exit").action, BRAID_HTML_IRQ_END);
	CHECK_EQ(meaning("irq", "softirq_exit").stem, meaning("irq", "softirq_entry").stem);
	CHECK(meaning("irq", "softirq_exit").stem != meaning("irq", "irq_handler_entry").stem);
	CHECK_EQ(meaning("irq", "_entry").action, BRAID_HTML_NOTHING);
	CHECK_EQ(meaning("kvm", "kvm_exit").action, BRAID_HTML_KVM_EXIT);
	CHECK_EQ(meaning("syscalls", "sys_enter_read").action, BRAID_HTML_CALL_ENTER);
	CHECK_EQ(meaning("raw_syscalls", "sys_exit").action, BRAID_HTML_CALL_EXIT);
}

int main(void)
{
	snprintf(capture, sizeof(capture), "/tmp/braid-html-%d.braid", getpid());
	snprintf(page, sizeof(page), "/tmp/braid-html-%d.html", getpid());
	RUN(chunks);
	RUN(names);
	RUN(meanings);
	unlink(capture);
	unlink(page);
	return VERDICT();
}
