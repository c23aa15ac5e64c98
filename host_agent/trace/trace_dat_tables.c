// SPDX-License-Identifier: GPL-2.0-or-later
/* Data of a trace.dat besides its pages: formats, symbols, names of tasks, guests, losses. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/trace_dat.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define MAX_FORMAT	(1u << 20)	/* bytes of one */

/* The next bytes as text, with a NUL after it, to be freed; NULL: it failed. */
static char *take_text(struct braid_dat_input *in, u64 bytes, u64 max)
{
	if (bytes > max || bytes > in->end - in->at)
		braid_dat_refuse(in, "a text in it is too long");
	return braid_dat_take_new(in, bytes);
}

/* "header_page", NUL, bytes, text; and the same of "header_event". */
static char *take_named(struct braid_dat_input *in, const char *name)
{
	char there[16];

	braid_dat_take(in, there, strlen(name) + 1);
	if (memcmp(there, name, strlen(name) + 1))
		braid_dat_refuse(in, "header_page is missing");
	return take_text(in, braid_dat_number(in, 8), MAX_FORMAT);
}

void braid_dat_take_header(struct braid_dat_input *in)
{
	char *page = take_named(in, "header_page"), *event = take_named(in, "header_event");

	/* That of all 64-bit kernels since 2.6.37; kbuffer knows no other from it. */
	if (!in->err && (!strstr(page, "commit;\toffset:8;\tsize:8;") ||
			 !strstr(page, "data;\toffset:16;") || !strstr(event, "27 bits")))
		in->err = braid_fail(-EOPNOTSUPP, "'%s' has pages that are not those of a 64-bit kernel",
				     in->dat->path);
	free(page);
	free(event);
}

static void take_system(struct braid_dat_input *in, const char *system)
{
	u64 nr = braid_dat_number(in, 4), bytes;
	char *text;

	/* Each takes eight bytes at least, so the input ends it. */
	while (!in->err && nr--) {
		bytes = braid_dat_number(in, 8);
		text = take_text(in, bytes, MAX_FORMAT);
		if (text && braid_capture_add_format(in->dat->stream, system, text, bytes))
			in->err = braid_out_of_memory();
		free(text);
	}
}

void braid_dat_take_formats(struct braid_dat_input *in, bool ftrace)
{
	char system[56];
	u64 nr;

	if (ftrace) {
		take_system(in, "ftrace");
		return;
	}
	nr = braid_dat_number(in, 4);
	while (!in->err && nr--) {
		braid_dat_take_string(in, system, sizeof(system));
		take_system(in, system);
	}
}

void braid_dat_take_kallsyms(struct braid_dat_input *in)
{
	struct braid_stream *s = &in->dat->stream->stream;
	u64 bytes = braid_dat_number(in, 4);

	if (!bytes || s->kallsyms)
		return;
	s->kallsyms = take_text(in, bytes, BRAID_MAX_KALLSYMS);
	if (s->kallsyms)
		s->kallsyms_bytes = strlen(s->kallsyms);
}

/* Formats of trace_printk() and other constant texts, as tracefs has them in printk_formats. */
void braid_dat_take_printk(struct braid_dat_input *in)
{
	u64 bytes = braid_dat_number(in, 4);
	char *text = bytes ? take_text(in, bytes, BRAID_DAT_MAX_SECTION) : NULL;

	if (text && braid_capture_keep_printk(in->dat->stream, text, bytes))
		in->err = braid_out_of_memory();
	free(text);
}

/* Lines "PID NAME", as tracefs has them in saved_cmdlines. */
void braid_dat_take_comms(struct braid_dat_input *in)
{
	struct braid_capture_stream *s = in->dat->stream;
	char *text = take_text(in, braid_dat_number(in, 8), BRAID_DAT_MAX_SECTION);
	char *line, *rest = text, *name;

	while (!in->err && (line = strsep(&rest, "\n")) && *line) {
		struct braid_comm comm = { 0 };

		comm.pid = strtol(line, &name, 10);
		if (name == line || *name != ' ' || s->stream.nr_comms >= BRAID_MAX_TABLE)
			continue;
		strncpy(comm.comm, name + 1, sizeof(comm.comm) - 1);
		braid_text_clean(comm.comm);
		if (braid_array_push(s->stream.comms, s->stream.nr_comms, s->comms_capacity, comm))
			in->err = braid_out_of_memory();
	}
	free(text);
}

