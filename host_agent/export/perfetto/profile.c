// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The stacks of the analysis 'profile', as instants whose callstacks have a weight: Perfetto draws
 * them as a flame graph. Each vCPU's are on a track, at the start of the observed time, 1 ns apart:
 * a profile is of a whole time.
 */
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/perfetto/perfetto.h"
#include "host_agent/util/error.h"
#include "host_agent/util/wire.h"
#include "host_agent/walk/analysis.h"

#define MOST_FRAMES	(1u << 16)
#define MOST_DEPTH	128u	/* frames of a stack: more than any has */
#define OF_ALL		UINT32_MAX	/* instead of a frame: the track above the others */

/* Fields of the .proto file that are encoded here. */
#define TIMESTAMP_KEY	braid_wire_key(8, BRAID_WIRE_VARINT)	/* TracePacket.timestamp */
#define EVENT_KEY	braid_wire_key(11, BRAID_WIRE_BYTES)	/* its track_event ... */
#define ARG_KEY		braid_wire_key(4, BRAID_WIRE_BYTES)	/* .debug_annotations ... */
#define ARG_NUMBER_KEY	braid_wire_key(3, BRAID_WIRE_VARINT)	/* ... .uint_value */
#define ARG_NAME_KEY	braid_wire_key(10, BRAID_WIRE_BYTES)	/* ... .name */
#define TYPE_KEY	braid_wire_key(9, BRAID_WIRE_VARINT)	/* .type */
#define TRACK_KEY	braid_wire_key(11, BRAID_WIRE_VARINT)	/* .track_uuid */
#define CATEGORY_KEY	braid_wire_key(22, BRAID_WIRE_BYTES)	/* .categories */
#define NAME_KEY	braid_wire_key(23, BRAID_WIRE_BYTES)	/* .name */
#define STACK_KEY	braid_wire_key(56, BRAID_WIRE_VARINT)	/* .callstack_iid */
#define WEIGHT_KEY	braid_wire_key(57, BRAID_WIRE_FIXED64)	/* .callstack_weight */
#define DESCRIPTOR_KEY	braid_wire_key(60, BRAID_WIRE_BYTES)	/* .track_descriptor ... */
#define UUID_KEY	braid_wire_key(1, BRAID_WIRE_VARINT)	/* .uuid */
#define TITLE_KEY	braid_wire_key(2, BRAID_WIRE_BYTES)	/* .name */
#define PARENT_KEY	braid_wire_key(5, BRAID_WIRE_VARINT)	/* .parent_uuid */
#define TEXT_KEY	braid_wire_key(14, BRAID_WIRE_BYTES)	/* .description */
#define INTERNED_KEY	braid_wire_key(12, BRAID_WIRE_BYTES)	/* TracePacket.interned_data ... */
#define FUNCTION_KEY	braid_wire_key(5, BRAID_WIRE_BYTES)	/* .function_names */
#define FRAME_KEY	braid_wire_key(6, BRAID_WIRE_BYTES)	/* .frames */
#define CALLSTACK_KEY	braid_wire_key(7, BRAID_WIRE_BYTES)	/* .callstacks */
#define IID_KEY		braid_wire_key(1, BRAID_WIRE_VARINT)	/* of all of these */
#define STRING_KEY	braid_wire_key(2, BRAID_WIRE_BYTES)	/* InternedString.str */
#define FUNCTION_ID_KEY	braid_wire_key(2, BRAID_WIRE_VARINT)	/* Frame.function_name_id */
#define FRAME_ID_KEY	braid_wire_key(2, BRAID_WIRE_VARINT)	/* Callstack.frame_ids */

static const char of_vcpu[] = "Select all of this track: its callstacks, weighted by ns, are where "
			      "the vCPU's time went.";
static const char of_all[] = "Where vCPUs' time went, by samples and states: docs/profile.md of "
			     "tracebraid explains the frames.";

struct profile {
	struct braid_perfetto_out *out;
	struct braid_perfetto_sequence sequence;
	struct braid_flame flame;
	bool *named;		/* by name: it is interned, as a function and as a frame */
	u32 *on_track;		/* by frame that has a track: instants so far + 1 */
};

static void perfetto_profile_put_string(struct braid_text *t, u64 key, const char *text)
{
	braid_wire_string(t, key, text, strlen(text));
}

/* Tracks ------------------------------------------------------------------------------------- */

static u64 perfetto_profile_track(u32 frame)
{
	return braid_perfetto_track_of(BRAID_PERFETTO_PROFILE, frame + 1);
}

static int perfetto_profile_put_track(struct profile *x, u32 frame, const char *name,
				      const char *description)
{
	size_t packet = braid_perfetto_begin(&x->sequence), descriptor;
	struct braid_text *t = &x->out->bytes;

	descriptor = braid_wire_begin(t, DESCRIPTOR_KEY);
	braid_wire_number(t, UUID_KEY, perfetto_profile_track(frame));
	perfetto_profile_put_string(t, TITLE_KEY, name);
	if (frame != OF_ALL)
		braid_wire_number(t, PARENT_KEY, perfetto_profile_track(OF_ALL));
	perfetto_profile_put_string(t, TEXT_KEY, description);
	braid_wire_end(t, descriptor);
	return braid_perfetto_end(&x->sequence, packet);
}

/* The track of a vCPU, whose frame is the second one of @path. Return: likewise. */
static int perfetto_profile_need_track(struct profile *x, const u32 *path, u32 depth, u32 *frame)
{
	const struct braid_flame_frame *all = x->flame.frames;
	char name[2 * BRAID_PERFETTO_NAME];

	*frame = path[depth > 1 ? 1 : 0];
	if (x->on_track[*frame])
		return 0;
	x->on_track[*frame] = 1;
	snprintf(name, sizeof(name), "%s%s%s, profile", braid_flame_name(&x->flame, &all[path[0]]),
		 depth > 1 ? " " : "", depth > 1 ? braid_flame_name(&x->flame, &all[*frame]) : "");
	return perfetto_profile_put_track(x, *frame, name, of_vcpu);
}

