// SPDX-License-Identifier: GPL-2.0
/* Reads the boot id through /proc: the kernel exports it to modules nowhere else. */
#include <linux/fs.h>
#include <linux/string.h>
#include <linux/uuid.h>

#include "guest_driver/core/boot_id.h"

void braid_boot_id(u8 id[16])
{
	char text[UUID_STRING_LEN + 2] = "";
	loff_t at = 0;
	struct file *file;
	uuid_t uuid;

	memset(id, 0, 16);
	file = filp_open("/proc/sys/kernel/random/boot_id", O_RDONLY, 0);
	if (IS_ERR(file))
		return;
	if (kernel_read(file, text, sizeof(text) - 1, &at) >= UUID_STRING_LEN &&
	    !uuid_parse(text, &uuid))
		memcpy(id, uuid.b, 16);
	filp_close(file, NULL);
}
