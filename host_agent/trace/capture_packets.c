// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Packets that one host sent and another one received, as both recorded them: messages, whose times
 * say how the hosts' clocks differ. docs/hosts.md says why a packet is not taken for another one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/fields/layout.h"
#include "host_agent/trace/capture_private.h"
#include "host_agent/trace/merge.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define HEAD_BYTES	52u	/* of a packet: IP, TCP, and 12 bytes of options */
#define MOST_PACKETS	(1u << 24)	/* more are not used */

/* What a packet is known by. */
struct identity {
	u8 ports_seq_ack[12];
	u8 times[8];		/* of the time stamp option */
	u8 addresses[8];
	u8 id[2];		/* of the IP header: a packet that is sent again has another one */
	u8 zero[2];
};

struct packet {
	struct identity identity;
	u32 host;
	bool sent;
	s64 ns;			/* by the host: not after it was sent, or before received */
};

/* The events of a stream that are packets: two of each recorder. */
struct packet_events {
	bool known;
	struct packet_event {
		u16 id;
		u32 at;		/* of the head in the record */
		bool sent;
	} *items;
	size_t nr, capacity;
};

struct collection {
	struct packet *items;
	size_t nr, capacity;
	struct packet_events *events;	/* by stream: those of several hosts come in turn */
};

/* Packets of connections without the usual options are not used, nor fragments. */
static bool identify(struct identity *to, const u8 *head)
{
	static const u8 options[] = { 1, 1, 8, 10 };

	if (head[0] != 0x45 || head[9] != 6 || head[6] & 0x3f || head[7] || head[32] >> 4 != 8 ||
	    memcmp(head + 40, options, sizeof(options)))
		return false;
	*to = (struct identity){ .zero = { 0 } };
	memcpy(to->id, head + 4, sizeof(to->id));
	memcpy(to->addresses, head + 12, sizeof(to->addresses));
	memcpy(to->ports_seq_ack, head + 20, sizeof(to->ports_seq_ack));
	memcpy(to->times, head + 44, sizeof(to->times));
	return true;
}

static bool is_of_packets(const struct braid_event_format *format)
{
	return !strncmp(format->system, BRAID_PACKETS_SYSTEM, strlen(BRAID_PACKETS_SYSTEM));
}

/* Return: 0 or -ENOMEM. */
static int find_event(struct packet_events *events, const struct braid_event_format *format)
{
	struct packet_event event = { .id = format->id, .sent = !strcmp(format->name, "sent") };
	const char *text = strstr(format->format, "format:"), *rest;
	const struct braid_field *head;
	struct braid_layout *layout;
	int err = 0;

	if (!text || (!event.sent && strcmp(format->name, "received")) ||
	    braid_layout_parse(&layout, text, format->system, &rest))
		return 0;
	head = braid_layout_find(layout, "head");
	if (head && head->size == HEAD_BYTES) {
		event.at = head->offset;
		err = braid_array_push(events->items, events->nr, events->capacity, event);
	}
	braid_layout_free(layout);
	return err;
}

static int find_events(struct packet_events *events, const struct braid_stream *stream)
{
	size_t k;
	int err = 0;

	events->known = true;
	for (k = 0; k < stream->nr_formats && !err; k++)
		if (is_of_packets(&stream->formats[k]))
			err = find_event(events, &stream->formats[k]);
	return err;
}

/* Return: 0 or -ENOMEM. */
static int collect_item(struct collection *c, const struct braid_item *item)
{
	struct packet packet = { .host = item->stream->host->number };
	u64 bound_ns = item->ring->tie ? item->own_bound_ns : item->bound_ns;
	s64 ns = item->ring->tie ? item->own_ns : item->host_ns;
	struct packet_events *events = &c->events[item->stream->number];
	size_t k = 0;
	u16 id;

	if (item->kind != BRAID_ITEM_EVENT || bound_ns == BRAID_BOUND_UNKNOWN ||
	    item->payload_bytes < sizeof(id) || c->nr == MOST_PACKETS)
		return 0;
	if (!events->known && find_events(events, item->stream))
		return -ENOMEM;
	memcpy(&id, item->payload, sizeof(id));
	while (k < events->nr && events->items[k].id != id)
		k++;
	if (k == events->nr || events->items[k].at > item->payload_bytes ||
	    item->payload_bytes - events->items[k].at < HEAD_BYTES ||
	    !identify(&packet.identity, item->payload + events->items[k].at))
		return 0;
	packet.sent = events->items[k].sent;
	packet.ns = packet.sent ? ns - (s64)bound_ns : ns + (s64)bound_ns;
	return braid_array_push(c->items, c->nr, c->capacity, packet);
}

