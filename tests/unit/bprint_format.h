/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's format of the events of trace_printk(). */
#ifndef BRAID_TESTS_BPRINT_FORMAT_H
#define BRAID_TESTS_BPRINT_FORMAT_H

#include "tests/unit/format_text.h"

#define BPRINT_FORMAT FORMAT_HEAD \
	"\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n" \
	"\tfield:const char * fmt;\toffset:16;\tsize:8;\tsigned:0;\n" \
	"\tfield:u32 buf[];\toffset:24;\tsize:0;\tsigned:0;\n\n" \
	"print fmt: \"%ps: %s\", (void *)REC->ip, REC->fmt\n"

#define BPRINT_ARGS_AT	24u

#endif /* BRAID_TESTS_BPRINT_FORMAT_H */
