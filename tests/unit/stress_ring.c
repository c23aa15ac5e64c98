// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two processes over shared memory: one writes self-describing events from a main
 * context and nested signal handlers, the other swaps sub-buffers and is killed at
 * any moment, as is the writer in some rounds. Every event must be read once and
 * intact, or counted as lost.
 */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shared/ring.h"
#include "tests/unit/check.h"

#define CONTEXTS	3		/* main, SIGALRM, SIGUSR1 inside it */
#define EVENTS		150000u		/* of the main context, per round */
#define EXTERNAL_NS	1700000000000000000ULL	/* host time of counter 0, the same on all lines */

/* The reader's results, where its successor finds them. */
struct progress {
	u64 last[CONTEXTS];
	u64 skipped[CONTEXTS];
	u64 read;
	u64 last_time;
	u64 bad;
	u64 next_seq;			/* after the last event delivered */
};

struct shared {
	u32 writer_done, reader_done, finish;
	u64 attempts[CONTEXTS];
	u32 index;			/* which progress holds */
	struct progress progress[2];
	_Alignas(4096) u8 ring[];
};

static struct shared *s;
static struct braid_writer *w;
static struct braid_ring_map map;
static struct braid_clock_latch external;	/* the writer's */
static u64 counts[CONTEXTS], seeds[CONTEXTS];
static bool jumpy;		/* the counter occasionally jumps back, in any context */
static u64 set_back;		/* by this much in total */

static u64 random64(u64 *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static u64 counter(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc() - __atomic_load_n(&set_back, __ATOMIC_RELAXED);
#else
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec - __atomic_load_n(&set_back, __ATOMIC_RELAXED);
#endif
}

static u64 mix(u64 value, u32 context)
{
	return (value + context + 1) * 0x9e3779b97f4a7c15ULL;
}

/* Payload: context, words, then count and words that follow from it. */
static void put(u32 context)
{
	u32 nr = 2 + random64(&seeds[context]) % 5, k;
	u64 n = ++counts[context], token, *at;

	if (jumpy && random64(&seeds[context]) % 256 == 0)
		__atomic_fetch_add(&set_back, BRAID_JUMP_STEPS << random64(&seeds[context]) % 24,
				   __ATOMIC_RELAXED);
	at = braid_ring_reserve(w, nr * 8, counter, &token);
	if (!at)
		return;
	for (k = 0; k < nr; k++) {
		u64 v = k == 0 ? (u64)context << 32 | nr : k == 1 ? n : mix(n, context) + k;

		memcpy(&at[k], &v, 8);
	}
	braid_ring_commit(w, token);
}

static void on_signal(int sig)
{
	u32 context = sig == SIGALRM ? 1 : 2;
	u32 k = 1 + random64(&seeds[context]) % 3;

	if (random64(&seeds[context]) % 16 == 0)
		k += 40;		/* a burst that may lap the ring */
	while (k--)
		put(context);
}

static void arm(int sig, long ns)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = sig };
	struct itimerspec every = { { 0, ns }, { 0, ns } };
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	timer_t timer;

	sigaddset(&sa.sa_mask, SIGALRM);	/* SIGUSR1 may nest in it, not the reverse */
	if (sig == SIGUSR1)
		sigaddset(&sa.sa_mask, SIGUSR1);
	sigaction(sig, &sa, NULL);
	timer_create(CLOCK_MONOTONIC, &ev, &timer);
	timer_settime(timer, 0, &every, NULL);
}

/* Another point of the same line: a mix of two points is not on it. */
static void renew_line(void)
{
	u64 now = counter();

	braid_clock_latch_set(&external, &(struct braid_clock_map){
		now, EXTERNAL_NS + now, 1ULL << BRAID_CLOCK_SHIFT });
}

static void write_all(void)
{
	sigset_t all;
	u32 k;

	renew_line();
	arm(SIGALRM, 83000);
	arm(SIGUSR1, 127000);
	while (counts[0] < EVENTS) {
		put(0);
		renew_line();
		if (random64(&seeds[0]) % 4096 == 0)
			sched_yield();
	}
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	for (k = 0; k < CONTEXTS; k++)
		s->attempts[k] = counts[k];
	CHECK_EQ(w->nest, 0);
	CHECK_EQ(w->broken, 0);
	braid_store_release(&s->writer_done, 1);
	_exit(VERDICT());
}

