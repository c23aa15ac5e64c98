// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Simulates a misbehaving host: writes harmful values into a region while its guest traces.
 *
 * usage: scribble REGION host|slots|all|lies COUNT SEED
 *
 *   host    every word that the host may write, except the slot tables
 *   slots   those too: garbage there may break a ring
 *   all     every byte of the region
 *   lies    likewise, and repeatedly made to look like an intact region that has
 *           just been laid out: an agent accepts it, and reads garbage in the rest
 *
 * Ends after COUNT writes. It never enables events of the kernel's own by a
 * command, because an emulator may hang when a busy guest patches hundreds of places.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tracebraid/abi.h"

#define MAX_RINGS	256
#define REST_EVERY	4096	/* writes, after which the guest gets a moment */
#define REST_US		200
#define HEAL_EVERY	30000	/* writes between two forged restarts */

static uint8_t *base;
static uint64_t region_bytes;
static uint64_t state;		/* of the random numbers */

static struct ring {
	struct braid_meta *meta;
	struct braid_ring_private *priv;
	u64 *slots;
	u32 nr_slots;
	u32 buffer, vcpu;
} rings[MAX_RINGS];
static unsigned int nr_rings;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Usually an edge value. */
static uint64_t bad_value(void)
{
	static const uint64_t edges[] = {
		0, 1, 2, 3, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000,
		0xffffffff, 0x100000000, INT64_MAX, (uint64_t)INT64_MIN, UINT64_MAX,
	};
	uint64_t r = next_random();

	switch (r >> 61) {
	case 0:
		return next_random();
	case 1:
		return next_random() >> (r & 63);
	case 2:
		return 1ULL << (r & 63);
	default:
		return edges[r % (sizeof(edges) / sizeof(edges[0]))] - (r >> 8 & 1);
	}
}

static void put(volatile void *at, unsigned int bytes, uint64_t value)
{
	if (bytes == 4)
		*(volatile uint32_t *)at = value;
	else
		*(volatile uint64_t *)at = value;
}

/* Usually a program that the guest accepts, or one that it must not. */
static void scribble_program(struct braid_filter_program *p)
{
	unsigned int k, nr = 1 + next_random() % 8;

	put(&p->version, 4, next_random() & 15 ? BRAID_FILTER_VERSION : bad_value());
	put(&p->record_bytes, 4, next_random() & 7 ? 8 + next_random() % 64 : bad_value());
	put(&p->text_bytes, 4, next_random() & 7 ? 8 : bad_value());
	memcpy(p->texts, "*st?r*\\", 8);
	for (k = 0; k < nr; k++) {
		struct braid_filter_insn *insn = &p->insns[k];

		insn->op = next_random() % (BRAID_FILTER_NR_OPS + 1);
		insn->if_true = next_random() % 4 ? 0 : next_random() % nr;
		insn->if_false = next_random() % 4 ? 0 : next_random() % nr;
		insn->reserved0 = 0;
		insn->offset = next_random() & 31 ? next_random() % 64 : bad_value();
		insn->bytes = next_random() & 31 ? next_random() % 16 : bad_value();
		put(&insn->low, 8, next_random() & 1 ? next_random() % 8 : bad_value());
		put(&insn->range, 8, bad_value());
	}
	p->insns[nr - 1].op = next_random() % 8 ? BRAID_FILTER_ACCEPT : BRAID_FILTER_REJECT;
	put(&p->nr_insns, 4, next_random() & 7 ? nr : bad_value());
}

