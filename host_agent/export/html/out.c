// SPDX-License-Identifier: GPL-2.0-or-later
/* Packs data into a page so that none of it can be parsed as markup. */
#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/html/out.h"
#include "host_agent/util/error.h"
#include "host_agent/util/thread.h"

#define DEFLATE_LEVEL	2	/* of ISA-L: level 3 takes three times as long, and saves 3 % */

struct braid_html_deflate {
	struct isal_zstream stream;
	u8 buffer[ISAL_DEF_LVL2_DEFAULT];	/* for that level */
};

/* build/html/page is put together by html/assemble.sh. */
__asm__(".pushsection .rodata\n"
	".globl braid_html_page\n"
	".globl braid_html_page_end\n"
	".hidden braid_html_page, braid_html_page_end\n"
	"braid_html_page:\n"
	".incbin \"build/html/page\"\n"
	"braid_html_page_end:\n"
	".byte 0\n"
	".popsection\n");

static int html_out_put(struct braid_html_out *o, const char *data, size_t bytes)
{
	errno = 0;
	return fwrite(data, 1, bytes, o->to) == bytes ? 0 : braid_fail_output("the page");
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void make_pairs(struct braid_html_out *o)
{
	u32 k;

	for (k = 0; k < 4096; k++) {
		o->pairs[k][0] = digits[k >> 6];
		o->pairs[k][1] = digits[k & 63];
	}
}

static int pack(struct braid_html_out *o, const void *data, size_t bytes)
{
	size_t room = bytes + bytes / 64 + 1024;	/* for bytes that do not compress */
	struct isal_zstream *s = &o->deflate->stream;
	char *to;

	o->packed.bytes = 0;
	if (room >> 32)
		return braid_fail(-EFBIG, "cannot write the page: a part of it is larger than 4 GiB");
	to = braid_text_reserve(&o->packed, room);
	if (!to)
		return braid_out_of_memory();
	isal_deflate_stateless_init(s);
	s->level = DEFLATE_LEVEL;
	s->level_buf = o->deflate->buffer;
	s->level_buf_size = sizeof(o->deflate->buffer);
	s->end_of_stream = 1;
	s->next_in = (u8 *)data;
	s->avail_in = bytes;
	s->next_out = (u8 *)to;
	s->avail_out = room;
	if (isal_deflate_stateless(s) != COMP_OK)
		return braid_fail(-EIO, "cannot compress the page");
	o->packed.bytes = s->total_out;
	return 0;
}

/* Base64, without the padding's signs: a chunk's end is its element's. */
static int encode(struct braid_html_out *o)
{
	const u8 *from = (const u8 *)o->packed.data;
	size_t left = o->packed.bytes;
	char *to;

	o->coded.bytes = 0;
	to = braid_text_reserve(&o->coded, left / 3 * 4 + 4);
	if (!to)
		return braid_out_of_memory();
	for (; left >= 3; left -= 3, from += 3) {
		u32 word = from[0] << 16 | from[1] << 8 | from[2];

		memcpy(to, o->pairs[word >> 12], 2);
		memcpy(to + 2, o->pairs[word & 4095], 2);
		to += 4;
	}
	if (left) {
		u32 word = from[0] << 16 | (left > 1 ? from[1] << 8 : 0);

		*to++ = digits[word >> 18];
		*to++ = digits[word >> 12 & 63];
		if (left > 1)
			*to++ = digits[word >> 6 & 63];
	}
	o->coded.bytes = to - o->coded.data;
	return 0;
}

static int write_chunk(struct braid_html_out *o, const char *kind, const void *data, size_t bytes)
{
	static const char end[] = "</script>\n";
	char begin[80];
	int err;

	err = pack(o, data, bytes);
	if (!err)
		err = encode(o);
	if (err)
		return err;
	snprintf(begin, sizeof(begin),
		 "<script type=\"application/octet-stream\" data-kind=\"%s\">", kind);
	err = html_out_put(o, begin, strlen(begin));
	if (!err)
		err = html_out_put(o, o->coded.data, o->coded.bytes);
	return err ? err : html_out_put(o, end, strlen(end));
}

/* A thread that packs and writes chunks -------------------------------------------------------- */

#define NR_CHUNKS	4u	/* that may wait for the thread */

struct chunk {
	const char *kind;
	struct braid_text data;
};

struct braid_html_packer {
	/* Only the thread uses its ->deflate, ->packed, ->coded and ->to. */
	struct braid_html_out *out;
	pthread_t thread;
	pthread_mutex_t lock;		/* protects what follows, but not the contents of chunks */
	pthread_cond_t moved;
	u64 put, taken;			/* number of chunks so far */
	struct chunk chunks[NR_CHUNKS];	/* by number; those from ->taken to ->put wait */
	bool ends;			/* no more will be put */
	int err;			/* of the chunk that failed; later ones are not written */
	char failure[256];
};

static struct chunk *chunk_of(struct braid_html_packer *p, u64 number)
{
	return &p->chunks[number % NR_CHUNKS];
}

/* Waits for the next chunk, which keeps its place until end_chunk(). NULL: there are no more. */
static struct chunk *next_chunk(struct braid_html_packer *p)
{
	struct chunk *chunk = NULL;

	pthread_mutex_lock(&p->lock);
	while (p->taken == p->put && !p->ends)
		pthread_cond_wait(&p->moved, &p->lock);
	if (p->taken < p->put)
		chunk = chunk_of(p, p->taken);
	pthread_mutex_unlock(&p->lock);
	return chunk;
}

static void end_chunk(struct braid_html_packer *p, int err)
{
	pthread_mutex_lock(&p->lock);
	p->taken++;
	if (err) {
		p->err = err;
		snprintf(p->failure, sizeof(p->failure), "%s", braid_failure());
	}
	pthread_cond_broadcast(&p->moved);
	pthread_mutex_unlock(&p->lock);
}

static void *pack_chunks(void *arg)
{
	struct braid_html_packer *p = arg;
	struct chunk *c;
	int err = 0;

	while (!err && (c = next_chunk(p))) {
		err = write_chunk(p->out, c->kind, c->data.data, c->data.bytes);
		end_chunk(p, err);
	}
	return NULL;
}

/* Return: 0, or the failure of an earlier chunk. */
static int enqueue(struct braid_html_packer *p, const char *kind, const void *data, size_t bytes)
{
	struct chunk *c;
	int err;

	pthread_mutex_lock(&p->lock);
	while (p->put - p->taken == NR_CHUNKS && !p->err)
		pthread_cond_wait(&p->moved, &p->lock);
	err = p->err;
	pthread_mutex_unlock(&p->lock);
	if (err)
		return braid_fail(err, "%s", p->failure);
	c = chunk_of(p, p->put);
	c->kind = kind;
	c->data.bytes = 0;
	braid_text_put(&c->data, data, bytes);
	if (c->data.failed)
		return braid_out_of_memory();
	pthread_mutex_lock(&p->lock);
	p->put++;
	pthread_cond_broadcast(&p->moved);
	pthread_mutex_unlock(&p->lock);
	return 0;
}

void braid_html_out_pack_apart(struct braid_html_out *o)
{
	struct braid_html_packer *p = calloc(1, sizeof(*p));

	if (!p)
		return;
	p->out = o;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->moved, NULL);
	if (braid_thread_begin(&p->thread, pack_chunks, p))
		free(p);
	else
		o->packer = p;
}