static bool want_hosts(void *arg, const struct braid_ring *ring)
{
	(void)arg;
	return ring->stream->kind == BRAID_STREAM_HOST && ring->stream->host &&
	       ring->cpu != BRAID_RING_NOTES;
}

/* Those of one packet together, the earliest one first. */
static int by_identity(const void *a, const void *b)
{
	const struct packet *x = a, *y = b;

	return memcmp(&x->identity, &y->identity, sizeof(x->identity)) ?:
	       braid_compare(x->sent, y->sent) ?: braid_compare(x->host, y->host) ?:
	       braid_compare(x->ns, y->ns);
}

static int put_pair(struct braid_packet_pairs *pairs, const struct packet *sent,
		    const struct packet *received)
{
	struct braid_packet_pair pair = {
		.from = sent->host, .to = received->host, .sent_ns = sent->ns,
		.received_ns = received->ns,
	};

	return braid_array_push(pairs->items, pairs->nr, pairs->capacity, pair);
}

/* Of packets that one host alone says it has sent, and once. Return: 0 or -ENOMEM. */
static int find_pairs(struct braid_packet_pairs *pairs, const struct packet *items, size_t nr)
{
	size_t from, to, k;
	int err = 0;

	for (from = 0; from < nr && !err; from = to) {
		const struct packet *sent = NULL;
		u32 senders = 0;

		for (to = from; to < nr && !memcmp(&items[to].identity, &items[from].identity,
						   sizeof(items->identity)); to++)
			if (items[to].sent) {
				sent = &items[to];
				senders++;
			}
		for (k = from; k < to && senders == 1 && !err; k++)
			if (!items[k].sent && items[k].host != sent->host &&
			    (k == from || items[k - 1].host != items[k].host))
				err = put_pair(pairs, sent, &items[k]);
	}
	return err;
}

/* The two hosts of a pair, as one number. */
static u64 hosts_of(u32 a, u32 b)
{
	return a < b ? (u64)a << 32 | b : (u64)b << 32 | a;
}

static int by_hosts(const void *a, const void *b)
{
	const struct braid_packet_pair *x = a, *y = b;

	return braid_compare(hosts_of(x->from, x->to), hosts_of(y->from, y->to));
}

const struct braid_packet_pair *braid_packet_pairs_of(const struct braid_packet_pairs *pairs,
						      u32 a, u32 b, size_t *nr)
{
	const struct braid_packet_pair *all = pairs ? pairs->items : NULL;
	size_t first, end, of = pairs ? pairs->nr : 0;
	u64 hosts = hosts_of(a, b);

	braid_array_first(first, of, hosts_of(all[first].from, all[first].to) >= hosts);
	braid_array_first(end, of, hosts_of(all[end].from, all[end].to) > hosts);
	*nr = end - first;
	return *nr ? all + first : NULL;
}

bool braid_capture_has_packets(const struct braid_source *source)
{
	size_t k, n;

	for (k = 0; k < source->nr_streams && source->nr_hosts > 1; k++)
		for (n = 0; n < source->streams[k]->nr_formats; n++)
			if (is_of_packets(&source->streams[k]->formats[n]))
				return true;
	return false;
}

int braid_capture_pair_packets(struct braid_source *source, struct braid_packet_pairs *pairs)
{
	struct collection c = { .events = calloc(source->nr_streams + 1, sizeof(*c.events)) };
	const struct braid_item *item;
	struct braid_merge *m;
	int err = c.events ? braid_merge_begin(&m, source, want_hosts, NULL) :
			     braid_out_of_memory(), ret = 0;
	size_t k;

	if (err) {
		free(c.events);
		return err;
	}
	while (!err && (ret = braid_merge_next(m, &item)) > 0)
		err = collect_item(&c, item);
	braid_merge_end(m);
	if (!err && ret >= 0 && c.nr) {
		qsort(c.items, c.nr, sizeof(*c.items), by_identity);
		err = find_pairs(pairs, c.items, c.nr);
		if (pairs->nr)
			qsort(pairs->items, pairs->nr, sizeof(*pairs->items), by_hosts);
	}
	for (k = 0; k < source->nr_streams; k++)
		free(c.events[k].items);
	free(c.events);
	free(c.items);
	if (err)
		return braid_out_of_memory();
	return ret < 0 ? ret : 0;
}
