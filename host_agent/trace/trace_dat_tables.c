// SPDX-License-Identifier: GPL-2.0-or-later
/* Data of a trace.dat besides its pages: formats, symbols, names of tasks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/trace_dat.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define MAX_FORMAT	(1u << 20)	/* bytes of one */

/* The next bytes as text, with a NUL after it; free() it. */
static int trace_dat_tables_take_text(struct braid_dat_input *in, u64 bytes, u64 max, char **out)
{
	char *text = NULL;
	int err;

	if (bytes > max || bytes > in->end - in->at)
		return braid_dat_broken(in->dat, "a text in it is too long");
	text = malloc(bytes + 1);
	if (!text)
		return braid_out_of_memory();
	err = braid_dat_take(in, text, bytes);
	if (err) {
		free(text);
		return err;
	}
	text[bytes] = 0;
	*out = text;
	return 0;
}

/* "header_page", NUL, bytes, text; and the same of "header_event". */
static int take_named(struct braid_dat_input *in, const char *name, char **text)
{
	char there[16];
	u64 bytes;
	int err = braid_dat_take(in, there, strlen(name) + 1);

	if (!err && memcmp(there, name, strlen(name) + 1))
		err = braid_dat_broken(in->dat, "header_page is missing");
	if (!err)
		err = braid_dat_take_number(in, 8, &bytes);
	return err ? err : trace_dat_tables_take_text(in, bytes, MAX_FORMAT, text);
}

int braid_dat_take_header(struct braid_dat_input *in)
{
	char *page = NULL, *event = NULL;
	int err = take_named(in, "header_page", &page);

	if (!err)
		err = take_named(in, "header_event", &event);
	/* That of all 64-bit kernels since 2.6.37; kbuffer knows no other from it. */
	if (!err && (!strstr(page, "commit;\toffset:8;\tsize:8;") ||
		     !strstr(page, "data;\toffset:16;") || !strstr(event, "27 bits")))
		err = braid_fail(-EOPNOTSUPP, "'%s' has pages that are not those of a 64-bit kernel",
				 in->dat->path);
	free(page);
	free(event);
	return err;
}

static int take_format(struct braid_dat_input *in, const char *system)
{
	char *text = NULL;
	u64 bytes;
	int err = braid_dat_take_number(in, 8, &bytes);

	if (!err)
		err = trace_dat_tables_take_text(in, bytes, MAX_FORMAT, &text);
	if (err)
		return err;
	err = braid_capture_add_format(in->dat->stream, system, text, bytes);
	free(text);
	return err ? braid_out_of_memory() : 0;
}

static int take_system(struct braid_dat_input *in, const char *system)
{
	u64 nr = 0;
	int err = braid_dat_take_number(in, 4, &nr);

	/* Each takes eight bytes at least, so the input ends it. */
	while (!err && nr--)
		err = take_format(in, system);
	return err;
}

int braid_dat_take_formats(struct braid_dat_input *in, bool ftrace)
{
	char system[56];
	u64 nr = 0;
	int err;

	if (ftrace)
		return take_system(in, "ftrace");
	err = braid_dat_take_number(in, 4, &nr);
	while (!err && nr--) {
		err = braid_dat_take_string(in, system, sizeof(system));
		if (!err)
			err = take_system(in, system);
	}
	return err;
}

int braid_dat_take_kallsyms(struct braid_dat_input *in)
{
	struct braid_stream *s = &in->dat->stream->stream;
	u64 bytes;
	int err = braid_dat_take_number(in, 4, &bytes);

	if (err || !bytes || s->kallsyms)
		return err;
	err = trace_dat_tables_take_text(in, bytes, BRAID_MAX_KALLSYMS, &s->kallsyms);
	if (!err)
		s->kallsyms_bytes = strlen(s->kallsyms);
	return err;
}

/* Formats of trace_printk() and other constant texts, as tracefs has them in printk_formats. */
int braid_dat_take_printk(struct braid_dat_input *in)
{
	char *text = NULL;
	u64 bytes;
	int err = braid_dat_take_number(in, 4, &bytes);

	if (err || !bytes)
		return err;
	err = trace_dat_tables_take_text(in, bytes, BRAID_DAT_MAX_SECTION, &text);
	if (err)
		return err;
	err = braid_capture_keep_printk(in->dat->stream, text, bytes);
	free(text);
	return err ? braid_out_of_memory() : 0;
}

/* Lines "PID NAME", as tracefs has them in saved_cmdlines. */
int braid_dat_take_comms(struct braid_dat_input *in)
{
	struct braid_capture_stream *s = in->dat->stream;
	char *text = NULL, *line, *next, *name;
	u64 bytes;
	int err = braid_dat_take_number(in, 8, &bytes);

	if (!err)
		err = trace_dat_tables_take_text(in, bytes, BRAID_DAT_MAX_SECTION, &text);
	if (err)
		return err;
	for (line = text; line && *line && !err; line = next) {
		struct braid_comm comm = { 0 };

		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		comm.pid = strtol(line, &name, 10);
		if (name == line || *name != ' ' || s->stream.nr_comms >= BRAID_MAX_TABLE)
			continue;
		strncpy(comm.comm, name + 1, sizeof(comm.comm) - 1);
		braid_text_clean(comm.comm);
		err = braid_array_push(s->stream.comms, s->stream.nr_comms, s->comms_capacity,
				       comm);
	}
	free(text);
	return err ? braid_out_of_memory() : 0;
}
