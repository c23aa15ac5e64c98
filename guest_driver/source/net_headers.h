/* SPDX-License-Identifier: GPL-2.0 */
/* Trace headers of the net group: networking. No guard: read once per pass. */
#include <trace/events/net.h>
#include <trace/events/napi.h>
#include <trace/events/skb.h>
#include <trace/events/sock.h>
#include <trace/events/tcp.h>
#include <trace/events/udp.h>
#include <trace/events/icmp.h>
#include <trace/events/qdisc.h>
#include <trace/events/netlink.h>
#include <trace/events/page_pool.h>
#include <trace/events/xdp.h>
