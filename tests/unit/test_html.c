// SPDX-License-Identifier: GPL-2.0-or-later
/* The page of the HTML export: what of it the browser's test can't see. */
#include <string.h>
#include <sys/stat.h>
#include <traceevent/event-parse.h>
#include <unistd.h>

#include "host_agent/export/html_calls.h"
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

/* Tasks whose hashes are equal, or were, keep their own calls. */
static void calls(void)
{
	struct braid_html_calls *c = braid_html_calls_new();
	u32 k, wrong = 0;

	NEED(c);
	CHECK_EQ(braid_html_calls_of(c, 0, 100), 0);
	CHECK_EQ(braid_html_calls_set(c, 0, 100, 0), 0);
	for (k = 0; k < 50000; k++)
		NEED(!braid_html_calls_set(c, k & 1, 100 + (k >> 1) * 65536, k + 1));
	for (k = 0; k < 50000; k++)
		wrong += braid_html_calls_of(c, k & 1, 100 + (k >> 1) * 65536) != k + 1;
	CHECK_EQ(wrong, 0);
	for (k = 0; k < 50000; k += 3)
		NEED(!braid_html_calls_set(c, k & 1, 100 + (k >> 1) * 65536, 0));
	for (k = 0; k < 50000; k++)
		wrong += braid_html_calls_of(c, k & 1, 100 + (k >> 1) * 65536) !=
			 (k % 3 ? k + 1 : 0);
	CHECK_EQ(wrong, 0);
	braid_html_calls_free(c);
}

static u32 call_on(struct braid_html_names *n, const struct tep_event *event, const char *machine,
		   u64 id)
{
	struct { struct braid_record record; u64 id; } payload = { .id = id };
	static const struct braid_event_type_info info = {
		.system = "raw_syscalls", .name = "sys_enter",
	};
	struct braid_stream stream = { .kind = BRAID_STREAM_GUEST };
	struct braid_item item = {
		.stream = &stream, .payload = (u8 *)&payload, .payload_bytes = sizeof(payload),
	};
	struct braid_html_seen seen = { .item = &item, .info = &info, .event = event, .text = "" };

	snprintf(stream.machine, sizeof(stream.machine), "%s", machine);
	return braid_html_call_name(n, &seen);
}

/* Each machine has its own numbers. */
static void call_names(void)
{
	static const char format[] = "name: sys_enter\nID: 7\nformat:\n"
		"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
		"\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n\nprint fmt: \"\"\n";
	static const struct {
		const char *machine, *name;
	} cases[] = {
		{ "x86_64", "clone" }, { "aarch64", "openat" }, { "riscv64", "openat" },
		{ "vax", "syscall 56" }, { "", "syscall 56" },
	};
	struct braid_html_names *n = braid_html_names_new();
	struct tep_handle *tep = tep_alloc();
	struct tep_event *event;
	size_t k;

	NEED(n && tep && !tep_parse_format(tep, &event, format, strlen(format), "raw_syscalls"));
	for (k = 0; k < sizeof(cases) / sizeof(*cases); k++)
		CHECK_EQ(call_on(n, event, cases[k].machine, 56),
			 braid_html_name(n, BRAID_HTML_SYSCALL, 0, 0, cases[k].name,
					 strlen(cases[k].name)));
	tep_free(tep);
	braid_html_names_free(n);
}

int main(void)
{
	snprintf(capture, sizeof(capture), "/tmp/braid-html-%d.braid", getpid());
	snprintf(page, sizeof(page), "/tmp/braid-html-%d.html", getpid());
	RUN(chunks);
	RUN(names);
	RUN(meanings);
	RUN(calls);
	RUN(call_names);
	unlink(capture);
	unlink(page);
	return VERDICT();
}
