// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes the options that select what a guest records. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/record_selection.h"
#include "host_agent/util/error.h"

int braid_take_events(const struct braid_option *o, void *list, const char *value)
{
	(void)o;
	return braid_record_add_events(list, value);
}

int braid_take_filter(const struct braid_option *o, void *list, const char *value)
{
	(void)o;
	return braid_record_add_filter(list, value);
}

int braid_take_probe(const struct braid_option *o, void *to, const char *value)
{
	struct braid_record_options *r = to;

	return !strcmp(o->name, "kprobe") ? braid_record_add_kprobe(r, value) :
					    braid_record_add_uprobe(r, value);
}

int braid_take_pid(const struct braid_option *o, void *to, const char *value)
{
	struct braid_record_options *r = to;

	(void)o;
	return braid_record_add_pid(r, value);
}

int braid_take_trigger(const struct braid_option *o, void *to, const char *value)
{
	struct braid_record_options *r = to;

	(void)o;
	return braid_record_add_trigger(r, value);
}

/* "64K". Return: 0, or -EINVAL with braid_fail(). */
static int record_selection_bytes(u64 *bytes, const char *value, u64 most)
{
	char *end;
	double number = strtod(value, &end);
	int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;

	number *= 1ULL << shift;
	if (end == value || end[shift > 0] || !(number >= 1 && number <= most))
		return braid_fail(-EINVAL, "expected a size, as in 64K or 4M");
	*bytes = number;
	return 0;
}

int braid_take_buffer_size(const struct braid_option *o, void *to, const char *value)
{
	struct braid_record_options *r = to;

	(void)o;
	return record_selection_bytes(&r->reshape.ring_bytes, value, 1ULL << 40);
}

int braid_take_subbuf_size(const struct braid_option *o, void *to, const char *value)
{
	struct braid_record_options *r = to;
	u64 bytes = 0;
	int err = record_selection_bytes(&bytes, value, 1ULL << 40);

	(void)o;
	if (!err && (bytes < BRAID_MIN_SUBBUF_BYTES || bytes > BRAID_MAX_SUBBUF_BYTES || bytes % 8))
		err = braid_fail(-EINVAL, "expected 256 to 64K, a multiple of 8");
	r->reshape.subbuf_bytes = bytes;
	return err;
}

int braid_take_mode(const struct braid_option *o, void *to, const char *value)
{
	struct braid_record_options *r = to;
	bool overwrite = !strcmp(value, "overwrite");

	(void)o;
	if (!overwrite && strcmp(value, "consume"))
		return braid_fail(-EINVAL, "expected overwrite or consume");
	r->reshape.set = overwrite ? BRAID_BUFFER_OVERWRITE : 0;
	r->reshape.clear = overwrite ? 0 : BRAID_BUFFER_OVERWRITE;
	return 0;
}

int braid_take_cpus(const struct braid_option *o, void *to, const char *value)
{
	struct braid_record_options *r = to;

	(void)o;
	r->who.cpus = value;
	return braid_who_check(&(struct braid_who){ .cpus = value });
}

int braid_record_selection_check(const struct braid_record_options *o)
{
	if (o->user_stacks && !o->sample_hz && !o->stacks)
		return braid_fail(-EINVAL, "--user-stacks needs --sample or -T");
	return braid_who_check(&o->who);
}
