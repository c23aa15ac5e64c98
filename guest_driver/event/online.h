/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records which CPUs go offline and online: a CPU that is offline looks to the host like one that
 * hangs.
 */
#ifndef BRAID_EVENT_ONLINE_H
#define BRAID_EVENT_ONLINE_H

/**
 * braid_online_init - add the event tracebraid:cpu_online, and record it from now on
 *
 * It is recorded whether or not it is enabled: it is rare, and the states of vCPUs depend on it. A
 * CPU records it itself: the last thing before it goes offline, and when it is online again.
 *
 * Context: may sleep; there is a trace buffer. Return: 0 or -errno.
 */
int braid_online_init(void);

/** braid_online_exit - the reverse; no CPU is recording it on return */
void braid_online_exit(void);

/**
 * braid_online_poll - record from time to time which CPUs are offline
 * @agent: whether one is present
 *
 * A recording or a snapshot lacks the events before its start, and the driver is not notified of
 * that start. So the offline CPUs are recorded again: soon after braid_online_renew(), and later
 * every ten seconds.
 *
 * Context: the poll thread, without locks.
 */
void braid_online_poll(bool agent);

/** braid_online_renew - a recording may begin soon. Context: the poll thread */
void braid_online_renew(void);

#endif /* BRAID_EVENT_ONLINE_H */
