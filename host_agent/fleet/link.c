// SPDX-License-Identifier: GPL-2.0-or-later
/* A connection to the fleet's server. */
#include <errno.h>
#include <fcntl.h>
#include <nats/nats.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "host_agent/fleet/link.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

#define MOST_QUEUED	((size_t)64 << 20)	/* bytes of messages that wait for us */
#define MOST_FILE	((size_t)1 << 20)
#define MOST_SUBSCRIPTIONS	16u
#define RECONNECT_MS	200
#define CONNECT_MS	5000
#define FLUSH_MS	5000
#define PING_MS		10000	/* of a connection that is silent ... */
#define SIGN_TRIES	8u
#define MOST_PINGS	2	/* ... and broken, if so many are not answered */

struct link_entry {
	struct link_entry *next;
	struct braid_fleet_packet *packet;
};

struct braid_fleet_link {
	natsConnection *nc;
	natsOptions *options;
	natsSubscription *subscriptions[MOST_SUBSCRIPTIONS];
	size_t nr_subscriptions;
	char *credentials, *ca;
	char key[64], seed[64];		/* of an NKey */
	bool unsent;			/* its last signature is one that cannot be sent */
	char inbox[BRAID_FLEET_PATH];
	int event_fd;
	pthread_mutex_t lock;		/* of what follows */
	struct link_entry *first, **last;
	size_t queued;			/* bytes */
	u64 dropped;
	u64 connections;
	char denied[BRAID_FLEET_SUBJECT];
};

/* In threads of the library ------------------------------------------------------------------ */

static const char *link_header(natsMsg *msg, const char *key)
{
	const char *value = NULL;

	return natsMsgHeader_Get(msg, key, &value) || !value ? "" : value;
}

static struct braid_fleet_packet *link_packet(natsMsg *msg)
{
	int bytes = natsMsg_GetDataLength(msg);
	struct braid_fleet_packet *p;

	if (bytes < 0 || bytes > (int)BRAID_FLEET_PAYLOAD)
		return NULL;
	p = malloc(sizeof(*p) + bytes + 1);
	if (!p)
		return NULL;
	snprintf(p->subject, sizeof(p->subject), "%s", natsMsg_GetSubject(msg) ?: "");
	snprintf(p->reply, sizeof(p->reply), "%s", natsMsg_GetReply(msg) ?: "");
	snprintf(p->of, sizeof(p->of), "%s", link_header(msg, "Nats-Subject"));
	p->no_responders = natsMsg_IsNoResponders(msg);
	p->missing = !strcmp(link_header(msg, "Status"), "404");
	p->sequence = strtoull(link_header(msg, "Nats-Sequence"), NULL, 10);
	p->bytes = bytes;
	if (bytes)
		memcpy(p->data, natsMsg_GetData(msg), bytes);
	p->data[bytes] = 0;
	return p;
}

static void link_receive(natsConnection *nc, natsSubscription *subscription, natsMsg *msg,
			 void *arg)
{
	struct braid_fleet_packet *p = link_packet(msg);
	struct link_entry *e = malloc(sizeof(*e));
	struct braid_fleet_link *link = arg;
	bool taken;

	(void)nc;
	(void)subscription;
	natsMsg_Destroy(msg);
	pthread_mutex_lock(&link->lock);
	taken = p && e && link->queued + p->bytes <= MOST_QUEUED;
	if (taken) {
		*e = (struct link_entry){ .packet = p };
		*link->last = e;
		link->last = &e->next;
		link->queued += sizeof(*p) + p->bytes;
	} else {
		link->dropped++;
	}
	pthread_mutex_unlock(&link->lock);
	if (taken) {
		eventfd_write(link->event_fd, 1);
		return;
	}
	free(p);
	free(e);
}

/* What the server refuses is reported here, not by the call that was refused. */
static void link_error(natsConnection *nc, natsSubscription *subscription, natsStatus status,
		       void *arg)
{
	struct braid_fleet_link *link = arg;
	const char *text = NULL;

	(void)subscription;
	natsConnection_GetLastError(nc, &text);
	pthread_mutex_lock(&link->lock);
	if (status == NATS_SLOW_CONSUMER)
		link->dropped++;
	else if (status == NATS_NOT_PERMITTED)
		snprintf(link->denied, sizeof(link->denied), "%s", text ?: "permission denied");
	pthread_mutex_unlock(&link->lock);
	if (status == NATS_NOT_PERMITTED)
		eventfd_write(link->event_fd, 1);
}

