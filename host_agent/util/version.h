/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The version of agent and library; guest_driver/dkms.conf has the same. */
#ifndef BRAID_UTIL_VERSION_H
#define BRAID_UTIL_VERSION_H

#define BRAID_AGENT_VERSION	"0.1.0"

#endif /* BRAID_UTIL_VERSION_H */
