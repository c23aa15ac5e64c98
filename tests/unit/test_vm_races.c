// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Follows a region in a guest's own memory while the guest acts between any two of the reads, and
 * in the middle of a read: what is read is what the guest wrote, and the rest is counted.
 */
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host_agent/transport/vm_mirror_private.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/vm_follower.h"

#define NONCE	0x8081828384858687ULL
#define PIECE	1024u		/* of a read, between two moments of the guest */

static char region_path[] = "/tmp/test_vm_races.XXXXXX";

static const struct fake_params usual = {
	.name = "fake", .bytes = 2 * OWN_CHUNK_ROOM, .nr_vcpus = 2, .subbuf_bytes = 1024,
	.nr_slots = 8, .always = true, .flags = BRAID_BUFFER_OVERWRITE,
};

static struct vm_follower f;
static void (*others)(void);	/* what the guest does meanwhile; or NULL */
static bool one_look;		/* a mutant of the follower: it does not look a second time */
static u64 random_state, seeds = 4;

static u32 random_below(u32 n)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (random_state >> 33) % n;
}

/* The mutant: the second look has what the first one found. */
static void forget_second_look(void)
{
	size_t k;

	for (k = 0; one_look && f.mirror && k < f.mirror->nr_rings; k++)
		f.mirror->rings[k].r.second = f.mirror->rings[k].r.look;
}

/* In place of the C library's: the same, piece by piece. */
ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long nr_local,
			 const struct iovec *remote, unsigned long nr_remote, unsigned long flags)
{
	struct iovec to = { 0 }, from = { 0 }, a, b;
	ssize_t all = 0, got;

	for (;;) {
		if (!to.iov_len && nr_local) {
			to = *local++;
			nr_local--;
		}
		if (!from.iov_len && nr_remote) {
			from = *remote++;
			nr_remote--;
		}
		if (!to.iov_len || !from.iov_len)
			break;
		a = to;
		b = from;
		a.iov_len = a.iov_len < b.iov_len ? a.iov_len : b.iov_len;
		a.iov_len = b.iov_len = a.iov_len < PIECE ? a.iov_len : PIECE;
		if (others)
			others();
		got = syscall(SYS_process_vm_readv, pid, &a, 1, &b, 1, flags);
		if (got <= 0)
			return all ? all : got;
		to = (struct iovec){ (u8 *)to.iov_base + got, to.iov_len - got };
		from = (struct iovec){ (u8 *)from.iov_base + got, from.iov_len - got };
		all += got;
	}
	forget_second_look();
	return all;
}

/* A turn, and all that it made readable. Return: events. */
static u64 turn(void)
{
	u64 read = 0;
	u32 buffer, vcpu;

	braid_vm_mirror_pull(f.mirror);
	vm_follower_buffers(&f);
	for (buffer = 0; buffer < FOLLOWED_BUFFERS; buffer++)
		for (vcpu = 0; f.on[buffer] && vcpu < f.g->p.nr_vcpus; vcpu++)
			read += vm_follower_read(&f, buffer, vcpu);
	vm_follower_acknowledge(&f);
	return read;
}

static void begin(const struct fake_params *p, u64 seed)
{
	random_state = seed;
	vm_follower_begin(&f, region_path, p, NONCE);
}

/* The guest is at rest but for its heart; all accounts are exact then. Return: events read. */
static u64 settle(void)
{
	u64 read = 0;
	u32 buffer, vcpu, k;

	others = NULL;
	for (k = 0; k < 20; k = turn() ? 0 : k + 1)
		fake_guest_look(f.g);
	for (buffer = 0; buffer < FOLLOWED_BUFFERS; buffer++)
		for (vcpu = 0; vcpu < f.g->p.nr_vcpus; vcpu++) {
			const struct braid_reader *r = &f.readers[buffer][vcpu];

			read += r->read;
			if (!one_look && f.on[buffer])
				CHECK_EQ(r->read + r->lost, f.written[buffer][vcpu].nr);
		}
	/* A ring that was resized continues its counts. */
	if (!one_look)
		CHECK_EQ(read, f.read);
	CHECK_EQ(braid_vm_mirror_unproven(f.mirror), 0);
	return read;
}

static void end(void)
{
	vm_follower_detach(&f);
	f.mirror = NULL;
	vm_follower_end(&f);
}

