/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pairs of barriers in docs/ring.md as litmus tests for spin: whether each test's bad outcome is
 * possible on a machine that orders memory accesses no more than arm64 does. run.sh searches all
 * orders; without one of its barriers (NO_...) a test must reach its bad outcome.
 *
 * The machine is multi-copy atomic, as arm64 is: there is one memory, and an access happens at one
 * moment for all CPUs. A CPU performs its accesses in any order, loads of a later branch included, but
 * for what an ACCESS says that it waits for:
 *
 *   acquire	the later accesses wait for the load
 *   release	the store waits for all earlier accesses
 *   fence	the later accesses wait for the earlier ones
 *   CAS	a full compare-and-swap is an acquire, a release and, where the code says so, a fence
 *   address	an access whose address a load gave waits for that load
 *   branch	a store that a load decides about waits for that load; a load does not
 *   same word	accesses to one word stay in order
 *
 * No thread loads what it has stored itself, so a CPU's store buffer shows in that a store may happen
 * after later loads, and need not be modelled. Neither are mixed sizes. A read of a counter or clock is
 * an access to the word `now`, which only time changes. ring.pml has the protocols; this has the order.
 */

#ifdef NO_RELEASE
#define RELEASE		0
#else
#define RELEASE		255
#endif
#ifdef NO_ACQUIRE
#define ACQUIRE		0
#else
#define ACQUIRE		255
#endif
#ifdef NO_WRITER_FENCE
#define WRITER_FENCE	0
#else
#define WRITER_FENCE	255
#endif
#ifdef NO_READER_FENCE
#define READER_FENCE	0
#else
#define READER_FENCE	255
#endif

/* Access K (a bit) of a thread: happens once, after those in AFTER. ALL ends the thread. */
#define ACCESS(K, AFTER, WHAT) \
	:: d_step { !(done & (K)) && (done & (AFTER)) == (AFTER) -> WHAT; done = done | (K) }
#define THREAD(ALL)	:: done == (ALL) -> break

byte finished;

#ifdef PUBLISH
/*
 * C1, S3, D1, Y1, M2, B1 to B4, K4, K7, O1, R1: what was written before the word is seen by whoever
 * sees the word.
 */
byte data, word;

active proctype writer()
{
	byte done;

	do
	ACCESS(1, 0, data = 1)
	ACCESS(2, 1 & RELEASE, word = 1)
	THREAD(3)
	od;
	finished++
}

active proctype reader()
{
	byte done, seen, got;

	do
	ACCESS(1, 0, seen = word)
	ACCESS(2, 1 & ACQUIRE, got = data)
	THREAD(3)
	od;
	finished++;
	assert(!seen || got)	/* not what was before it */
}
#endif

#ifdef GIVE_BACK
/*
 * S1, S2: the reader has read a sub-buffer and gives it back by its take; the writer that finds it
 * writes it. The writer's acquire keeps the compiler from moving its stores up: a CPU does not
 * perform a store before the branch that decides about it.
 */
byte data, slot;

active proctype reader()
{
	byte done, got;

	do
	ACCESS(1, 0, got = data)
	ACCESS(2, 1 & RELEASE, slot = 1)
	THREAD(3)
	od;
	finished++;
	assert(!got)		/* not the next lap's event */
}

active proctype writer()
{
	byte done, seen;

	do
	ACCESS(1, 0, seen = slot)
	ACCESS(2, 1, data = (seen -> 1 : data))
	THREAD(3)
	od;
	finished++
}
#endif

#ifdef ODD_WHILE_CHANGED
/* M1, K3, K6, K8, R3: a word that is odd during a change; a copy between two equal even loads is whole. */
byte seq, a, b;

active proctype writer()
{
	byte done;

	do
	ACCESS(1, 0, seq = 1)
	ACCESS(2, 1 & WRITER_FENCE, a = 1)
	ACCESS(4, 1 & WRITER_FENCE, b = 1)
	ACCESS(8, 1 | (6 & RELEASE), seq = 2)		/* the same word as 1 */
	THREAD(15)
	od;
	finished++
}

active proctype reader()
{
	byte done, before, got_a, got_b, later;

	do
	ACCESS(1, 0, before = seq)
	ACCESS(2, 1 & ACQUIRE, got_a = a)
	ACCESS(4, 1 & ACQUIRE, got_b = b)
	ACCESS(8, 1 | (6 & READER_FENCE), later = seq)	/* the same word as 1 */
	THREAD(15)
	od;
	finished++;
	assert((before & 1) || before != later || (got_a == got_b && got_a == before / 2))	/* the copy is whole */
}
#endif

#ifdef LATCH
/* L1: two copies; the low bit of seq selects the one that does not change. NO_ACQUIRE: of the copy's words. */
byte seq, a[2], b[2];

