// SPDX-License-Identifier: GPL-2.0-or-later
/* UDP with times of the host's clock. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/clock_sync/peer.h"
#include "host_agent/clock_sync/peer_socket.h"
#include "host_agent/util/error.h"

#define TRIES		8
#define MOST_AGE_NS	1000000000LL	/* of a stamp: older ones are not converted */
#define SLEW_SHARE	1000		/* CLOCK_REALTIME is slewed by less than 1/1000 ... */
#define STEP_NS		1000		/* ... and a change larger than that and this is a step */

/* Stamps ------------------------------------------------------------------------------------ */

/* The tightest of a few reads of CLOCK_REALTIME between two of the host's clock. */
static struct braid_peer_offset read_offset(void)
{
	struct braid_peer_offset best = { 0 };
	u32 k;

	for (k = 0; k < TRIES; k++) {
		u64 before = braid_host_clock_ns(), real = braid_clock_read_ns(CLOCK_REALTIME);
		u64 after = braid_host_clock_ns();

		if (k && after - before >= (u64)(best.high_ns - best.low_ns))
			continue;
		best.host_ns = after;
		best.low_ns = (s64)(before - real);
		best.high_ns = (s64)(after - real);
	}
	return best;
}

/* Whether CLOCK_REALTIME was not set between two reads. */
static bool is_steady(const struct braid_peer_offset *a, const struct braid_peer_offset *b)
{
	s64 allowed = (s64)(b->host_ns - a->host_ns) / SLEW_SHARE + STEP_NS;

	return a->host_ns && b->low_ns <= a->high_ns + allowed && b->high_ns >= a->low_ns - allowed;
}

/* What stamps are converted by, after they were taken. Return: false: they can't be. */
static bool renew_offset(struct braid_peer_socket *s)
{
	struct braid_peer_offset before = s->offset;

	s->offset = read_offset();
	return is_steady(&before, &s->offset);
}

/*
 * The host's clock at a stamp, within [*low, *high]: CLOCK_REALTIME was slewed since by a share of
 * the stamp's age at most. Return: false: it is unknown.
 */
static bool convert_stamp(const struct braid_peer_socket *s, s64 real_ns, u64 *low, u64 *high)
{
	s64 age = (s64)s->offset.host_ns - (real_ns + s->offset.low_ns), allowed;

	if (!real_ns || age < 0 || age > MOST_AGE_NS)
		return false;
	allowed = age / SLEW_SHARE + 1;
	*low = (u64)(real_ns + s->offset.low_ns - allowed);
	*high = (u64)(real_ns + s->offset.high_ns + allowed);
	return true;
}

/* The kernel's own stamp among a message's control data; 0: none. */
static s64 stamp_of(struct msghdr *m)
{
	struct scm_timestamping times;
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPING)
			continue;
		memcpy(&times, CMSG_DATA(c), sizeof(times));
		return times.ts[0].tv_sec * 1000000000LL + times.ts[0].tv_nsec;
	}
	return 0;
}

/* Which message it is about. Return: false: it is about something else. */
static bool stamp_id(struct msghdr *m, u32 *id)
{
	struct sock_extended_err e;
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (!(c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) &&
		    !(c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR))
			continue;
		memcpy(&e, CMSG_DATA(c), sizeof(e));
		*id = e.ee_data;
		return e.ee_origin == SO_EE_ORIGIN_TIMESTAMPING && e.ee_info == SCM_TSTAMP_SND;
	}
	return false;
}