/* Likewise a trigger, which may freeze the rings; and a shape of buffers. */
static void scribble_trigger(struct braid_mailbox *mailbox)
{
	struct braid_trigger *t = &mailbox->trigger;
	struct braid_reshape *to = &mailbox->reshape;

	put(&t->index, 4, next_random() & 7 ? next_random() % BRAID_TRIGGERS : bad_value());
	put(&t->role, 4, next_random() & 7 ? next_random() % BRAID_TRIGGER_ROLES : bad_value());
	put(&t->after, 8, next_random() & 1 ? next_random() % 64 : bad_value());
	put(&t->more_than, 8, next_random() & 1 ? next_random() % 65536 : bad_value());
	put(&to->ring_bytes, 8, next_random() & 1 ? next_random() % (1 << 20) : bad_value());
	put(&to->subbuf_bytes, 4, next_random() & 1 ? 256 << next_random() % 6 : bad_value());
	put(&to->set, 4, next_random() & 7 ? next_random() & 1 : bad_value());
	put(&to->clear, 4, next_random() & 7 ? next_random() & 1 : bad_value());
	put(&mailbox->trigger_state, 4, bad_value());
	put(&mailbox->trigger_last, 4, bad_value());
}

/* Usually a probe of the storm module or of a file, or one that the guest must refuse. */
static void scribble_probe(struct braid_probe *p)
{
	static const char *const targets[] = {
		"storm:on_timer", "storm:on_tasklet", "no_such", "/bin/busybox", "/proc/self/mem", "/dev", "",
	};
	unsigned int k, i;

	put(&p->version, 4, next_random() & 15 ? BRAID_PROBE_VERSION : bad_value());
	p->kind = next_random() % (BRAID_PROBE_NR_KINDS + 1);
	p->nr_args = next_random() & 7 ? next_random() % 4 : bad_value();
	p->reserved0 = next_random() & 15 ? 0 : bad_value();
	put(&p->offset, 8, next_random() & 3 ? 0 : bad_value());
	strcpy(p->target, targets[next_random() % (sizeof(targets) / sizeof(*targets))]);
	strcpy(p->symbol, next_random() & 1 ? "" : "main");
	for (k = 0; k < BRAID_PROBE_ARGS; k++) {
		struct braid_probe_arg *arg = &p->args[k];

		arg->name[0] = next_random() & 31 ? 'a' + k : bad_value();
		arg->name[1] = next_random() & 31 ? 0 : bad_value();
		strcpy(arg->reg, next_random() & 7 ? "si" : "x");
		put(&arg->value, 8, bad_value());
		for (i = 0; i < BRAID_PROBE_READS; i++)
			arg->offsets[i] = bad_value();
		arg->base = next_random() % (BRAID_PROBE_NR_BASES + !(next_random() & 15));
		arg->type = next_random() % (BRAID_PROBE_NR_TYPES + !(next_random() & 15));
		arg->nr_reads = next_random() % (BRAID_PROBE_READS + !(next_random() & 15));
		arg->user = next_random();
		put(&arg->reserved0, 4, next_random() & 31 ? 0 : bad_value());
	}
}

/* Any command, but only with patterns that match storm or no event. */
static void scribble_mailbox(void)
{
	struct braid_mailbox *mailbox = (void *)(base + BRAID_PAGE_BYTES);
	unsigned int k;

	for (k = 1; k < sizeof(mailbox->system); k++)
		mailbox->system[k] = next_random();
	mailbox->system[0] = 's';
	if (next_random() & 1)
		strcpy(mailbox->system, "storm");
	for (k = 0; k < sizeof(mailbox->event); k++)
		mailbox->event[k] = next_random() & 1 ? '*' : next_random();
	if (next_random() & 1) {
		scribble_program(&mailbox->program);
	} else {
		scribble_probe(&mailbox->probe);
		strcpy(mailbox->system, "storm");
		strcpy(mailbox->event, next_random() & 1 ? "probe" : "storm");
	}
	scribble_trigger(mailbox);
	put(&mailbox->command, 4,
	    next_random() & 7 ? next_random() % (BRAID_CMD_HITS + 1) : bad_value());
	if (mailbox->command == BRAID_CMD_RESHAPE && next_random() & 7)	/* seldom: the guest waits */
		put(&mailbox->command, 4, BRAID_CMD_PROBE);
	put(&mailbox->arg0, 8, next_random() & 1 ? bad_value() : BRAID_ANY_BUFFER);
	if (mailbox->command == BRAID_CMD_STACKS && next_random() & 7)
		put(&mailbox->arg0, 8, braid_stacks_request(next_random() % 5));
	put(&mailbox->agent_heartbeat, 8, bad_value());
	put(&mailbox->agent_drained, 8, bad_value());
	put(&mailbox->agent_buffers_seq, 4, bad_value());
	put(&mailbox->command_seq, 4, bad_value());
}

