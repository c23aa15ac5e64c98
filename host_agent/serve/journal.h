/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Datagrams to the service manager and to the journal, as sd_notify(3) and sd_journal_send(3). */
#ifndef BRAID_SERVE_JOURNAL_H
#define BRAID_SERVE_JOURNAL_H

#include "tracebraid/types.h"

/**
 * braid_journal_open - keep the addresses of $NOTIFY_SOCKET and of the journal, if it is there
 * @say: prints a line, where there is no journal
 */
void braid_journal_open(void (*say)(const char *line));

/** braid_journal_watchdog_ns - the time within which "WATCHDOG=1" is expected; 0: none */
u64 braid_journal_watchdog_ns(void);

/** braid_journal_notify - as sd_notify(3): "READY=1", "STATUS=...". No effect without a manager */
void braid_journal_notify(const char *state);

/**
 * braid_journal_say - a line, to the journal with fields, or printed
 * @priority: of syslog(3)
 * @line: the message; no line feed
 * @fields: "NAME=value" lines, each ended by a line feed; NULL: none
 */
void braid_journal_say(int priority, const char *line, const char *fields);

#endif /* BRAID_SERVE_JOURNAL_H */
