/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The words that options take: for who parses them, and for the command line, which shows them. */
#ifndef BRAID_LIBRARY_WORDS_H
#define BRAID_LIBRARY_WORDS_H

#include <stddef.h>

#define BRAID_WORDS_CLOCK	"host realtime"
#define BRAID_WORDS_SOURCE	"auto kvm exchange pairs nominal windows"	/* by enum braid_clock_kind */
#define BRAID_WORDS_BY		"vcpu task syscall function guest"
#define BRAID_WORDS_WEIGHT	"time count"

/** braid_library_limited - an option that only some analyses take, from 0: "by=task"; NULL: no more */
const char *braid_library_limited(size_t number);

#endif /* BRAID_LIBRARY_WORDS_H */
