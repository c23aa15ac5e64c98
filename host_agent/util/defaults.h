/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is recorded of guests where nothing else is asked for. */
#ifndef BRAID_UTIL_DEFAULTS_H
#define BRAID_UTIL_DEFAULTS_H

#define BRAID_GUEST_EVENTS	"sched,irq"

#endif /* BRAID_UTIL_DEFAULTS_H */