static natsStatus link_sign(char **text, unsigned char **signature, int *bytes, const char *nonce,
			    void *arg)
{
	struct braid_fleet_link *link = arg;
	natsStatus s = nats_Sign(link->seed, nonce, signature, bytes);

	/*
	 * Up to version 3.7 the library encodes bytes that begin with 0, as one in 256 signatures
	 * does, as an empty text, and omits the signature; the server refuses the login. The next
	 * login signs another nonce.
	 */
	if (s || **signature)
		return s;
	free(*signature);
	*signature = NULL;
	*text = strdup("the signature begins with 0, which libnats cannot send");
	link->unsent = true;
	return NATS_ERR;
}

static void link_connected(natsConnection *nc, void *arg)
{
	struct braid_fleet_link *link = arg;

	(void)nc;
	pthread_mutex_lock(&link->lock);
	link->connections++;
	pthread_mutex_unlock(&link->lock);
}

/* Opening ------------------------------------------------------------------------------------ */

static int link_read(char **text, const char *path)
{
	braid_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *all = malloc(MOST_FILE + 1);
	ssize_t n;

	if (!all)
		return braid_out_of_memory();
	n = fd < 0 ? -errno : braid_pread_all(fd, all, MOST_FILE, 0);
	if (n < 0 || n == (ssize_t)MOST_FILE) {
		free(all);
		return n < 0 ? braid_fail(n, "%s: %s", path, strerror(-n)) :
			       braid_fail(-EFBIG, "%s: more than 1 MiB", path);
	}
	all[n] = 0;
	*text = all;
	return 0;
}

/* "USER PASSWORD"; or an NKey: its public key, "U...", and its seed, "SU...". */
static int link_set_credentials(struct braid_fleet_link *link, const char *path)
{
	char one[64] = "", two[64] = "";

	if (sscanf(link->credentials, "%63s %63s", one, two) != 2)
		return braid_fail(-EINVAL, "%s: expected a user and a password, or an NKey's public key and its seed, on two lines",
				  path);
	if (*one == 'U' && !strncmp(two, "SU", 2)) {
		strcpy(link->key, one);
		strcpy(link->seed, two);
		return natsOptions_SetNKey(link->options, link->key, link_sign, link) ?
		       braid_out_of_memory() : 0;
	}
	return natsOptions_SetUserInfo(link->options, one, two) ? braid_out_of_memory() : 0;
}

static natsStatus link_set_options(struct braid_fleet_link *link,
				   const struct braid_fleet_conf *conf, const char *name,
				   bool waits)
{
	natsStatus s = natsOptions_SetURL(link->options, conf->server);

	if (!s)
		s = natsOptions_SetName(link->options, name);
	if (!s)
		s = natsOptions_SetMaxReconnect(link->options, -1);
	if (!s)
		s = natsOptions_SetReconnectWait(link->options, RECONNECT_MS);
	if (!s)
		s = natsOptions_SetTimeout(link->options, CONNECT_MS);
	if (!s)
		s = natsOptions_SetPingInterval(link->options, PING_MS);
	if (!s)
		s = natsOptions_SetMaxPingsOut(link->options, MOST_PINGS);
	if (!s)
		s = natsOptions_UseGlobalMessageDelivery(link->options, true);
	if (!s)
		s = natsOptions_SetErrorHandler(link->options, link_error, link);
	if (!s && waits)
		s = natsOptions_SetRetryOnFailedConnect(link->options, true, link_connected, link);
	if (!s)
		s = natsOptions_SetReconnectedCB(link->options, link_connected, link);
	if (!s && !strncmp(conf->server, "tls:", 4))
		s = natsOptions_SetSecure(link->options, true);
	if (!s && link->ca)
		s = natsOptions_SetCATrustedCertificates(link->options, link->ca);
	return s;
}

