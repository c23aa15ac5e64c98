// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Stacks of events as ftrace's kernel_stack, which libtraceevent prints with the functions' names,
 * and user_stack, whose array has any length here.
 */
#include <string.h>

#include "host_agent/export/trace_dat/stacks.h"

#define MOST_FRAMES	256u

static const char kernel_format[] =
	"name: kernel_stack\nID: 4\nformat:\n" BRAID_DAT_OUT_COMMON
	"\tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n"
	"\tfield:unsigned long caller[];\toffset:16;\tsize:0;\tsigned:0;\n"
	"\nprint fmt: \"%d frames\", REC->size\n";	/* of readers that do not know it */
static const char user_format[] =
	"name: user_stack\nID: 12\nformat:\n" BRAID_DAT_OUT_COMMON
	"\tfield:__data_loc unsigned long[] caller;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\nprint fmt: \"%s\", __print_array(__get_dynamic_array(caller), "
	"__get_dynamic_array_len(caller) / 8, 8)\n";

/* Records of pages are aligned to 4 bytes. */
struct stack_record {
	struct braid_record record;
	u32 size;		/* frames; of the user stack as __data_loc */
	u32 reserved;
	u64 caller[];
} __attribute__((packed, aligned(4)));

void braid_dat_out_stacks_format(struct braid_dat_out_file *file)
{
	braid_dat_out_put_format(file, "ftrace", kernel_format, strlen(kernel_format));
	braid_dat_out_put_format(file, "ftrace", user_format, strlen(user_format));
}

bool braid_dat_out_stacks_is(const struct braid_event_type_info *info)
{
	return info->layout && !strcmp(info->system, "tracebraid") && !strcmp(info->name, "stack");
}

u32 braid_dat_out_stacks_find(const struct braid_item *item,
			      const struct braid_event_type_info *info, bool user,
			      const u8 **frames)
{
	const struct braid_field *field;
	u32 offset, bytes;

	*frames = item->payload;
	field = braid_layout_find(info->layout, user ? "user_stack" : "stack");
	if (!field || !(field->flags & BRAID_FIELD_DYNAMIC) ||
	    !braid_dynamic_range(field, item->payload, item->payload_bytes, &offset, &bytes))
		return 0;
	*frames = item->payload + offset;
	bytes -= bytes % sizeof(u64);
	return bytes < MOST_FRAMES * sizeof(u64) ? bytes : MOST_FRAMES * sizeof(u64);
}

u32 braid_dat_out_stacks_bytes(u32 frames_bytes)
{
	return sizeof(struct stack_record) + frames_bytes;
}

void braid_dat_out_stacks_fill(void *record, const struct braid_item *item, bool user,
			       const u8 *frames, u32 bytes)
{
	struct stack_record *r = record;

	memset(r, 0, sizeof(*r));
	r->record.common_pid = BRAID_PID_UNKNOWN;
	if (braid_format_pid(item) != BRAID_PID_UNKNOWN)
		memcpy(&r->record, item->payload, sizeof(r->record));
	r->record.common_type = user ? BRAID_DAT_OUT_USER_STACK : BRAID_DAT_OUT_KERNEL_STACK;
	r->size = user ? bytes << 16 | sizeof(*r) : bytes / sizeof(u64);
	memcpy(r->caller, frames, bytes);
}
