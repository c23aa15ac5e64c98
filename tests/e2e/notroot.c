// SPDX-License-Identifier: GPL-2.0-or-later
/* Runs a program as an ordinary user: notroot PROGRAM [ARGUMENT]... */
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 2 || setgid(65534) || setuid(65534))
		return 2;
	execvp(argv[1], argv + 1);
	return 2;
}