static int link_connect(struct braid_fleet_link *link, const struct braid_fleet_conf *conf,
			const char *name, bool waits)
{
	natsStatus s = nats_Open(-1);
	const char *text = NULL;
	int err = 0;
	u32 k;

	if (!s)
		s = nats_SetMessageDeliveryPoolSize(1);
	if (!s)
		s = natsOptions_Create(&link->options);
	if (!s && link->credentials)
		err = link_set_credentials(link, conf->credentials);
	if (err)
		return err;
	if (!s)
		s = link_set_options(link, conf, name, waits);
	if (!s)
		s = natsConnection_Connect(&link->nc, link->options);
	/* When it connects by itself, as after a failure, it repeats this by itself. */
	for (k = 1; s && s != NATS_NOT_YET_CONNECTED && link->unsent && k < SIGN_TRIES; k++) {
		link->unsent = false;
		s = natsConnection_Connect(&link->nc, link->options);
	}
	if (!s || (waits && s == NATS_NOT_YET_CONNECTED))
		return 0;
	text = nats_GetLastError(NULL);
	return braid_fail(-ECONNREFUSED, "%s: cannot connect: %s%s%s", conf->server,
			  natsStatus_GetText(s), text && *text ? ": " : "", text ?: "");
}

/* Answers to one user are not to be read by another one: each has a prefix of its own. */
static int link_set_inbox(struct braid_fleet_link *link, const char *prefix)
{
	u64 number[2];

	if (getrandom(number, sizeof(number), 0) != sizeof(number))
		return braid_fail(-errno, "no random number: %s", strerror(errno));
	snprintf(link->inbox, sizeof(link->inbox), "%.200s.%016llx%016llx", *prefix ? prefix : "_INBOX",
		 (unsigned long long)number[0], (unsigned long long)number[1]);
	return 0;
}

int braid_fleet_open(struct braid_fleet_link **out, const struct braid_fleet_conf *conf,
		     const char *name, int (*confine)(void), bool waits)
{
	struct braid_fleet_link *link = calloc(1, sizeof(*link));
	int err;

	if (!link)
		return braid_out_of_memory();
	link->last = &link->first;
	pthread_mutex_init(&link->lock, NULL);
	link->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = link->event_fd < 0 ? braid_fail(-errno, "no eventfd: %s", strerror(errno)) :
				   link_set_inbox(link, conf->inbox);
	if (!err && *conf->credentials)
		err = link_read(&link->credentials, conf->credentials);
	if (!err && *conf->ca)
		err = link_read(&link->ca, conf->ca);
	if (!err && confine)
		err = confine();
	if (!err)
		err = link_connect(link, conf, name, waits);
	if (err) {
		braid_fleet_close(link);
		return err;
	}
	*out = link;
	return 0;
}

void braid_fleet_close(struct braid_fleet_link *link)
{
	struct braid_fleet_packet *p;

	if (!link)
		return;
	if (link->nc) {
		while (link->nr_subscriptions)
			natsSubscription_Destroy(link->subscriptions[--link->nr_subscriptions]);
		natsConnection_Close(link->nc);
		natsConnection_Destroy(link->nc);
	}
	natsOptions_Destroy(link->options);
	nats_CloseAndWait(0);		/* its threads use the link */
	while ((p = braid_fleet_take(link)))
		free(p);
	if (link->event_fd >= 0)
		close(link->event_fd);
	pthread_mutex_destroy(&link->lock);
	explicit_bzero(link->seed, sizeof(link->seed));
	free(link->credentials);
	free(link->ca);
	free(link);
}

/* Use ---------------------------------------------------------------------------------------- */

int braid_fleet_subscribe(struct braid_fleet_link *link, const char *subject)
{
	natsSubscription *subscription;
	natsStatus s = link->nr_subscriptions == MOST_SUBSCRIPTIONS ? NATS_NO_MEMORY :
		       natsConnection_Subscribe(&subscription, link->nc, subject, link_receive,
						link);

	if (!s)
		link->subscriptions[link->nr_subscriptions++] = subscription;
	if (!s)		/* the queue has the limit */
		s = natsSubscription_SetPendingLimits(subscription, -1, -1);
	return s ? braid_fail(-EIO, "%s: cannot subscribe: %s", subject, natsStatus_GetText(s)) : 0;
}

