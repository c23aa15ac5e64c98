/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lines on stderr that never wait for who reads them. */
#ifndef BRAID_CLI_MESSAGES_H
#define BRAID_CLI_MESSAGES_H

/**
 * braid_messages_begin - from here on stderr drops lines instead of waiting
 *
 * How many were dropped is the next line that gets through. Processes that are forked later must
 * not use stderr. If it can't be done, stderr stays as it is.
 */
void braid_messages_begin(void);

/** braid_messages_end - stderr waits again; fine when it was never begun */
void braid_messages_end(void);

#endif /* BRAID_CLI_MESSAGES_H */
