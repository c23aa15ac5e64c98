// SPDX-License-Identifier: GPL-2.0-or-later
/* The page of the HTML export: checks that the browser's test cannot make. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/html/form.h"
#include "host_agent/export/html/names.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/format_text.h"
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

static int export(struct braid_walk_totals *totals)
{
	static const struct braid_walk_options all;

	return export_capture(braid_export_html, capture, page, &all, totals);
}

/* After the program there are only chunks, without characters that have a meaning in HTML. */
static void chunks(void)
{
	static const char begin[] = "<script type=\"application/octet-stream\" data-kind=\"";
	struct braid_walk_totals totals, said;
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
	CHECK(!strstr(text, "hello"));		/* the events' texts */
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

/* Names beyond a page's limit share one that says so; earlier ones stay. */
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

/* Each machine has its own numbers. */
static void call_names(void)
{
	static const struct {
		const char *machine, *name;
	} cases[] = {
		{ "x86_64", "clone" }, { "aarch64", "openat" }, { "riscv64", "openat" },
		{ "vax", "syscall 56" }, { "", "syscall 56" },
	};
	struct braid_html_names *n = braid_html_names_new();
	static struct braid_html_calls calls;
	size_t k;

	NEED(n);
	for (k = 0; k < sizeof(cases) / sizeof(*cases); k++)
		CHECK_EQ(braid_html_call_name(n, &calls, BRAID_CALL_NUMBER + 56, "56",
					      cases[k].machine),
			 braid_html_name(n, BRAID_HTML_SYSCALL, 0, 0, cases[k].name,
					 strlen(cases[k].name)));
	braid_html_names_free(n);
}

#define FORMAT(fields)	FORMAT_HEAD fields FORMAT_END

static struct braid_role_info role_of(const char *system, const char *name, const char *format)
{
	struct braid_event_type_info info = { .system = system, .name = name };
	struct braid_layout *layout;
	struct braid_roles roles = { 0 };
	struct braid_role_info role;
	const char *rest;

	NEED(!braid_layout_parse(&layout, format, system, &rest));
	info.layout = layout;
	role = *braid_roles_find(&roles, &info);
	braid_roles_free(&roles);
	braid_layout_free(layout);
	return role;
}

/* The two events of a handler are known by their names, whichever it is. */
static void handlers(void)
{
	static const char none[] = FORMAT("");
	struct braid_role_info begin = role_of("timer", "hrtimer_expire_entry", none);
	struct braid_role_info end = role_of("timer", "hrtimer_expire_exit", none);

	CHECK(begin.handler && begin.begins && !end.begins);
	CHECK_EQ(begin.handler, end.handler);
	CHECK(role_of("irq", "softirq_exit", none).handler != end.handler);
	CHECK_EQ(role_of("irq", "_entry", none).handler, 0);
	CHECK_EQ(role_of("kvm", "kvm_exit", none).handler, 0);
}

/* Whatever the event's text: this one has none. */
static void exit_names(void)
{
	static const char arm64[] = FORMAT("\tfield:unsigned int esr_ec;\toffset:8;\tsize:4;\tsigned:0;\n");
	const struct braid_role_info role = role_of("kvm", "kvm_exit", arm64);
	struct { struct braid_record record; u32 class; } payload = { .class = 1 };
	const struct braid_item item = {
		.payload = (u8 *)&payload, .payload_bytes = sizeof(payload),
	};
	const struct braid_html_seen seen = { .item = &item, .role = &role, .text = "" };
	struct braid_html_names *n = braid_html_names_new();

	NEED(n);
	CHECK_EQ(braid_html_exit_name(n, &seen), braid_html_name(n, BRAID_HTML_EXIT, 0, 0, "WFx", 3));
	braid_html_names_free(n);
}

int main(void)
{
	snprintf(capture, sizeof(capture), "/tmp/braid-html-%d.braid", getpid());
	snprintf(page, sizeof(page), "/tmp/braid-html-%d.html", getpid());
	RUN(chunks);
	RUN(names);
	RUN(call_names);
	RUN(handlers);
	RUN(exit_names);
	unlink(capture);
	unlink(page);
	return VERDICT();
}