active proctype writer()
{
	byte done;

	do
	ACCESS(1, 0, seq = 1)
	ACCESS(2, 1 & WRITER_FENCE, a[0] = 1)
	ACCESS(4, 1 & WRITER_FENCE, b[0] = 1)
	ACCESS(8, 1 | (6 & RELEASE), seq = 2)
	ACCESS(16, 15 & WRITER_FENCE, a[1] = 1)
	ACCESS(32, 15 & WRITER_FENCE, b[1] = 1)
	THREAD(63)
	od;
	finished++
}

active proctype reader()
{
	byte done, before, got_a, got_b, later;

	do
	ACCESS(1, 0, before = seq)
	ACCESS(2, 1, got_a = a[before & 1])		/* seq gives the address */
	ACCESS(4, 1, got_b = b[before & 1])
	ACCESS(8, 1 | (6 & ACQUIRE), later = seq)
	THREAD(15)
	od;
	finished++;
	assert(before != later || got_a == got_b)	/* the copy is whole */
}
#endif

#ifdef WAKE
/*
 * W1: the writer opens the next slot, then checks for a request; the agent requests, then checks the slot.
 * NO_WRITER_FENCE: a compare-and-swap that is only an acquire and a release, whose store may happen
 * after a later load.
 */
byte slot, request;
bool slept, silent;

active proctype writer()
{
	byte done, seen;

	do
	ACCESS(1, 0, slot = 1)
	ACCESS(2, 1 & WRITER_FENCE, seen = request)
	THREAD(3)
	od;
	silent = !seen;
	finished++
}

active proctype agent()
{
	byte done, seen;

	do
	ACCESS(1, 0, request = 1)
	ACCESS(2, 1 & READER_FENCE, seen = slot)
	THREAD(3)
	od;
	slept = !seen;
	finished++
}

active proctype check()
{
	finished == 2 -> assert(!slept || !silent)	/* one of them notices */
}
#endif

#ifdef INCARNATION
/* R2: bytes of a region's next incarnation never pass for the former one's. */
byte state, incarnation, data;		/* state: LIVE is 0 */

active proctype guest()
{
	byte done;

	do
	ACCESS(1, 0, state = 1)
	ACCESS(2, 1 & WRITER_FENCE, incarnation = 1)
	ACCESS(4, 3 & WRITER_FENCE, data = 1)
	ACCESS(8, 1 | (7 & RELEASE), state = 0)
	THREAD(15)
	od;
	finished++
}

active proctype agent()
{
	byte done, got, later, in_state;

	do
	ACCESS(1, 0, got = data)
	ACCESS(2, 1 & READER_FENCE, in_state = state)
	ACCESS(4, 1 & READER_FENCE, later = incarnation)
	THREAD(7)
	od;
	finished++;
	assert(!got || in_state || later)		/* seen to be of the next one */
}
#endif

#ifdef PING
/*
 * K1, K2: the counter is read between the two host times of a round trip. NO_READER_FENCE: the guest reads its
 * counter without waiting for the ping's load; NO_WRITER_FENCE: the agent its second time likewise.
 */
byte now, ping, pong, counter, h1, h2;
bool answered;

active proctype time()
{
	do
	:: now < 3 -> now++
	:: break
	od
}

active proctype agent()
{
	byte done;

	do
	ACCESS(1, 0, h1 = now)
	ACCESS(2, 1 & RELEASE, ping = 1)
	ACCESS(4, 0, answered = pong)
	ACCESS(8, 1 | (4 & WRITER_FENCE), h2 = now)
	THREAD(15)
	od;
	finished++
}

active proctype guest()
{
	byte done, asked, read_at;

	do
	ACCESS(1, 0, asked = ping)
	ACCESS(2, 1 & READER_FENCE, read_at = now)
	ACCESS(4, 3, counter = read_at)			/* the store's data; and a branch */
	ACCESS(8, 1 | (6 & ACQUIRE), pong = asked)	/* NO_ACQUIRE: no release of the pong */
	THREAD(15)
	od;
	finished++
}

active proctype check()
{
	finished == 2 -> assert(!answered || (h1 <= counter && counter <= h2))	/* the bound holds */
}
#endif

#ifdef HOST_TIME
/* K5: the counter that the guest notes is not earlier than the host time that it saw. */
byte now, host_ns;

active proctype time()
{
	do
	:: now < 3 -> now++
	:: break
	od
}

active proctype agent()
{
	byte done, read_at;

	do
	ACCESS(1, 0, read_at = now)
	ACCESS(2, 1, host_ns = read_at)			/* the store's data */
	THREAD(3)
	od;
	finished++
}

active proctype guest()
{
	byte done, seen, counter;

	do
	ACCESS(1, 0, seen = host_ns)
	ACCESS(2, 1 & READER_FENCE, counter = now)
	THREAD(3)
	od;
	finished++;
	assert(counter >= seen)				/* the bound holds */
}
#endif