/* Now and then a few events, and seldom more than the ring holds. */
static void write_some(void)
{
	u32 chance = random_below(256);

	if (chance < 2)
		vm_follower_write(&f, 0, random_below(2), 400);
	else if (chance < 40)
		vm_follower_write(&f, 0, random_below(2), 1 + random_below(40));
	else if (chance < 60)
		fake_guest_look(f.g);
}

/* The same, and a reader in the guest. */
static void write_and_read(void)
{
	write_some();
	if (!random_below(60))
		fake_guest_read(f.g, random_below(2));
}

static u64 run(void (*meanwhile)(void), u64 seed, u32 turns)
{
	u64 read;

	begin(&usual, seed);
	vm_follower_attach(&f);
	others = meanwhile;
	while (turns--)
		turn();
	if (meanwhile == write_and_read)
		fake_guest_read(f.g, 0);	/* and has the newest sub-buffer then */
	read = settle();
	end();
	return read;
}

static void writers(void)
{
	u64 seed;

	for (seed = 1; seed <= seeds; seed++) {
		CHECK(run(write_some, seed, 1000) > 5000);
		CHECK_EQ(f.wrong + f.faults, 0);
	}
}

/* What the second look is for. */
static void mutant_is_caught(void)
{
	one_look = true;
	run(write_some, 1, 3000);
	one_look = false;
	CHECK(f.wrong > 0);
}

static void readers_in_the_guest(void)
{
	u64 seed;

	for (seed = 1; seed <= seeds; seed++) {
		CHECK(run(write_and_read, seed, 1000) > 5000);
		CHECK_EQ(f.wrong + f.faults, 0);
	}
}

/* Buffers that come, go and are resized ------------------------------------------------------- */

static const struct braid_buffer_params second = {
	.name = "second", .flags = BRAID_BUFFER_OVERWRITE, .subbuf_bytes = 1024, .nr_slots = 8,
};

static void looks(u32 nr)
{
	for (; nr; nr--) {
		fake_guest_look(f.g);
		turn();
	}
}

/* One that is about to be removed stays where it is until then. */
static void closing(void)
{
	begin(&usual, 1);
	CHECK_EQ(fake_guest_open_buffer(f.g, &second), 1);
	vm_follower_attach(&f);
	vm_follower_write(&f, 1, 0, 50);
	looks(2);
	CHECK_EQ(f.readers[1][0].read, 50);
	vm_follower_write(&f, 1, 0, 30);
	turn();
	fake_guest_closing(f.g, 1);
	looks(3);
	CHECK_EQ(f.readers[1][0].read, 80);
	CHECK_EQ(f.readers[1][0].lost, 0);
	fake_guest_close_buffer(f.g, 1, true);
	looks(6);
	CHECK(!f.on[1]);
	CHECK_EQ(braid_vm_mirror_mapping(f.mirror)->cut_off, 0);
	CHECK_EQ(f.wrong + f.faults, 0);
	end();
}

/*
 * One that is removed before its last events are copied: that is known, whether it was never seen
 * to be CLOSING, or only after the last turn. @resized: the next events count them.
 */
static void cut_off_one(bool was_closing, bool resized)
{
	begin(&usual, 1);
	CHECK_EQ(fake_guest_open_buffer(f.g, &second), 1);
	vm_follower_attach(&f);
	vm_follower_write(&f, 1, 0, 50);
	looks(2);
	vm_follower_write(&f, 1, 0, 30);
	if (was_closing)
		fake_guest_closing(f.g, 1);
	fake_guest_close_buffer(f.g, 1, true);
	if (resized) {
		CHECK_EQ(fake_guest_open_buffer(f.g, &second), 1);
		vm_follower_write(&f, 1, 0, 1);
	}
	looks(6);
	CHECK_EQ(f.on[1], resized);
	CHECK_EQ(f.readers[1][0].read, 50 + resized);
	CHECK_EQ(f.readers[1][0].lost, resized ? 30 : 0);
	CHECK_EQ(braid_vm_mirror_mapping(f.mirror)->cut_off, resized ? 0 : 1 << 1);
	CHECK_EQ(f.wrong + f.faults, 0);
	end();
}

static void cut_off(void)
{
	cut_off_one(false, false);
	cut_off_one(true, false);
	cut_off_one(false, true);
}