int braid_html_out_settle(struct braid_html_out *o)
{
	struct braid_html_packer *p = o->packer;
	int err, k;

	if (!p)
		return 0;
	pthread_mutex_lock(&p->lock);
	p->ends = true;
	pthread_cond_broadcast(&p->moved);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	err = p->err ? braid_fail(p->err, "%s", p->failure) : 0;
	for (k = 0; k < (int)NR_CHUNKS; k++)
		braid_text_free(&p->chunks[k].data);
	free(p);
	o->packer = NULL;
	return err;
}

/* ------------------------------------------------------------------------------------------------ */

int braid_html_out_begin(struct braid_html_out *o, FILE *to)
{
	memset(o, 0, sizeof(*o));
	o->to = to;
	o->deflate = calloc(1, sizeof(*o->deflate));	/* ISA-L 2.30 does not set all of it */
	if (!o->deflate)
		return braid_out_of_memory();
	make_pairs(o);
	return html_out_put(o, braid_html_page, braid_html_page_end - braid_html_page);
}

int braid_html_out_chunk(struct braid_html_out *o, const char *kind, const void *data,
			 size_t bytes)
{
	if (o->packer)
		return enqueue(o->packer, kind, data, bytes);
	return write_chunk(o, kind, data, bytes);
}

int braid_html_out_columns(struct braid_html_out *o, const char *kind, u64 rows,
			   struct braid_text *columns, size_t nr)
{
	size_t k;

	o->plain.bytes = 0;
	braid_html_put(&o->plain, rows);
	for (k = 0; k < nr; k++)
		braid_html_put(&o->plain, columns[k].bytes);
	for (k = 0; k < nr; k++) {
		if (columns[k].failed)
			o->plain.failed = true;
		braid_text_put(&o->plain, columns[k].data, columns[k].bytes);
		columns[k].bytes = 0;
	}
	if (o->plain.failed)
		return braid_out_of_memory();
	return braid_html_out_chunk(o, kind, o->plain.data, o->plain.bytes);
}

int braid_html_out_end(struct braid_html_out *o)
{
	static const char end[] = "</body>\n</html>\n";
	int err = braid_html_out_settle(o);

	if (!err)
		err = html_out_put(o, end, strlen(end));
	if (!err && fflush(o->to))
		err = braid_fail_output("the page");
	return err;
}

void braid_html_out_free(struct braid_html_out *o)
{
	braid_html_out_settle(o);
	free(o->deflate);
	braid_text_free(&o->plain);
	braid_text_free(&o->packed);
	braid_text_free(&o->coded);
}
