/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The source of a guest's region: a file, a socket for its QEMU, or its VMM's memory. */
#ifndef BRAID_TRANSPORT_ENDPOINT_H
#define BRAID_TRANSPORT_ENDPOINT_H

#include <poll.h>

#include "host_agent/transport/transport.h"

#define BRAID_ENDPOINT_FDS	8	/* maximum number per endpoint */

struct braid_endpoint;

/* A kind of endpoint. Functions as those below that have their names. */
struct braid_endpoint_ops {
	const char *scheme;	/* what addresses begin with, the colon included; "": all others */
	int (*open)(struct braid_endpoint **out, const char *address);
	void (*close)(struct braid_endpoint *p);
	int (*allow)(const struct braid_endpoint *p);	/* NULL: nothing */
	int (*map)(struct braid_endpoint *p, struct braid_mapping **out);
	void (*leave)(struct braid_endpoint *p);	/* NULL: nothing to keep */
	void (*move)(struct braid_endpoint *p, pid_t pid);	/* NULL: it has no process */
	int (*serve)(struct braid_endpoint *p);		/* NULL: no connections */
	size_t (*fds)(const struct braid_endpoint *p, struct pollfd *fds);	/* NULL: none */
	void (*ring)(struct braid_endpoint *p);		/* NULL: no doorbell */
	u32 (*doorbell)(const struct braid_endpoint *p);	/* NULL: the guest has no
								   doorbell */
	void (*settle)(struct braid_endpoint *p);	/* NULL: nothing is pending */
	void (*vouch)(struct braid_endpoint *p, u64 since_ns);	/* NULL: nothing is pending */
	u64 (*unproven)(const struct braid_endpoint *p);	/* NULL: 0 */
	u64 (*rest_ns)(const struct braid_endpoint *p);		/* NULL: 0 */
	bool (*gather)(struct braid_endpoint *p);		/* NULL: nothing */
};

/* Each kind begins with it. */
struct braid_endpoint {
	const struct braid_endpoint_ops *ops;
};

extern const struct braid_endpoint_ops braid_file_endpoint_ops, braid_doorbell_endpoint_ops,
				   braid_vhost_user_endpoint_ops, braid_vm_endpoint_ops;

/**
 * braid_endpoint_has_scheme - whether an address begins with an endpoint's scheme
 * @address: of an endpoint
 *
 * Such an address is not looked up among regions, and is opened before the agent gives up privileges.
 */
bool braid_endpoint_has_scheme(const char *address);

/**
 * braid_endpoint_open - open an endpoint for a region
 * @out: set on success
 * @address: [SCHEME:]PATH, a socket is created and listened on; or pid:PID, of a VMM
 *
 * A region's file is not read before braid_endpoint_map().
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_endpoint_open(struct braid_endpoint **out, const char *address);

/**
 * braid_endpoint_allow - keep writable what the endpoint writes or removes: before the agent is confined
 * @p: the endpoint
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_endpoint_allow(const struct braid_endpoint *p);

/** braid_endpoint_close - its mapping was closed before; NULL is fine */
void braid_endpoint_close(struct braid_endpoint *p);

/**
 * braid_endpoint_map - map the region, to drain it
 * @p: the endpoint; it has no mapping now
 * @out: set on success, writable and exclusive; close it by braid_mapping_close() when
 * braid_mapping_gone() returns a reason: a guest may wait for that
 *
 * Never waits.
 *
 * Return: 0; -ENODATA: connected, but no region yet; -ENOTCONN: not connected; else -errno as
 * braid_mapping_take(). With braid_fail().
 */
int braid_endpoint_map(struct braid_endpoint *p, struct braid_mapping **out);

/**
 * braid_endpoint_leave - its mapping is about to be closed
 * @p: the endpoint
 *
 * Where the mapping is a copy of ours, the next one of the same incarnation goes on with its
 * readers. In a region that is shared, they stay by themselves.
 */
void braid_endpoint_leave(struct braid_endpoint *p);

/**
 * braid_endpoint_move - the guest was migrated, with the memory that its region is in
 * @p: the endpoint, of a VMM's process; it has no mapping now
 * @pid: of the guest's VMM from now on
 */
void braid_endpoint_move(struct braid_endpoint *p, pid_t pid);

/**
 * braid_endpoint_serve - take connections, answer messages, quench doorbells
 * @p: the endpoint
 *
 * Bounded work that never waits. A peer that sends invalid messages is disconnected.
 *
 * Return: 1 when the guest has rung, or has provided a region; 0; or -errno with braid_fail() when
 * a connection was closed for an invalid message, or a region refused: report it and continue.
 */
int braid_endpoint_serve(struct braid_endpoint *p);

/**
 * braid_endpoint_fds - file descriptors to sleep on
 * @p: the endpoint
 * @fds: room for BRAID_ENDPOINT_FDS; fd and events are filled in
 *
 * Return: their number. When one is ready, braid_endpoint_serve() has work.
 */
size_t braid_endpoint_fds(const struct braid_endpoint *p, struct pollfd *fds);

/** braid_endpoint_ring - interrupt the guest, if possible: it then polls its mailbox at once */
void braid_endpoint_ring(struct braid_endpoint *p);

/**
 * braid_endpoint_doorbell - the value that the guest rings to wake us
 * @p: the endpoint
 *
 * Return: for braid_mailbox.wake_doorbell, never 0; 0: it can't wake us.
 */
u32 braid_endpoint_doorbell(const struct braid_endpoint *p);

/**
 * braid_endpoint_settle - have all that the guest has committed by now in the mapping
 *
 * May sleep for a second, where what was copied is to be proven.
 */
void braid_endpoint_settle(struct braid_endpoint *p);

/**
 * braid_endpoint_vouch - the guest was not reset
 * @p: the endpoint
 * @since_ns: from this time of CLOCK_MONOTONIC_RAW until now
 *
 * So what was copied is the guest's, if its kernel was seen to live after @since_ns.
 */
void braid_endpoint_vouch(struct braid_endpoint *p, u64 since_ns);

/** braid_endpoint_unproven - events that were copied, and may not be the guest's */
u64 braid_endpoint_unproven(const struct braid_endpoint *p);

/**
 * braid_endpoint_rest_ns - how long it is better not served, because each time costs a copy
 * @p: the endpoint
 *
 * Return: ns, short enough for what the guest writes now; 0: at any time.
 */
u64 braid_endpoint_rest_ns(const struct braid_endpoint *p);

/**
 * braid_endpoint_gather - prepare the next step of being served
 * @p: the endpoint
 *
 * One braid_endpoint_fetch() reads what many endpoints need for a step. Call it before any of them
 * is served or closed.
 *
 * Return: whether there is something to fetch; call again after that, for the step that follows.
 */
bool braid_endpoint_gather(struct braid_endpoint *p);

/** braid_endpoint_fetch - read what was gathered */
void braid_endpoint_fetch(void);

#endif /* BRAID_TRANSPORT_ENDPOINT_H */
