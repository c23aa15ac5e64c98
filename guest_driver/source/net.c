// SPDX-License-Identifier: GPL-2.0
/*
 * Probes of the events of networking.
 */
#include <linux/init.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/sock_diag.h>
#include <net/ipv6.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "guest_driver/source/group.h"

/* The kernel's own is not exported. */
static const char *braid_netdev_driver_name(const struct net_device *dev)
{
	const struct device *parent = dev->dev.parent;

	return parent && parent->driver && parent->driver->name ? parent->driver->name : "";
}

#define netdev_drivername(dev)	braid_netdev_driver_name(dev)

/* The function that assigns a socket's cookie is not exported: 0 until it has one. */
#define sock_gen_cookie(sk)	((u64)atomic64_read(&(sk)->sk_cookie))

#define BRAID_GROUP	net
#define BRAID_HEADERS	"guest_driver/source/net_headers.h"
#include "guest_driver/source/generate.h"
