// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Boots another kernel without the firmware, in the guest: kexec KERNEL INITRD COMMAND-LINE loads
 * it, kexec alone boots it.
 */
#include <fcntl.h>
#include <linux/reboot.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int load(char **argv)
{
	int kernel = open(argv[1], O_RDONLY), initrd = open(argv[2], O_RDONLY);

	if (kernel < 0 || initrd < 0) {
		perror("open");
		return 1;
	}
	if (syscall(SYS_kexec_file_load, kernel, initrd, strlen(argv[3]) + 1, argv[3], 0L)) {
		perror("kexec_file_load");
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4)
		return load(argv);
	syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_KEXEC, NULL);
	perror("reboot");
	return 1;
}
