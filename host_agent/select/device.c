// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads the region of this guest's driver, and sends it commands. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/select/device.h"
#include "host_agent/util/error.h"

#define MARKER_DEVICE	"/dev/tracebraid"	/* that every driver has */

static int device_fail_open(int err)
{
	if (err == EPERM || err == EACCES)
		return braid_fail(-err, "%s: only root can open it, and not in lockdown mode 'confidentiality'",
				  BRAID_SELECT_DEVICE);
	if (err == ENOENT && !access(MARKER_DEVICE, F_OK))
		return braid_fail(-err, "%s does not exist: the loaded driver is too old; update it",
				  BRAID_SELECT_DEVICE);
	if (err == ENOENT)
		return braid_fail(-err, "%s does not exist: load the driver: modprobe tracebraid",
				  BRAID_SELECT_DEVICE);
	return braid_fail(-err, "%s: %s", BRAID_SELECT_DEVICE, strerror(err));
}

static int device_fail_read(int err)
{
	return braid_fail(-err, "%s: %s", BRAID_SELECT_DEVICE, err == ENODEV ?
			  "the driver has no trace memory; the kernel log has the reason" :
			  strerror(err));
}

/* Reads the region from @at, up to its rings. Return: bytes or -errno. */
static ssize_t device_read(const struct braid_select_device *d, u8 *to, u64 room, u64 at)
{
	u64 have = 0;
	ssize_t got = 1;

	while (have < room && (got = pread(d->fd, to + have, room - have, at + have)) > 0)
		have += got;
	return got < 0 ? -errno : (ssize_t)have;
}

int braid_select_renew(struct braid_select_device *d)
{
	ssize_t got = device_read(d, d->mapping->base, d->mapping->bytes, 0);

	return got < 0 ? device_fail_read(-got) : braid_mapping_identify(d->mapping, &d->sb);
}

/* The command in the mailbox of our copy is executed when write() returns. */
static void device_ring(struct braid_endpoint *p)
{
	struct braid_select_device *d = (struct braid_select_device *)p;
	struct braid_mailbox *box =
		braid_mapping_section(d->mapping, &d->sb, BRAID_SECTION_MAILBOX);
	u64 at = d->sb.sections[BRAID_SECTION_MAILBOX].offset;

	if (write(d->fd, box, sizeof(*box)) < 0)
		d->error = device_fail_read(errno);
	/* A probe's event is in the directory then. */
	else if (box->command == BRAID_CMD_PROBE)
		d->error = braid_select_renew(d);
	else if (pread(d->fd, box, sizeof(*box), at) != sizeof(*box))
		d->error = device_fail_read(errno);
}

static const struct braid_endpoint_ops select_endpoint_ops = {
	.scheme = "select:", .ring = device_ring,
};

int braid_select_open(struct braid_select_device *d)
{
	struct braid_superblock sb;
	ssize_t got;
	int err;

	memset(d, 0, sizeof(*d));
	d->endpoint.ops = &select_endpoint_ops;
	d->fd = open(BRAID_SELECT_DEVICE, O_RDWR | O_CLOEXEC);
	if (d->fd < 0)
		return device_fail_open(errno);
	got = device_read(d, (u8 *)&sb, sizeof(sb), 0);
	err = got < 0 ? device_fail_read(-got) : 0;
	if (!err && got < (ssize_t)sizeof(sb))
		err = device_fail_read(EIO);
	if (!err)
		d->mapping = braid_mapping_private(sb.region_bytes, BRAID_SELECT_DEVICE);
	if (!err && !d->mapping)
		err = -ENOMEM;
	err = err ?: braid_select_renew(d);
	if (err)
		braid_select_close(d);
	return err;
}

void braid_select_close(struct braid_select_device *d)
{
	if (!d->endpoint.ops)
		return;
	braid_mapping_close(d->mapping);
	close(d->fd);
	memset(d, 0, sizeof(*d));
}