static void scribble_clock(void)
{
	struct braid_clock_cells *cells = (void *)(base + 2 * BRAID_PAGE_BYTES);

	put(&cells->host_ns, 8, bad_value());
	put(&cells->burst_vcpu, 4, next_random() & 1 ? next_random() % 5 : bad_value());
	put(&cells->burst, 8, bad_value());
	put(&cells->ping, 8, bad_value());
}

static void scribble_reader(struct ring *ring)
{
	u64 *block = (u64 *)ring->priv->reader_block;
	unsigned int words = sizeof(ring->priv->reader_block) / 8;

	put(&block[next_random() % words], 8, bad_value());
	put(&ring->priv->reader_index, 4, bad_value());
	put(&ring->priv->reader_owner, 8, next_random() & 1 ? next_random() % 4 : bad_value());
	put(&ring->meta->reader.lost_events, 8, bad_value());
	put(&ring->meta->reader.id, 4, bad_value());
	put(&ring->meta->reader.read, 4, bad_value());
	put(&ring->meta->entries, 8, bad_value());
	put(&ring->meta->overrun, 8, bad_value());
	put(&ring->meta->read, 8, bad_value());
}

/* The present value with one field changed: more likely to be accepted than random bits. */
static void scribble_slot(struct ring *ring)
{
	volatile u64 *slot = &ring->slots[next_random() % ring->nr_slots];
	u64 word = *slot;

	switch (next_random() % 6) {
	case 0:
		word = (word & ~(u64)BRAID_SLOT_ID_MASK) | (next_random() & BRAID_SLOT_ID_MASK);
		break;
	case 1:
		word = (word & ~(u64)BRAID_SLOT_ID_MASK) | next_random() % (ring->nr_slots + 2);
		break;
	case 2:
		word ^= (u64)(1 + next_random() % 3) << BRAID_SLOT_STATE_SHIFT;
		break;
	case 3:
		word += (u64)ring->nr_slots << BRAID_SLOT_POS_SHIFT;
		break;
	case 4:
		word -= (u64)ring->nr_slots << BRAID_SLOT_POS_SHIFT;
		break;
	default:
		word = bad_value();
	}
	*slot = word;
}

static void scribble_anywhere(void)
{
	uint64_t at = next_random() % (region_bytes / 8) * 8, bytes;

	if (at - BRAID_PAGE_BYTES < BRAID_PAGE_BYTES)
		return;		/* the mailbox has a function of its own */
	if (next_random() & 255) {
		put(base + at, 8, bad_value());
		return;
	}
	bytes = next_random() % 8192;
	if (at + bytes > region_bytes || at < 2 * BRAID_PAGE_BYTES)
		return;
	memset(base + at, next_random(), bytes);
}

/* The first pages and the rings' first pages contain most fields that can do harm. */
static void scribble_where_it_hurts(void)
{
	struct ring *ring = &rings[next_random() % nr_rings];
	/* The ring's private part with its slot table, and the meta page after it. */
	uint64_t bytes = (uint8_t *)ring->meta + BRAID_PAGE_BYTES - (uint8_t *)ring->priv;

	switch (next_random() % 4) {
	case 0:
		put(base + next_random() % (BRAID_PAGE_BYTES / 8) * 8, 8, bad_value());
		break;
	case 1:
		put((uint8_t *)ring->priv + next_random() % (bytes / 8) * 8, 8, bad_value());
		break;
	default:
		scribble_anywhere();
	}
}

