// SPDX-License-Identifier: GPL-2.0-or-later
/* Encodes events into pages of today's ring buffer: u32 type_len:5, time_delta:27; u32 array[]. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/trace_dat/trace_dat.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

#define BUFFER_BYTES	(256u << 10)
#define HEADER_BYTES	((u32)sizeof(struct page_header))
/*
 * Zeros at each page's end. A reader of an unterminated string, or of an address in a record's last
 * word, then stays in the page. The number of lost events is stored here, too.
 */
#define TAIL_BYTES	32u
#define TYPE_EXTEND	30u
#define MAX_SMALL_BYTES	112u		/* of a record whose size is in type_len, in words */
#define DELTA_BITS	27
#define DELTA_MASK	((1u << DELTA_BITS) - 1)
#define EXTEND_BYTES	8u
#define MAX_DELTA	((1ULL << (DELTA_BITS + 32)) - 1)
#define MAX_LOST	0x7fffffffULL	/* that readers' int holds */

struct page_header {
	u64 time_stamp;
	u64 commit;
};

int braid_dat_out_pages_begin(struct braid_dat_out_pages *p, int fd, u32 page_bytes, u64 start)
{
	memset(p, 0, sizeof(*p));
	p->fd = fd;
	p->page_bytes = page_bytes;
	p->buffer_bytes = page_bytes > BUFFER_BYTES ? page_bytes : BUFFER_BYTES;
	p->bytes = start;
	p->buffer = malloc(p->buffer_bytes);
	return p->buffer ? 0 : braid_out_of_memory();
}

void braid_dat_out_pages_end(struct braid_dat_out_pages *p)
{
	free(p->buffer);
	p->buffer = NULL;
}

int braid_dat_out_pages_flush(struct braid_dat_out_pages *p)
{
	int err = braid_write_all(p->fd, p->buffer, p->filled);

	p->filled = 0;
	return err ? braid_fail(err, "cannot write the trace.dat: %s", strerror(-err)) : 0;
}

/* Flags in the commit word; a number follows the data. */
static u64 commit_word(const struct braid_dat_out_pages *p, u8 *page)
{
	if (!p->lost_in)
		return p->used;
	if (p->lost_in > MAX_LOST)
		return p->used | BRAID_MISSED_EVENTS;
	memcpy(page + HEADER_BYTES + p->used, &p->lost_in, sizeof(p->lost_in));
	return p->used | BRAID_MISSED_EVENTS | BRAID_MISSED_STORED;
}

/* The page that begins at ->filled is complete. */
static int add_page(struct braid_dat_out_pages *p)
{
	p->filled += p->page_bytes;
	p->bytes += p->page_bytes;
	return p->filled + p->page_bytes > p->buffer_bytes ? braid_dat_out_pages_flush(p) : 0;
}

int braid_dat_out_pages_close(struct braid_dat_out_pages *p)
{
	u8 *page = p->buffer + p->filled;
	u64 commit;

	if (!p->open)
		return 0;
	memset(page + HEADER_BYTES + p->used, 0, p->page_bytes - HEADER_BYTES - p->used);
	commit = commit_word(p, page);
	memcpy(page + offsetof(struct page_header, commit), &commit, sizeof(commit));
	p->open = false;
	return add_page(p);
}

int braid_dat_out_pages_skip(struct braid_dat_out_pages *p)
{
	memset(p->buffer + p->filled, 0, p->page_bytes);
	return add_page(p);
}

static void open_page(struct braid_dat_out_pages *p, u64 ns)
{
	memcpy(p->buffer + p->filled, &ns, sizeof(ns));
	p->open = true;
	p->used = 0;
	p->ns = ns;
	p->lost_in = p->lost;
	p->lost = 0;
}

/* Bytes of a record's event, without what its time needs. */
static u32 event_bytes(u32 bytes)
{
	u32 padded = (bytes + !bytes + 3) & ~3u;

	return padded + 4 + 4 * (padded > MAX_SMALL_BYTES);
}

/* No page is large enough: which would be? */
static int report_needed(struct braid_dat_out_pages *p, u32 size)
{
	p->needed_bytes = p->page_bytes;
	while (HEADER_BYTES + size + TAIL_BYTES > p->needed_bytes)
		p->needed_bytes *= 2;
	return -EMSGSIZE;
}

int braid_dat_out_pages_put(struct braid_dat_out_pages *p, u64 ns, u32 bytes, void **record)
{
	u32 size = event_bytes(bytes), room = p->page_bytes - HEADER_BYTES - TAIL_BYTES;
	u64 delta = ns - p->ns;
	u32 *at;
	int err;

	if (!p->open || p->lost || p->used + size + EXTEND_BYTES > room || delta > MAX_DELTA) {
		if (size > room)
			return report_needed(p, size);
		err = braid_dat_out_pages_close(p);
		if (err)
			return err;
		open_page(p, ns);
		delta = 0;
	}
	at = (u32 *)(p->buffer + p->filled + HEADER_BYTES + p->used);
	if (delta > DELTA_MASK) {
		*at++ = TYPE_EXTEND | (u32)(delta & DELTA_MASK) << 5;
		*at++ = (u32)(delta >> DELTA_BITS);
		p->used += EXTEND_BYTES;
		delta = 0;
	}
	if (size <= MAX_SMALL_BYTES + 4) {
		*at++ = (size - 4) / 4 | (u32)delta << 5;
	} else {
		*at++ = (u32)delta << 5;
		*at++ = size - 4;
	}
	at[(size - (size <= MAX_SMALL_BYTES + 4 ? 4 : 8)) / 4 - 1] = 0;	/* the part beyond bytes */
	p->used += size;
	p->ns = ns;
	*record = at;
	return 0;
}

void braid_dat_out_pages_lose(struct braid_dat_out_pages *p, u64 lost)
{
	p->lost = p->lost > MAX_LOST || lost > MAX_LOST ? BRAID_LOST_SOME : p->lost + lost;
}
