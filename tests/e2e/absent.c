// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Spends its time in two functions, in turns, on a stack of its own: absent TURNS.
 *
 * Their caller's frame is in another page than the second one's, which drops that page: its
 * contents stay in a file of shared memory, but nothing is mapped there until the function returns.
 * Both have a large array, because the frame pointer is above it on x86-64, and below it on arm64.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE	__attribute__((__noinline__, __noclone__))
#define STEPS		10000000
#define STACK_BYTES	(1 << 20)
#define APART_BYTES	(128 << 10)	/* two of the largest pages */

static volatile unsigned long sink;
static void *frame_page;	/* of the caller */
static unsigned long page_bytes;
static int turns;

static inline __attribute__((__always_inline__)) void spend(unsigned int parts)
{
	unsigned long k;

	asm volatile("" : : "r" (__builtin_frame_address(0)) : "memory");
	for (k = 0; k < parts * (unsigned long)STEPS; k++)
		sink += k;
}

NOINLINE void spends_present(void)
{
	spend(3);
	asm volatile("" ::: "memory");	/* no tail call */
}

NOINLINE void spends_absent(void)
{
	char apart[APART_BYTES];

	asm volatile("" : : "r" (apart) : "memory");
	if (madvise(frame_page, page_bytes, MADV_DONTNEED))
		_exit(1);
	spend(7);
	asm volatile("" ::: "memory");
}

NOINLINE void calls_both(void)
{
	char apart[APART_BYTES];

	frame_page = (void *)((unsigned long)__builtin_frame_address(0) & ~(page_bytes - 1));
	asm volatile("" : : "r" (apart) : "memory");
	spends_present();
	spends_absent();
	asm volatile("" ::: "memory");
}

static void work(void)
{
	int k;

	for (k = 0; k < turns; k++)
		calls_both();
}

int main(int argc, char **argv)
{
	static ucontext_t here, there;
	int fd = memfd_create("stack", 0);
	void *stack;

	page_bytes = sysconf(_SC_PAGESIZE);
	turns = argc > 1 ? atoi(argv[1]) : 1;
	if (fd < 0 || ftruncate(fd, STACK_BYTES) || getcontext(&there))
		return 1;
	stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (stack == MAP_FAILED)
		return 1;
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = STACK_BYTES;
	there.uc_link = &here;
	makecontext(&there, work, 0);
	return !!swapcontext(&here, &there);
}