static void find_rings(void)
{
	const struct braid_superblock *sb = (void *)base;
	unsigned int b, k;

	for (b = 0; b < sb->nr_buffers; b++) {
		const struct braid_buffer_desc *desc = &sb->buffers[b];

		for (k = 0; k < desc->nr_rings && nr_rings < MAX_RINGS; k++) {
			struct ring *ring = &rings[nr_rings++];
			uint8_t *start = base + desc->rings_offset + k * desc->ring_stride;

			ring->priv = (void *)start;
			ring->meta = (void *)(start + desc->private_bytes);
			ring->slots = (void *)(start + BRAID_RING_SLOTS_OFFSET);
			ring->nr_slots = desc->nr_slots;
			ring->buffer = b;
			ring->vcpu = k;
		}
	}
}

static uint8_t intact[BRAID_PAGE_BYTES];	/* the first page, as it was found */

/* As a driver that restarts, but with the present content of the region. */
static void heal(void)
{
	static u64 incarnation = 1000;
	struct braid_superblock *sb = (void *)base;
	unsigned int k;

	sb->state = BRAID_STATE_INIT;
	__sync_synchronize();
	incarnation += 2;
	for (k = 0; k < nr_rings; k++) {
		struct braid_ring_private *priv = rings[k].priv;

		priv->incarnation = incarnation;
		priv->buffer = rings[k].buffer;
		priv->vcpu = rings[k].vcpu;
		priv->nr_slots = rings[k].nr_slots;
		priv->reader_owner = BRAID_READER_NONE;
	}
	memcpy(base + 8, intact + 8, sizeof(*sb) - 8);
	sb->state = BRAID_STATE_INIT;
	sb->incarnation = incarnation;
	sb->magic = BRAID_MAGIC;
	if (next_random() & 1) {	/* with a wrong offset or size */
		u64 *from = (void *)sb->sections, *to = (void *)&sb->buffers[sb->nr_buffers];

		from[next_random() % (to - from)] ^= 1ULL << (next_random() % 24 + 20);
	}
	__sync_synchronize();
	sb->state = BRAID_STATE_LIVE;
}

static void scribble(const char *what)
{
	struct ring *ring = &rings[next_random() % nr_rings];

	switch (next_random() % 8) {
	case 0:
		scribble_mailbox();
		break;
	case 1:
		scribble_clock();
		break;
	default:
		if (!strcmp(what, "all") || !strcmp(what, "lies"))
			scribble_where_it_hurts();
		else if (!strcmp(what, "slots") && next_random() % 4 == 0)
			scribble_slot(ring);
		else
			scribble_reader(ring);
	}
}

int main(int argc, char **argv)
{
	unsigned long count, k;
	struct stat st;
	int fd;

	if (argc != 5) {
		fprintf(stderr, "usage: scribble REGION host|slots|all|lies COUNT SEED\n");
		return 2;
	}
	count = strtoul(argv[3], NULL, 0);
	state = strtoul(argv[4], NULL, 0) * 0x9e3779b97f4a7c15ULL + 1;
	fd = open(argv[1], O_RDWR);
	if (fd < 0 || fstat(fd, &st)) {
		perror(argv[1]);
		return 1;
	}
	region_bytes = st.st_size;
	base = mmap(NULL, region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		perror(argv[1]);
		return 1;
	}
	memcpy(intact, base, sizeof(intact));
	find_rings();
	if (!nr_rings) {
		fprintf(stderr, "%s: no rings\n", argv[1]);
		return 1;
	}
	printf("scribbling over %u rings\n", nr_rings);
	fflush(stdout);
	for (k = 0; k < count; k++) {
		scribble(argv[2]);
		if (k % HEAL_EVERY == 0 && !strcmp(argv[2], "lies")) {
			heal();
			usleep(20 * REST_US);	/* an agent accepts it */
		}
		if (k % REST_EVERY == 0)
			usleep(REST_US);
	}
	printf("%lu writes\n", count);
	return 0;
}
