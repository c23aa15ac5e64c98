// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes CTF's metadata, in TSDL: a trace, its clock, its stream classes. */
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "host_agent/export/ctf/ctf.h"

#define NS_PER_S	1000000000LL
#define UUID_FORMAT	"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x"
#define UUID(u)		(u)[0], (u)[1], (u)[2], (u)[3], (u)[4], (u)[5], (u)[6], (u)[7], (u)[8], \
			(u)[9], (u)[10], (u)[11], (u)[12], (u)[13], (u)[14], (u)[15]

/* All integers are aligned to bytes, in little endian, as records have them. */
static const char types[] =
	"typealias integer { size = 5; align = 1; signed = false; } := uint5_t;\n"
	"typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
	"typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
	"typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
	"typealias integer { size = 32; align = 8; signed = true; } := int32_t;\n\n";

static const char packet_header[] =
	"\tpacket.header := struct {\n"
	"\t\tinteger { size = 32; align = 8; base = x; } magic;\n"
	"\t\tuint8_t uuid[16];\n"
	"\t\tuint32_t stream_id;\n"
	"\t\tuint64_t stream_instance_id;\n"
	"\t} align(8);\n";

/* The same as LTTng's, for which Trace Compass has a fast path. */
static const char event_header[] =
	"\tevent.header := struct {\n"
	"\t\tenum : uint5_t { compact = 0 ... 30, extended = 31 } id;\n"
	"\t\tvariant <id> {\n"
	"\t\t\tstruct {\n"
	"\t\t\t\tuint27_clock_t timestamp;\n"
	"\t\t\t} compact;\n"
	"\t\t\tstruct {\n"
	"\t\t\t\tuint32_t id;\n"
	"\t\t\t\tuint64_clock_t timestamp;\n"
	"\t\t\t} extended;\n"
	"\t\t} v;\n"
	"\t} align(8);\n";

static const char event_context[] =
	"\tevent.context := struct {\n"
	"\t\tint32_t _tid;\n"
	"\t\tuint8_t _common_flags;\n"
	"\t\tuint8_t _common_preempt_count;\n"
	"\t\tuint64_t _bound_ns;\n"
	"\t\tstring { encoding = UTF8; } _procname;\n"
	"\t} align(8);\n";

static const char state_fields[] =
	"\t\tuint32_t _vcpu;\n"
	"\t\tstring { encoding = UTF8; } _state;\n"
	"\t\tuint64_t _ns;\n"
	"\t\tstring { encoding = UTF8; } _task;\n"
	"\t\tstring { encoding = UTF8; } _culprit;\n";

static void put_entry(struct braid_text *to, const char *name, const char *value)
{
	char plain[256];

	braid_ctf_plain(plain, sizeof(plain), value);
	braid_text_printf(to, "\t%s = \"%s\";\n", name, plain);
}

/* The kind of its clock. A guest that moved has one on each host: the kinds, each once. */
static void put_clocks(char *to, size_t size, const struct braid_stream *stream)
{
	const struct braid_stream *part = braid_stream_first_part(stream);
	const char *name;
	size_t k = 0, used = 0;

	do {
		name = braid_clock_kind_name(part->clock.kind);
		if (!strstr(to, name) && used < size)
			used += snprintf(to + used, size - used, "%s%s", used ? ", " : "", name);
		part = ++k < stream->nr_stays ? stream->stays[k].of : NULL;
	} while (part);
}

static void put_environment(const struct braid_ctf *ctf, struct braid_text *to,
			    const struct braid_stream *stream)
{
	const struct braid_source *source = ctf->walk.source;
	const char *name = stream->name;
	char clocks[64] = "";

	if (stream->kind == BRAID_STREAM_HOST && source->nr_hosts > 1 && stream->host)
		name = stream->host->name;
	else if (stream->kind == BRAID_STREAM_HOST && *source->head.host_name)
		name = source->head.host_name;
	put_clocks(clocks, sizeof(clocks), stream);
	braid_text_puts(to, "env {\n");
	put_entry(to, "hostname", name);
	put_entry(to, "domain", "kernel");
	put_entry(to, "sysname", "Linux");
	put_entry(to, "kernel_release", stream->kernel_release);
	put_entry(to, "machine", stream->machine);
	put_entry(to, "tracer_name", "tracebraid");
	put_entry(to, "stream_name", stream->name);
	put_entry(to, "clock_source", clocks);
	braid_text_puts(to, "};\n\n");
}

/*
 * The clock's id. Trace Compass knows a machine by it. Clocks of unknown origin are one clock, with one
 * id in all traces of the export: babeltrace2 cannot merge them otherwise.
 */