u32 braid_peer_socket_stamps(struct braid_peer_socket *s, struct braid_peer_stamp *stamps, u32 max)
{
	char control[512] __attribute__((aligned(8)));
	s64 real_ns[64];
	u32 nr = 0, k, kept = 0;
	u64 low, high;

	for (; nr < max && nr < sizeof(real_ns) / sizeof(*real_ns); nr++) {
		struct msghdr m = { .msg_control = control, .msg_controllen = sizeof(control) };

		if (recvmsg(s->fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			break;
		real_ns[nr] = stamp_id(&m, &stamps[nr].id) ? stamp_of(&m) : 0;
	}
	if (!nr || !renew_offset(s) || !s->stamps)
		return 0;
	for (k = 0; k < nr; k++)
		if (convert_stamp(s, real_ns[k], &low, &high))
			stamps[kept++] = (struct braid_peer_stamp){ stamps[k].id, low };
	return kept;
}

/* Messages ---------------------------------------------------------------------------------- */

bool braid_peer_socket_send(struct braid_peer_socket *s, const struct braid_peer_address *to,
			    const void *data, size_t bytes, u32 *id)
{
	struct iovec v = { (void *)data, bytes };
	struct msghdr m = {
		.msg_name = (void *)&to->any, .msg_namelen = to->bytes,
		.msg_iov = &v, .msg_iovlen = 1,
	};

	if (sendmsg(s->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)bytes) {
		*id = s->next_id++;
		return true;
	}
	s->stamps = false;	/* whether the kernel has counted this one is not known */
	return false;
}

/* Return: false: there is none. */
static bool receive_one(struct braid_peer_socket *s, struct braid_peer_received *r, s64 *real_ns)
{
	char control[256] __attribute__((aligned(8)));
	struct iovec v = { r->data, sizeof(r->data) };
	struct msghdr m = {
		.msg_name = &r->from.any, .msg_namelen = sizeof(r->from.in6), .msg_iov = &v,
		.msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(s->fd, &m, MSG_DONTWAIT);

	if (n < 0)
		return false;
	r->ns = braid_host_clock_ns();
	r->bytes = n;
	r->from.bytes = m.msg_namelen;
	*real_ns = stamp_of(&m);
	return true;
}

u32 braid_peer_socket_receive(struct braid_peer_socket *s, struct braid_peer_received *received,
			      u32 max)
{
	s64 real_ns[64];
	u64 low, high;
	u32 nr = 0, k;

	while (nr < max && nr < sizeof(real_ns) / sizeof(*real_ns) &&
	       receive_one(s, &received[nr], &real_ns[nr]))
		nr++;
	if (!nr || !renew_offset(s))
		return nr;
	for (k = 0; k < nr; k++)
		if (convert_stamp(s, real_ns[k], &low, &high) && high < received[k].ns)
			received[k].ns = high;
	return nr;
}

/* Addresses --------------------------------------------------------------------------------- */

/* HOST[:PORT], [V6]:PORT, V6. Return: 0, or -EINVAL with braid_fail(). */
static int split_host(const char *text, char host[256], char port[16])
{
	const char *end = *text == '[' ? strchr(text, ']') : NULL, *colon;

	if (*text == '[' && (!end || (end[1] && end[1] != ':')))
		return braid_fail(-EINVAL, "expected HOST[:PORT], with [] around an IPv6 address");
	colon = end ? (end[1] ? end + 1 : NULL) : strchr(text, ':');
	if (!end && colon && strchr(colon + 1, ':'))
		colon = NULL;		/* IPv6, without a port */
	if (end)
		text++;
	else
		end = colon ? colon : text + strlen(text);
	if (end == text || end - text >= 256 || (colon && (!colon[1] || strlen(colon + 1) >= 16)))
		return braid_fail(-EINVAL, "expected HOST[:PORT]");
	memcpy(host, text, end - text);
	host[end - text] = 0;
	snprintf(port, 16, "%s", colon ? colon + 1 : BRAID_PEER_PORT);
	return 0;
}

/* @host: NULL: any address. Return: 0, or -errno with braid_fail(). */
static int peer_resolve(struct braid_peer_address *to, int family, const char *host,
			const char *port)
{
	struct addrinfo hints = {
		.ai_family = family, .ai_socktype = SOCK_DGRAM,
		.ai_flags = (host ? 0 : AI_PASSIVE) |
			    (family == AF_INET6 ? AI_V4MAPPED | AI_ALL : 0),
	}, *found;
	int ret = getaddrinfo(host, port, &hints, &found);

	if (ret)
		return braid_fail(-ENOENT, "cannot find the host %s, port %s: %s",
				  host ? host : "-", port,
				  ret == EAI_SYSTEM ? strerror(errno) : gai_strerror(ret));
	memcpy(&to->any, found->ai_addr, found->ai_addrlen);
	to->bytes = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

static int peer_family(const struct braid_peer_socket *s)
{
	struct sockaddr_storage own;
	socklen_t bytes = sizeof(own);

	return getsockname(s->fd, (struct sockaddr *)&own, &bytes) ? AF_INET : own.ss_family;
}

int braid_peer_address_find(struct braid_peer_address *address, const struct braid_peer_socket *s,
			    const char *host)
{
	char name[256], port[16];
	int err = split_host(host, name, port);

	return err ? err : peer_resolve(address, peer_family(s), name, port);
}

bool braid_peer_address_same(const struct braid_peer_address *a, const struct braid_peer_address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->in.sin_port == b->in.sin_port &&
		       a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return a->in6.sin6_port == b->in6.sin6_port &&
	       a->in6.sin6_scope_id == b->in6.sin6_scope_id &&
	       !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr));
}

void braid_peer_address_name(const struct braid_peer_address *address, char name[64])
{
	bool mapped = address->any.sa_family == AF_INET6 &&
		      IN6_IS_ADDR_V4MAPPED(&address->in6.sin6_addr);
	char host[INET6_ADDRSTRLEN] = "?";

	if (mapped || address->any.sa_family == AF_INET)
		inet_ntop(AF_INET, mapped ? (const void *)&address->in6.sin6_addr.s6_addr[12] :
			  (const void *)&address->in.sin_addr, host, sizeof(host));
	else
		inet_ntop(AF_INET6, &address->in6.sin6_addr, host, sizeof(host));
	snprintf(name, 64, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
		 ntohs(address->in6.sin6_port));
}

/* Opening ----------------------------------------------------------------------------------- */

static int bind_to(struct braid_peer_socket *s, int family, const char *listen)
{
	char host[256], port[16];
	struct braid_peer_address own;
	bool alone = !listen[strspn(listen, "0123456789")];
	int err;

	err = alone ? 0 : split_host(listen, host, port);
	if (!err)
		err = peer_resolve(&own, family, alone ? NULL : host, alone ? listen : port);
	if (err)
		return err;
	if (bind(s->fd, &own.any, own.bytes))
		return braid_fail(-errno, "cannot listen on %s for other hosts: %s", listen,
				  strerror(errno));
	return 0;
}

int braid_peer_socket_open(struct braid_peer_socket *s, const char *listen)
{
	unsigned int flags = SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE |
			     SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_OPT_ID |
			     SOF_TIMESTAMPING_OPT_TSONLY;
	int family = AF_INET6, off = 0;

	*s = (struct braid_peer_socket){ .offset = read_offset() };
	s->fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd >= 0 && setsockopt(s->fd, SOL_IPV6, IPV6_V6ONLY, &off, sizeof(off))) {
		close(s->fd);
		s->fd = -1;
	}
	if (s->fd < 0) {
		family = AF_INET;
		s->fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	}
	if (s->fd < 0)
		return braid_fail(-errno, "cannot create a socket for other hosts: %s",
				  strerror(errno));
	s->stamps = !setsockopt(s->fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags));
	return bind_to(s, family, listen ? listen : "0");
}

void braid_peer_socket_close(struct braid_peer_socket *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}
