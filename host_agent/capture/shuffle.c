// SPDX-License-Identifier: GPL-2.0-or-later
/* Separates the header words of events from other bytes, and joins them again. */
#include <string.h>

#include "host_agent/capture/shuffle.h"
#include "tracebraid/abi.h"

#define KIND_BITS	5u	/* of a header word, in both formats; the others are the time delta */

/* Types of ftrace's header word. */
#define HOST_PADDING	29u

/*
 * Both directions take the same steps: each reads what is next of @from. When shuffling that is the
 * plain bytes, else the bytes without header words.
 */
struct steps {
	const u8 *from;
	u8 *to;
	u32 left;	/* plain bytes */
	u32 others;	/* bytes that are not of header words, at most */
	u32 *word;	/* the next one */
	u32 words;	/* how many there are room for, or left */
};

static __always_inline bool copy(struct steps *s, u32 bytes)
{
	if (bytes > s->others)
		return false;
	memcpy(s->to, s->from, bytes);
	s->from += bytes;
	s->to += bytes;
	s->left -= bytes;
	s->others -= bytes;
	return true;
}

/* The time delta's highest bits, which hardly change, come to be in the same byte as the kind. */
static __always_inline bool take_word(struct steps *s, bool shuffle, u32 *word)
{
	if (!s->words)
		return false;
	if (shuffle) {
		memcpy(word, s->from, sizeof(*word));
		*s->word = *word >> KIND_BITS | *word << (32 - KIND_BITS);
		s->from += sizeof(*word);
	} else {
		*word = *s->word << KIND_BITS | *s->word >> (32 - KIND_BITS);
		memcpy(s->to, word, sizeof(*word));
		s->to += sizeof(*word);
	}
	s->word++;
	s->words--;
	s->left -= sizeof(*word);
	return true;
}

/* Bytes that follow a header word of a guest's event, if it is not is_long(). */
static __always_inline u32 bytes_of_guest(u32 word, u32 left)
{
	u32 len = word >> BRAID_EVENT_LEN_SHIFT & 7;

	return (word & 3) == BRAID_TYPE_PADDING ? left : 4 * len;
}

/* Likewise of a host's event. */
static __always_inline u32 bytes_of_host(u32 word, u32 left)
{
	u32 type = word & 31;

	return type < HOST_PADDING ? 4 * type : type == HOST_PADDING ? left : 4;
}

/* Whether the word after the header word has the number of bytes. */
static __always_inline bool is_long(u32 word, bool host)
{
	return host ? !(word & 31) : (word & 31) == BRAID_TYPE_DATA;
}

/* Whatever the bytes are, both directions find the same words in them. */
static __always_inline bool take_events(struct steps *s, u32 bytes, bool host, bool shuffle)
{
	u32 left = bytes, word, n;

	while (left >= sizeof(word)) {
		if (!take_word(s, shuffle, &word))
			return false;
		left -= sizeof(word);
		n = host ? bytes_of_host(word, left) : bytes_of_guest(word, left);
		if (!n && left >= sizeof(n) && is_long(word, host)) {
			if (s->others < sizeof(n))
				return false;
			memcpy(&n, s->from, sizeof(n));
			/* A host's number includes the word that has it. */
			n = n < left ? host ? (n + 3) & ~3u : n + 4 : left;
			n = n < sizeof(n) ? sizeof(n) : n;
		}
		n = n < left ? n : left;
		if (!copy(s, n))
			return false;
		left -= n;
	}
	return copy(s, left);
}

/* Return: 1; 0: a whole chunk of pages is not next; -1: not valid. */
static __always_inline int take_page(struct steps *s, bool shuffle)
{
	u32 head_bytes = sizeof(struct braid_chunk) + sizeof(struct braid_chunk_page), bytes;
	struct braid_chunk chunk;
	bool host;

	if (s->left < sizeof(chunk))
		return 0;
	if (s->others < sizeof(chunk))
		return -1;
	memcpy(&chunk, s->from, sizeof(chunk));
	host = chunk.type == BRAID_CHUNK_HOST_PAGE;
	if (host)
		head_bytes = sizeof(chunk) + sizeof(struct braid_chunk_host_page) +
			     BRAID_SUBBUF_HEADER_BYTES;
	if (chunk.magic != BRAID_CHUNK_MAGIC || (!host && chunk.type != BRAID_CHUNK_PAGE) ||
	    chunk.payload_bytes > s->left ||
	    sizeof(chunk) + chunk.payload_bytes < head_bytes ||
	    braid_chunk_bytes(chunk.payload_bytes) > s->left)
		return 0;
	bytes = sizeof(chunk) + chunk.payload_bytes - head_bytes;
	return copy(s, head_bytes) && take_events(s, bytes, host, shuffle) &&
	       copy(s, -chunk.payload_bytes & 7) ? 1 : -1;
}

static __always_inline bool take_all(struct steps *s, u32 skip, bool shuffle)
{
	int ret;

	if (skip > s->left || !copy(s, skip))
		return false;
	do
		ret = take_page(s, shuffle);
	while (ret > 0);
	return !ret && copy(s, s->left);
}

/* Where the first chunk begins, after the rest of one that the segment before has the beginning of. */
static u32 find_chunk(const u8 *data, u32 bytes)
{
	u32 at, magic;

	for (at = 0; at + sizeof(magic) <= bytes; at += 8) {
		memcpy(&magic, data + at, sizeof(magic));
		if (magic == BRAID_CHUNK_MAGIC)
			return at;
	}
	return bytes;
}

u32 braid_shuffle(u8 *to, const u8 *from, u32 bytes, u32 *words)
{
	struct braid_packed_shuffle head = { .skip = find_chunk(from, bytes) };
	struct steps s = {
		.from = from, .to = to + sizeof(head), .left = bytes, .others = bytes, .word = words,
		.words = bytes / sizeof(*words),
	};
	u32 k;

	take_all(&s, head.skip, true);
	head.nr = s.word - words;
	memcpy(to, &head, sizeof(head));
	for (k = 0; k < head.nr; k++) {
		s.to[k] = words[k];
		s.to[head.nr + k] = words[k] >> 8;
		s.to[2 * head.nr + k] = words[k] >> 16;
		s.to[3 * head.nr + k] = words[k] >> 24;
	}
	return head.nr;
}

bool braid_unshuffle(u8 *to, const u8 *from, u32 bytes, u32 *words)
{
	struct braid_packed_shuffle head;
	struct steps s = { .from = from + sizeof(head), .to = to, .left = bytes, .word = words };
	const u8 *planes;
	u32 k;

	memcpy(&head, from, sizeof(head));
	if (head.nr > bytes / sizeof(*words))
		return false;
	s.words = head.nr;
	s.others = bytes - head.nr * sizeof(*words);
	planes = s.from + s.others;
	for (k = 0; k < head.nr; k++)
		words[k] = planes[k] | planes[head.nr + k] << 8 | planes[2 * head.nr + k] << 16 |
			   (u32)planes[3 * head.nr + k] << 24;
	return take_all(&s, head.skip, false) && !s.words;
}