static void complain(struct progress *p, const char *what, u64 a, u64 b)
{
	if (p->bad++ < 5)
		fprintf(stderr, "%s: %llu, %llu\n", what, (unsigned long long)a,
			(unsigned long long)b);
}

/* @first: of its sub-buffer; @after_loss: events before it were lost */
static void check_event(struct progress *p, const struct braid_event_view *view, bool first,
			bool after_loss)
{
	u64 words[8];
	u32 context, nr, k;

	if (view->payload_bytes < 16 || view->payload_bytes > sizeof(words)) {
		complain(p, "size", view->payload_bytes, 0);
		return;
	}
	memcpy(words, view->payload, view->payload_bytes);
	context = words[0] >> 32;
	nr = (u32)words[0];
	if (context >= CONTEXTS || nr * 8 != view->payload_bytes) {
		complain(p, "torn", words[0], view->payload_bytes);
		return;
	}
	for (k = 2; k < nr; k++)
		if (words[k] != mix(words[1], context) + k)
			complain(p, "payload", words[k], k);
	if (words[1] <= p->last[context])
		complain(p, "order", words[1], p->last[context]);
	/* A jump among lost events may have been made up for by their time, but for a few steps. */
	if (view->time < p->last_time &&
	    !(jumpy && first && (after_loss || p->last_time - view->time >= BRAID_JUMP_STEPS)))
		complain(p, "time", view->time, p->last_time);
	p->skipped[context] += words[1] - p->last[context] - 1;
	p->last[context] = words[1];
	p->last_time = view->time;
	p->read++;
}

static void save(const struct progress *p)
{
	u32 index = ~s->index & 1;

	s->progress[index] = *p;
	braid_store_release(&s->index, index);
}

/* @p->next_seq makes delivery and its record one step: a saved event is not delivered again. */
static u64 deliver(struct progress *p, const struct braid_span *span)
{
	static u8 copy[BRAID_MAX_SUBBUF_BYTES];
	struct braid_event_view view;
	struct braid_cursor c;
	u64 seq = span->first_seq, events = 0, stamps = 0;

	memcpy(copy, span->data, span->to_bytes);
	braid_cursor_init(&c, copy, span->to_bytes, span->time_stamp, map.flags);
	while (braid_page_next(&c, &view) > 0) {
		if (view.type != BRAID_TYPE_DATA) {
			stamps += !view.offset;
			if (view.external_ns != EXTERNAL_NS + view.time &&
			    (view.external_ns || !jumpy))
				complain(p, "external time", view.external_ns, view.time);
			continue;
		}
		if (view.offset >= span->from_bytes) {
			events++;
			if ((s64)(seq - p->next_seq) >= 0) {
				check_event(p, &view, c.events == 1, seq != p->next_seq);
				p->next_seq = seq + 1;
			}
		}
		seq++;
	}
	if (!stamps && !jumpy)
		complain(p, "no stamp", span->position, span->to_bytes);
	save(p);
	return events;
}

static void read_all(void)
{
	struct progress p = s->progress[s->index];
	struct braid_span span;
	struct braid_reader r;

	if (braid_reader_attach(&r, &map, 7))
		complain(&p, "attach", 0, 0);
	for (;;) {
		bool finish = braid_load_acquire(&s->finish);
		int got = braid_reader_next(&r, &span);

		if (got < 0) {
			complain(&p, "fault", r.fault, 0);
			break;
		}
		if (got)
			braid_reader_done(&r, &span, deliver(&p, &span));
		else if (finish)
			break;
	}
	save(&p);
	braid_store_release(&s->reader_done, 1);
	_exit(0);
}

/* The ring's own count of offered events: the reader's sum and those still unread. */
static u64 lost_in_all(void)
{
	struct braid_reader r;
	struct braid_span span;
	struct braid_peek peek;
	u64 lost;

	braid_reader_attach(&r, &map, 7);
	lost = r.lost;
	braid_peek_begin(&peek, &map, 7);
	while (braid_peek_next(&peek, &span) > 0)
		if (!span.final)
			lost += span.dropped;
	return lost;
}