/* What was read before a buffer was resized is neither lost nor read again. */
static void resized(void)
{
	struct braid_buffer_params larger = second;

	begin(&usual, 1);
	CHECK_EQ(fake_guest_open_buffer(f.g, &second), 1);
	vm_follower_attach(&f);
	vm_follower_write(&f, 1, 0, 50);
	looks(2);
	fake_guest_close_buffer(f.g, 1, true);
	larger.nr_slots = 32;
	CHECK_EQ(fake_guest_open_buffer(f.g, &larger), 1);
	vm_follower_write(&f, 1, 0, 20);
	looks(6);
	CHECK_EQ(f.readers[1][0].read, 70);
	CHECK_EQ(f.readers[1][0].lost, 0);
	CHECK_EQ(settle(), 70);
	CHECK_EQ(f.wrong + f.faults, 0);
	end();
}

static u32 removed_at;		/* calls until it happens */

/* The buffer is removed, and others use its sub-buffers, but not its words. */
static void reuse_data(void)
{
	struct braid_ring_map map;

	if (!removed_at || --removed_at)
		return;
	fake_guest_ring(f.g, 1, 0, &map);
	fake_guest_close_buffer(f.g, 1, false);
	memset(map.subbufs, 0xa5, (map.nr_slots + 1) * map.subbuf_bytes);
}

static void data_of_others(void)
{
	u32 k;

	for (k = 1; k < 60; k++) {
		begin(&usual, 1);
		CHECK_EQ(fake_guest_open_buffer(f.g, &second), 1);
		vm_follower_attach(&f);
		vm_follower_write(&f, 1, 0, 100);
		removed_at = k;
		others = reuse_data;
		looks(6);
		CHECK(!f.on[1]);
		CHECK_EQ(f.wrong + f.faults, 0);
		settle();
		end();
	}
}

static bool is_open[FOLLOWED_BUFFERS];

static void open_or_close(u32 buffer)
{
	static const char *const names[] = { "main", "second", "third", "fourth" };
	struct braid_buffer_params p = second;

	if (is_open[buffer]) {
		if (random_below(2))
			fake_guest_closing(f.g, buffer);
		fake_guest_close_buffer(f.g, buffer, random_below(2));
	} else {
		p.name = names[buffer];
		p.nr_slots = 4 << random_below(4);
		p.subbuf_bytes = 1024 << random_below(3);
		CHECK_EQ(fake_guest_open_buffer(f.g, &p), buffer);
	}
	is_open[buffer] = !is_open[buffer];
}

static void change_buffers(void)
{
	u32 buffer = random_below(FOLLOWED_BUFFERS), chance = random_below(256);

	if (is_open[buffer] && chance < 30)
		vm_follower_write(&f, buffer, random_below(2), 1 + random_below(40));
	else if (chance < 50)
		fake_guest_look(f.g);
	else if (chance < 52 && buffer)
		open_or_close(buffer);
}

static void changing_buffers(void)
{
	u32 k, seed;

	for (seed = 1; seed <= seeds; seed++) {
		begin(&usual, seed);
		memset(is_open, 0, sizeof(is_open));
		is_open[0] = true;
		for (k = 1; k < FOLLOWED_BUFFERS; k++)
			open_or_close(k);
		vm_follower_attach(&f);
		others = change_buffers;
		for (k = 0; k < 1000; k++)
			turn();
		/* What was lost with a removed ring shows with the next event. */
		for (k = 0; k < 2 * FOLLOWED_BUFFERS; k++)
			if (is_open[k / 2])
				vm_follower_write(&f, k / 2, k % 2, 1);
		CHECK(settle() > 2000);
		CHECK_EQ(f.wrong + f.faults, 0);
		end();
	}
}

/* Sizes ---------------------------------------------------------------------------------------- */

