/* SPDX-License-Identifier: GPL-2.0 */
/* Why a command of the host is refused: a line for the host's user. */
#ifndef BRAID_EVENT_REFUSAL_H
#define BRAID_EVENT_REFUSAL_H

#include <linux/printk.h>
#include <linux/stdarg.h>

#include "tracebraid/abi.h"

struct braid_refusal {
	char text[BRAID_REASON_BYTES];
};

/** braid_refuse - set the reason. Return: @err */
static inline __printf(3, 4) int braid_refuse(struct braid_refusal *refusal, int err,
					      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(refusal->text, sizeof(refusal->text), format, args);
	va_end(args);
	return err;
}

#endif /* BRAID_EVENT_REFUSAL_H */