static void put_clock_id(const struct braid_ctf *ctf, struct braid_text *to,
			 const struct braid_stream *stream)
{
	static const u8 none[sizeof(stream->boot_id)];
	XXH128_canonical_t common;

	if (!ctf->output->absolute) {
		XXH128_canonicalFromHash(&common, XXH3_128bits(&ctf->walk.source->head,
							       sizeof(ctf->walk.source->head)));
		braid_text_printf(to, "\tuuid = \"" UUID_FORMAT "\";\n", UUID(common.digest));
	} else if (memcmp(stream->boot_id, none, sizeof(none))) {
		braid_text_printf(to, "\tuuid = \"" UUID_FORMAT "\";\n", UUID(stream->boot_id));
	}
}

static void ctf_metadata_put_clock(const struct braid_ctf *ctf, struct braid_text *to,
				   const struct braid_stream *stream)
{
	u64 bound = braid_walk_stream_bound(&ctf->walk, stream);
	s64 offset_s = ctf->output->offset_ns / NS_PER_S;
	s64 rest_ns = ctf->output->offset_ns % NS_PER_S;
	char name[32];

	braid_ctf_clock_name(name, sizeof(name), ctf->walk.options->realtime ? "realtime" :
			     ctf->walk.source->head.clock);
	braid_text_printf(to, "clock {\n\tname = %s;\n", name);
	put_clock_id(ctf, to, stream);
	braid_text_printf(to, "\tfreq = %lld;\n\tprecision = %llu;\n", NS_PER_S,
			  (unsigned long long)(bound < BRAID_CTF_NO_BOUND ? bound :
					       BRAID_CTF_NO_BOUND));
	braid_text_printf(to, "\toffset_s = %lld;\n\toffset = %lld;\n\tabsolute = %s;\n};\n\n",
			  (long long)(rest_ns < 0 ? offset_s - 1 : offset_s),
			  (long long)(rest_ns < 0 ? rest_ns + NS_PER_S : rest_ns),
			  ctf->output->absolute ? "true" : "false");
	braid_text_printf(to, "typealias integer { size = 27; align = 1; signed = false; "
			  "map = clock.%s.value; } := uint27_clock_t;\n", name);
	braid_text_printf(to, "typealias integer { size = 64; align = 8; signed = false; "
			  "map = clock.%s.value; } := uint64_clock_t;\n\n", name);
}

void braid_ctf_describe_trace(const struct braid_ctf *ctf, struct braid_text *to,
			      const struct braid_ctf_trace *t, const struct braid_stream *stream)
{
	braid_text_puts(to, "/* CTF 1.8 */\n\n");
	braid_text_puts(to, types);
	braid_text_printf(to, "trace {\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"" UUID_FORMAT
			  "\";\n\tbyte_order = le;\n", UUID(t->uuid));
	braid_text_puts(to, packet_header);
	braid_text_puts(to, "};\n\n");
	put_environment(ctf, to, stream);
	ctf_metadata_put_clock(ctf, to, stream);
}

void braid_ctf_begin_event_class(struct braid_text *to, u32 class, u32 id, const char *name)
{
	braid_text_printf(to, "event {\n\tname = \"%s\";\n\tid = %u;\n\tstream_id = %u;\n"
			  "\tfields := struct {\n", name, id, class);
}

void braid_ctf_end_event_class(struct braid_text *to)
{
	braid_text_puts(to, "\t};\n};\n\n");
}

void braid_ctf_describe_class(struct braid_text *to, u32 id)
{
	bool notes = id == BRAID_CTF_NOTES, states = id == BRAID_CTF_STATES;

	braid_text_printf(to, "stream {\n\tid = %u;\n", id);
	braid_text_puts(to, event_header);
	braid_text_puts(to, "\tpacket.context := struct {\n"
			"\t\tuint64_clock_t timestamp_begin;\n"
			"\t\tuint64_clock_t timestamp_end;\n"
			"\t\tuint64_t content_size;\n"
			"\t\tuint64_t packet_size;\n"
			"\t\tuint64_t packet_seq_num;\n"
			"\t\tuint64_t events_discarded;\n");
	if (!notes)
		braid_text_puts(to, "\t\tuint32_t cpu_id;\n");
	braid_text_puts(to, "\t} align(8);\n");
	if (!notes && !states)
		braid_text_puts(to, event_context);
	braid_text_puts(to, "};\n\n");
	if (!notes && !states)
		return;
	braid_ctf_begin_event_class(to, id, 0, notes ? "note" : "tracebraid:vcpu_state");
	braid_text_puts(to, notes ? "\t\tstring { encoding = UTF8; } _text;\n" : state_fields);
	braid_ctf_end_event_class(to);
}