/* Many rings, small or large: more than a batch has room for, and across the ends of chunks. */
static void sizes(void)
{
	static const struct {
		u32 chunks, nr_vcpus, subbuf_bytes, nr_slots, buffers, events;
	} shapes[] = {
		{ 8, FAKE_MAX_VCPUS, 1024, 4, FOLLOWED_BUFFERS, 120 },
		{ 4, 2, BRAID_MAX_SUBBUF_BYTES, 32, 1, 60000 },
		{ 4, 1, 1024, 2048, 1, 60000 },
	};
	struct braid_buffer_params another = second;
	struct fake_params p = usual;
	u32 k, b, vcpu, n;

	for (k = 0; k < sizeof(shapes) / sizeof(*shapes); k++) {
		p.bytes = shapes[k].chunks * OWN_CHUNK_ROOM;
		p.nr_vcpus = shapes[k].nr_vcpus;
		another.subbuf_bytes = p.subbuf_bytes = shapes[k].subbuf_bytes;
		another.nr_slots = p.nr_slots = shapes[k].nr_slots;
		begin(&p, 1);
		for (b = 1; b < shapes[k].buffers; b++) {
			another.name = b == 1 ? "second" : b == 2 ? "third" : "fourth";
			CHECK_EQ(fake_guest_open_buffer(f.g, &another), b);
		}
		vm_follower_attach(&f);
		for (n = 0; n < 6; n++) {
			for (b = 0; b < shapes[k].buffers; b++)
				for (vcpu = 0; vcpu < p.nr_vcpus; vcpu++)
					vm_follower_write(&f, b, vcpu, shapes[k].events / (n + 1));
			looks(2);
		}
		CHECK(settle() > 10000);
		CHECK_EQ(f.wrong + f.faults, 0);
		end();
	}
}

/* A guest that forges what it likes, while it is followed ----------------------------------- */

/* A word that the follower reads. */
static u8 *some_word(void)
{
	const struct braid_section *section;
	struct braid_ring_map map;
	u32 at;

	switch (random_below(8)) {
	case 0:			/* buffers, and less often what is checked before them */
		at = random_below(8) ? offsetof(struct braid_superblock, buffers) : 0;
		return f.g->base + at + 4 * random_below(64);
	case 1:
		return f.g->base + offsetof(struct braid_superblock, buffers_seq);
	case 2:
		section = &f.g->sb.sections[random_below(BRAID_NR_SECTIONS)];
		return f.g->base + section->offset + 4 * random_below(64);
	default:
		fake_guest_ring(f.g, 0, random_below(2), &map);
		at = braid_ring_private_used(map.nr_slots) / 4;
		return (u8 *)map.priv + 4 * random_below(at);
	}
}

static void forge(void)
{
	static const u64 nasty[] = {
		0, 1, 2, 0xffff, 0x8000, 4096, 1ULL << 20, 1ULL << 21, 1ULL << 22, 1ULL << 31,
		0xffffffff, 1ULL << 63, ~0ULL >> 1, ~0ULL, 0xfffffffffffff000ULL,
	};
	u8 *to = some_word();
	u32 bytes = random_below(2) ? 4 : 8;
	u64 word;

	if (random_below(4)) {
		write_some();
		return;
	}
	memcpy(&word, to, sizeof(word));
	switch (random_below(4)) {
	case 0:
		word = nasty[random_below(sizeof(nasty) / sizeof(*nasty))];
		break;
	case 1:
		word ^= 1ULL << random_below(64);
		break;
	case 2:
		word += random_below(5) - 2;
		break;
	default:
		memcpy(&word, some_word(), sizeof(word));
	}
	memcpy(to, &word, bytes);
}

/* Whatever it does: work and memory stay bounded, and the copy is a valid region, or gone. */
static void forged_words(void)
{
	u64 seed, turns = 0;
	u32 round, k;
	u8 *good;

	for (seed = 1; seed <= seeds; seed++) {
		begin(&usual, seed);
		good = malloc(f.memory.bytes);
		NEED(good);
		memcpy(good, f.memory.vm, f.memory.bytes);
		for (round = 0; round < 40; round++) {
			others = NULL;
			memcpy(f.memory.vm, good, f.memory.bytes);
			vm_follower_attach(&f);
			others = forge;
			for (k = 0; k < 60 && !braid_vm_mirror_mapping(f.mirror)->gone; k++)
				turn();
			turns += k;
			vm_follower_detach(&f);
			f.mirror = NULL;
		}
		free(good);
		vm_follower_end(&f);
	}
	CHECK(turns > 40 * seeds);
}

/* test_vm_races [NUMBER OF SEEDS] */
int main(int argc, char **argv)
{
	int fd = mkstemp(region_path);

	if (argc > 1)
		seeds = strtoul(argv[1], NULL, 0);
	NEED(fd >= 0);
	close(fd);
	RUN(writers);
	RUN(mutant_is_caught);
	RUN(readers_in_the_guest);
	RUN(closing);
	RUN(cut_off);
	RUN(resized);
	RUN(data_of_others);
	RUN(changing_buffers);
	RUN(sizes);
	RUN(forged_words);
	unlink(region_path);
	return VERDICT();
}