int braid_fleet_publish(struct braid_fleet_link *link, const char *subject, const char *reply,
			const char *data, size_t bytes)
{
	natsStatus s;

	s = reply ? natsConnection_PublishRequest(link->nc, subject, reply, data, bytes) :
		    natsConnection_Publish(link->nc, subject, data, bytes);
	if (s == NATS_INSUFFICIENT_BUFFER)
		return -EAGAIN;
	return s ? braid_fail(-EIO, "%s: cannot be sent: %s", subject, natsStatus_GetText(s)) : 0;
}

int braid_fleet_publish_to_store(struct braid_fleet_link *link, const char *subject,
				 const char *reply, const struct braid_text *data, const char *id,
				 u64 after)
{
	natsMsg *msg = NULL;
	char number[24];
	natsStatus s;

	if (data->failed)
		return braid_out_of_memory();
	snprintf(number, sizeof(number), "%llu", (unsigned long long)after);
	s = natsMsg_Create(&msg, subject, reply, data->data, data->bytes);
	if (!s)
		s = natsMsgHeader_Set(msg, "Nats-Msg-Id", id);
	if (!s)
		s = natsMsgHeader_Set(msg, "Nats-Expected-Last-Subject-Sequence", number);
	if (!s)
		s = natsConnection_PublishMsg(link->nc, msg);
	natsMsg_Destroy(msg);
	if (s == NATS_INSUFFICIENT_BUFFER)
		return -EAGAIN;
	return s ? braid_fail(-EIO, "%s: cannot be sent: %s", subject, natsStatus_GetText(s)) : 0;
}

int braid_fleet_flush(struct braid_fleet_link *link)
{
	natsStatus s = natsConnection_FlushTimeout(link->nc, FLUSH_MS);

	return s ? braid_fail(-EIO, "the server does not answer: %s", natsStatus_GetText(s)) : 0;
}

int braid_fleet_fd(const struct braid_fleet_link *link)
{
	return link->event_fd;
}

struct braid_fleet_packet *braid_fleet_take(struct braid_fleet_link *link)
{
	struct braid_fleet_packet *p = NULL;
	struct link_entry *e;
	eventfd_t count;

	pthread_mutex_lock(&link->lock);
	e = link->first;
	if (e) {
		link->first = e->next;
		if (!link->first)
			link->last = &link->first;
		p = e->packet;
		link->queued -= sizeof(*p) + p->bytes;
	} else {
		eventfd_read(link->event_fd, &count);
	}
	pthread_mutex_unlock(&link->lock);
	free(e);
	return p;
}

bool braid_fleet_is_connected(struct braid_fleet_link *link, char why[BRAID_FLEET_SUBJECT])
{
	const char *text = NULL;

	if (natsConnection_Status(link->nc) == NATS_CONN_STATUS_CONNECTED)
		return true;
	natsConnection_GetLastError(link->nc, &text);
	snprintf(why, BRAID_FLEET_SUBJECT, "%s", text ?: "");
	braid_text_clean(why);
	return false;
}

u64 braid_fleet_connections(struct braid_fleet_link *link)
{
	u64 connections;

	pthread_mutex_lock(&link->lock);
	connections = link->connections;
	pthread_mutex_unlock(&link->lock);
	return connections;
}

bool braid_fleet_denied(struct braid_fleet_link *link, char line[BRAID_FLEET_SUBJECT])
{
	bool any;

	pthread_mutex_lock(&link->lock);
	any = *link->denied;
	if (any)
		strcpy(line, link->denied);
	*link->denied = 0;
	pthread_mutex_unlock(&link->lock);
	braid_text_clean(line);
	return any;
}

u64 braid_fleet_dropped(struct braid_fleet_link *link)
{
	u64 dropped;

	pthread_mutex_lock(&link->lock);
	dropped = link->dropped;
	pthread_mutex_unlock(&link->lock);
	return dropped;
}

const char *braid_fleet_inbox(const struct braid_fleet_link *link)
{
	return link->inbox;
}
