// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Spends known shares of its time in known functions: shares TURNS.
 *
 * In each turn it runs the same loop 5, 3 and 2 times as long in three functions, two of which have
 * one caller. A part is longer than some periods of samples, so that their number in it is known.
 */
#include <stdlib.h>

#define NOINLINE	__attribute__((__noinline__, __noclone__))
#define STEPS		10000000

static volatile unsigned long sink;

/* A function that calls none stores the frame pointer only if it is used there. */
static inline __attribute__((__always_inline__)) void spend(unsigned int parts)
{
	unsigned long k;

	asm volatile("" : : "r" (__builtin_frame_address(0)) : "memory");
	for (k = 0; k < parts * (unsigned long)STEPS; k++)
		sink += k;
}

NOINLINE void spends_half(void)
{
	spend(5);
	asm volatile("" ::: "memory");	/* no tail call */
}

NOINLINE void spends_third(void)
{
	spend(3);
	asm volatile("" ::: "memory");
}

NOINLINE void spends_fifth(void)
{
	spend(2);
	asm volatile("" ::: "memory");
}

NOINLINE void calls_two(void)
{
	spends_half();
	spends_third();
	asm volatile("" ::: "memory");
}

NOINLINE void turn(void)
{
	calls_two();
	spends_fifth();
	asm volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	int turns = argc > 1 ? atoi(argv[1]) : 1;

	while (turns-- > 0)
		turn();
	return 0;
}
