/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parts of the text that describes a type of events, as the kernel's tracefs has it. */
#ifndef BRAID_TESTS_FORMAT_TEXT_H
#define BRAID_TESTS_FORMAT_TEXT_H

#define FORMAT_FIELD(type_name, offset, size, is_signed)			\
	"\tfield:" type_name ";\toffset:" #offset ";\tsize:" #size ";\tsigned:" #is_signed ";\n"

/* The fields that all types have, and the empty line after them. */
#define FORMAT_COMMON								\
	FORMAT_FIELD("unsigned short common_type", 0, 2, 0)			\
	FORMAT_FIELD("unsigned char common_flags", 2, 1, 0)			\
	FORMAT_FIELD("unsigned char common_preempt_count", 3, 1, 0)		\
	FORMAT_FIELD("int common_pid", 4, 4, 1) "\n"

#define FORMAT_HEAD	"format:\n" FORMAT_COMMON
/* Where the text does not matter. */
#define FORMAT_END	"\nprint fmt: \"\"\n"

#endif /* BRAID_TESTS_FORMAT_TEXT_H */
