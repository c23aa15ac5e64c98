/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The version of driver, agent, library, man pages and packages; see docs/releasing.md. */
#ifndef BRAID_SHARED_VERSION_H
#define BRAID_SHARED_VERSION_H

#define BRAID_VERSION	"1.0.0"

#endif /* BRAID_SHARED_VERSION_H */
