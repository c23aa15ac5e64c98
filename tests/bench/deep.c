// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Has the module deep spend time at a known depth of both stacks: deep DEPTH STEPS
 *
 * Compiled with frame pointers and without libc, whose frames have none.
 */
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define BYTES	4096

void begin(const long *stack);

/* The outermost frame: its caller's address is 0. */
asm(".globl _start\n_start: xor %ebp, %ebp; mov %rsp, %rdi; call begin; hlt");

static long call(long number, long a, long b, long c, long d)
{
	register long r10 asm("r10") = d, r8 asm("r8") = -1, r9 asm("r9") = 0;
	long ret;

	if (number == SYS_mmap)		/* of a file, its first page */
		r8 = a, a = 0;
	asm volatile("syscall" : "=a" (ret)
		     : "0" (number), "D" (a), "S" (b), "d" (c), "r" (r10), "r" (r8), "r" (r9)
		     : "rcx", "r11", "memory");
	return ret;
}

/* The innermost of @more + 1 frames makes the system call. */
__attribute__((noinline)) static long deeper(long more, int fd, void *page, long depth)
{
	long ret = more ? deeper(more - 1, fd, page, depth) :
			  call(SYS_write, fd, (long)page, depth, 0);

	asm volatile("" ::: "memory");	/* no tail call */
	return ret;
}

static long number(const char *text)
{
	long n = 0;

	while (*text)
		n = 10 * n + *text++ - '0';
	return n;
}

void begin(const long *stack)
{
	long depth = number((const char *)stack[2]), steps = number((const char *)stack[3]), page;
	int fd = call(SYS_open, (long)"/dev/deep", O_RDWR, 0, 0);

	page = call(SYS_mmap, fd, BYTES, PROT_READ, MAP_SHARED);
	call(SYS_read, fd, page, steps, 0);
	/* Beside the frames of deeper(): those of this function and of _start. */
	call(SYS_exit, deeper(depth - 3, fd, (void *)page, depth) != -14, 0, 0, 0);
}
