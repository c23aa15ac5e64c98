/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which process the kernel ends for lack of memory: not the service, which starts others. */
#ifndef BRAID_SERVE_EXPOSE_H
#define BRAID_SERVE_EXPOSE_H

#include <sys/types.h>

#define BRAID_EXPOSE_CHILD	500	/* it is started again */
#define BRAID_EXPOSE_QUESTION	1000	/* it is not; rather it than the recorder */

/** braid_expose - set a process's score: the higher, the sooner. No effect if not permitted */
void braid_expose(pid_t pid, int score);

#endif /* BRAID_SERVE_EXPOSE_H */