static void start_round(u32 round, u64 *seed, size_t *bytes)
{
	static const u32 sizes[] = { 256, 512, 1024, 4096 };
	u32 n = 2u << random64(seed) % 4, size = sizes[random64(seed) % 4], k;
	u32 flags = (round & 1 ? BRAID_BUFFER_OVERWRITE : 0) |
		    (round & 2 ? BRAID_BUFFER_ABSOLUTE : 0);
	struct braid_ring_identity who = {
		.incarnation = 7, .first_position = BRAID_POS_MASK - random64(seed) % 1000,
		.first_seq = 0ULL - random64(seed) % 100000, .counter = counter(),
		.external = &external,
	};

	*bytes = sizeof(*s) + braid_ring_bytes(n, size, BRAID_PAGE_BYTES);
	s = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		abort();
	w = malloc(braid_writer_bytes(n));
	braid_ring_map_init(&map, s->ring, n, size, BRAID_PAGE_BYTES, flags);
	braid_writer_init(w, &map, &who);
	s->progress[0].next_seq = who.first_seq;
	jumpy = round % 5 == 4;
	for (k = 0; k < CONTEXTS; k++) {
		counts[k] = 0;
		seeds[k] = random64(seed) | 1;
	}
}

static pid_t fork_or_die(void (*child)(void))
{
	pid_t pid = fork();

	if (pid < 0)
		abort();
	if (!pid)
		child();
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Kills readers occasionally until the writer is done, or is killed itself. */
static void disturb(pid_t writer, bool kill_writer, u64 *seed, u32 *kills)
{
	pid_t reader = fork_or_die(read_all);
	u32 rounds = 0;

	while (!braid_load_acquire(&s->writer_done)) {
		usleep(random64(seed) % (random64(seed) % 4 ? 3000 : 20000));
		end(reader);
		(*kills)++;
		if (random64(seed) % 6 == 0)
			usleep(random64(seed) % 10000);	/* no reader for a while */
		if (kill_writer && ++rounds > 4 && random64(seed) % 8 == 0)
			break;
		reader = fork_or_die(read_all);
	}
	if (kill_writer)
		end(writer);
	end(reader);
}

static void judge(bool killed, u64 *read, u64 *lost)
{
	const struct progress *p = &s->progress[s->index];
	u64 attempts = 0, skipped = 0, all_lost = lost_in_all();
	u32 k;

	CHECK_EQ(s->reader_done, 1);
	CHECK_EQ(p->bad, 0);
	for (k = 0; k < CONTEXTS; k++) {
		attempts += s->attempts[k];
		skipped += p->skipped[k] + (killed ? 0 : s->attempts[k] - p->last[k]);
	}
	if (killed) {
		CHECK(skipped <= all_lost);
	} else {
		CHECK_EQ(p->read + all_lost, attempts);
		CHECK_EQ(skipped, all_lost);
	}
	*read += p->read;
	*lost += all_lost;
}

int main(int argc, char **argv)
{
	u32 rounds = argc > 1 ? atoi(argv[1]) : 12, round, kills = 0;
	u64 seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 0x2545f4914f6cdd1dULL;
	u64 read = 0, lost = 0;

	for (round = 0; round < rounds && !check_failures; round++) {
		bool kill_writer = round % 3 == 2;
		int status;
		size_t bytes;
		pid_t writer;

		start_round(round, &seed, &bytes);
		writer = fork_or_die(write_all);
		disturb(writer, kill_writer, &seed, &kills);
		if (!kill_writer) {
			waitpid(writer, &status, 0);
			CHECK_EQ(status, 0);
		}
		s->finish = 1;
		waitpid(fork_or_die(read_all), &status, 0);
		CHECK_EQ(status, 0);
		judge(kill_writer && !s->writer_done, &read, &lost);
		free(w);
		munmap(s, bytes);
	}
	printf("%s stress_ring: %u rounds, %u readers killed, %llu events read, %llu lost and counted\n",
	       check_failures ? "FAIL" : "ok", round, kills, (unsigned long long)read,
	       (unsigned long long)lost);
	return VERDICT();
}
