/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's format of the events of trace_printk(). */
#ifndef BRAID_TESTS_BPRINT_FORMAT_H
#define BRAID_TESTS_BPRINT_FORMAT_H

#define BPRINT_COMMON \
	"format:\n" \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n" \
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n" \
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n" \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

#define BPRINT_FORMAT BPRINT_COMMON \
	"\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n" \
	"\tfield:const char * fmt;\toffset:16;\tsize:8;\tsigned:0;\n" \
	"\tfield:u32 buf[];\toffset:24;\tsize:0;\tsigned:0;\n\n" \
	"print fmt: \"%ps: %s\", (void *)REC->ip, REC->fmt\n"

#define BPRINT_ARGS_AT	24u

#endif /* BRAID_TESTS_BPRINT_FORMAT_H */