/* Stacks ------------------------------------------------------------------------------------- */

/* From the outermost frame to @frame. Return: their number. */
static u32 perfetto_profile_path(const struct profile *x, u32 frame, u32 path[MOST_DEPTH])
{
	u32 reverse[MOST_DEPTH], nr = 0, k;

	for (; frame != BRAID_FLAME_ROOT && nr < MOST_DEPTH; frame = x->flame.frames[frame].parent)
		reverse[nr++] = frame;
	for (k = 0; k < nr; k++)
		path[k] = reverse[nr - 1 - k];
	return nr;
}

/* Functions and frames have the same number: that of their name. */
static void perfetto_profile_intern(struct profile *x, u32 name, u64 key)
{
	struct braid_text *t = &x->out->bytes;
	size_t entry = braid_wire_begin(t, key);

	braid_wire_number(t, IID_KEY, (u64)name + 1);
	if (key == FUNCTION_KEY)
		perfetto_profile_put_string(t, STRING_KEY,
					    x->flame.texts.data + x->flame.names[name].at);
	else
		braid_wire_number(t, FUNCTION_ID_KEY, (u64)name + 1);
	braid_wire_end(t, entry);
}

static void perfetto_profile_put_interned(struct profile *x, const u32 *path, u32 depth)
{
	struct braid_text *t = &x->out->bytes;
	size_t data = braid_wire_begin(t, INTERNED_KEY), entry;
	u32 k, name;

	for (k = 0; k < depth; k++) {
		name = x->flame.frames[path[k]].name;
		if (x->named[name])
			continue;
		x->named[name] = true;
		perfetto_profile_intern(x, name, FUNCTION_KEY);
		perfetto_profile_intern(x, name, FRAME_KEY);
	}
	entry = braid_wire_begin(t, CALLSTACK_KEY);
	braid_wire_number(t, IID_KEY, (u64)path[depth - 1] + 1);
	for (k = 0; k < depth; k++)
		braid_wire_number(t, FRAME_ID_KEY, (u64)x->flame.frames[path[k]].name + 1);
	braid_wire_end(t, entry);
	braid_wire_end(t, data);
}

static void perfetto_profile_put_event(struct profile *x, const struct braid_flame_frame *frame,
				       u64 track)
{
	struct braid_text *t = &x->out->bytes;
	size_t event = braid_wire_begin(t, EVENT_KEY), arg;
	double weight = frame->own_ns;
	u64 bits;

	memcpy(&bits, &weight, sizeof(bits));
	arg = braid_wire_begin(t, ARG_KEY);
	braid_wire_number(t, ARG_NUMBER_KEY, frame->own_ns);
	perfetto_profile_put_string(t, ARG_NAME_KEY, "ns");
	braid_wire_end(t, arg);
	braid_wire_number(t, TYPE_KEY, BRAID__TRACK_EVENT__TYPE__INSTANT);
	braid_wire_number(t, TRACK_KEY, track);
	perfetto_profile_put_string(t, CATEGORY_KEY, "tracebraid");
	perfetto_profile_put_string(t, NAME_KEY, braid_flame_name(&x->flame, frame));
	braid_wire_number(t, STACK_KEY, (u64)(frame - x->flame.frames) + 1);
	braid_wire_fixed64(t, WEIGHT_KEY, bits);
	braid_wire_end(t, event);
}

static int perfetto_profile_put_stack(struct profile *x, u32 k)
{
	const struct braid_flame_frame *frame = &x->flame.frames[k];
	u32 path[MOST_DEPTH] = { 0 }, depth = perfetto_profile_path(x, k, path), of;
	int err = perfetto_profile_need_track(x, path, depth, &of);
	size_t packet;

	if (err)
		return err;
	packet = braid_perfetto_begin(&x->sequence);
	braid_wire_number(&x->out->bytes, TIMESTAMP_KEY,
			  (u64)x->flame.begin_ns + x->on_track[of]++ - 1);
	perfetto_profile_put_interned(x, path, depth);
	perfetto_profile_put_event(x, frame, perfetto_profile_track(of));
	return braid_perfetto_end(&x->sequence, packet);
}

static int perfetto_profile_put(struct profile *x)
{
	u32 k;
	int err;

	x->named = calloc(x->flame.nr_names, sizeof(*x->named));
	x->on_track = calloc(x->flame.nr, sizeof(*x->on_track));
	if (!x->named || !x->on_track)
		return braid_out_of_memory();
	err = perfetto_profile_put_track(x, OF_ALL, "profile", of_all);
	for (k = 0; k < x->flame.nr && !err; k++)
		if (x->flame.frames[k].own_ns)
			err = perfetto_profile_put_stack(x, k);
	return err;
}

int braid_perfetto_profile(struct braid_perfetto_out *o)
{
	struct braid_source *source = o->walk->source;
	struct profile x = {
		.out = o,
		/* After those of machines, and of hosts' states. */
		.sequence = { .out = o, .id = 2 * source->nr_streams + 2 },
	};
	int err = braid_analysis_flame(source, o->walk->options, MOST_FRAMES, &x.flame);

	if (!err && x.flame.nr)
		err = perfetto_profile_put(&x);
	braid_perfetto_sequence_free(&x.sequence);
	braid_flame_free(&x.flame);
	free(x.named);
	free(x.on_track);
	return err;
}
