// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A library to preload into trace-cmd's agent: nothing is freed. The agent of trace-cmd 3.3 and
 * 3.3.1 (Debian 13) frees the buffer of its arguments before it reads them: the first becomes
 * garbage, and the agent ends its recording at once. 3.3.2 has no such bug.
 */

void free(void *pointer)
{
	(void)pointer;
}
