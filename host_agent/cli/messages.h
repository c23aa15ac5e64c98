/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lines on stderr that never wait for their reader. */
#ifndef BRAID_CLI_MESSAGES_H
#define BRAID_CLI_MESSAGES_H

/**
 * braid_messages_begin - from here on stderr drops lines instead of waiting
 *
 * The next line that gets through reports the number of dropped ones. Processes that are forked
 * later must not use stderr. On failure stderr is unchanged.
 */
void braid_messages_begin(void);

/** braid_messages_end - stderr blocks again; no effect when not begun */
void braid_messages_end(void);

#endif /* BRAID_CLI_MESSAGES_H */