/* Guests of a host -------------------------------------------------------------------------- */

/* The option GUEST: its name, the number of its trace, and the thread of each vCPU; -1: unknown. */
void braid_dat_take_guest(struct braid_dat_input *in)
{
	struct braid_trace_dat *dat = in->dat;
	struct braid_dat_guest guest = { 0 };
	u64 nr;
	u32 k;

	braid_dat_take_string(in, guest.name, sizeof(guest.name));
	braid_text_clean(guest.name);
	guest.trace_id = braid_dat_number(in, 8);
	nr = braid_dat_number(in, 4);
	if (nr > BRAID_MAX_CPUS || dat->nr_guests >= BRAID_MAX_FILES)
		braid_dat_refuse(in, "it lists too many guests or vCPUs");
	guest.threads = in->err ? NULL : calloc(nr + 1, sizeof(*guest.threads));
	if (!in->err && !guest.threads)
		in->err = braid_out_of_memory();
	for (k = 0; k < nr && !in->err; k++) {
		guest.threads[k].vcpu = braid_dat_number(in, 4);
		guest.threads[k].tid = (s32)braid_dat_number(in, 4);
	}
	guest.nr_threads = nr;
	if (!in->err && braid_array_push(dat->guests, dat->nr_guests, dat->guests_capacity, guest))
		in->err = braid_out_of_memory();
	if (in->err)
		free(guest.threads);
}

void braid_dat_free_guests(struct braid_trace_dat *dat)
{
	size_t k;

	for (k = 0; k < dat->nr_guests; k++)
		free(dat->guests[k].threads);
	free(dat->guests);
}

/* What the kernel counted as lost of each CPU: tracefs' stats -------------------------------- */

/* "KEY: NUMBER" at a line's start. Return: the number, 0: it is not there. */
static u64 number_of(const char *text, const char *key)
{
	size_t n = strlen(key);
	const char *line;

	for (line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, n) && line[n] == ':')
			return strtoull(line + n + 1, NULL, 10);
	}
	return 0;
}

/* Options name an instance once, before those of its CPUs; the top buffer's come first. */
int braid_dat_take_stats(struct braid_trace_dat *dat, const char *text)
{
	struct braid_dat_lost lost = { 0 };
	const char *name = strstr(text, "Buffer: "), *cpu = strstr(text, "CPU: ");

	if (name) {
		snprintf(dat->stats_of, sizeof(dat->stats_of), "%.*s",
			 (int)strcspn(name + 8, "\n"), name + 8);
		braid_text_clean(dat->stats_of);
	}
	if (!cpu)
		return 0;
	memcpy(lost.buffer, dat->stats_of, sizeof(lost.buffer));
	lost.cpu = strtoul(cpu + 5, NULL, 10);
	if (__builtin_add_overflow(number_of(text, "overrun"), number_of(text, "commit overrun"),
				   &lost.events) ||
	    __builtin_add_overflow(lost.events, number_of(text, "dropped events"), &lost.events) ||
	    lost.events > INT64_MAX)
		return braid_dat_broken(dat, "its number of lost events is impossible");
	if (braid_array_push(dat->lost, dat->nr_lost, dat->lost_capacity, lost))
		return braid_out_of_memory();
	return 0;
}

static int by_cpu(const void *a, const void *b)
{
	const struct braid_dat_lost *x = a, *y = b;

	return strcmp(x->buffer, y->buffer) ?: braid_compare(x->cpu, y->cpu);
}

void braid_dat_spread_stats(struct braid_trace_dat *dat)
{
	const struct braid_dat_lost *found;
	struct braid_dat_lost key;
	size_t k;

	if (!dat->nr_lost)
		return;
	qsort(dat->lost, dat->nr_lost, sizeof(*dat->lost), by_cpu);
	for (k = 0; k < dat->stream->stream.nr_rings; k++) {
		struct braid_capture_ring *ring =
			(struct braid_capture_ring *)dat->stream->stream.rings[k];

		memcpy(key.buffer, dat->buffers[ring->ring.buffer].name, sizeof(key.buffer));
		key.cpu = ring->ring.cpu;
		found = bsearch(&key, dat->lost, dat->nr_lost, sizeof(*dat->lost), by_cpu);
		if (found)
			ring->stated_lost = found->events;
	}
}
