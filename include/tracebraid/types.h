/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Fixed-width and little-endian integer names of the kernel, for both worlds. */
#ifndef TRACEBRAID_TYPES_H
#define TRACEBRAID_TYPES_H

#ifdef __KERNEL__
#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/types.h>
#else
#include <assert.h>
#include <linux/types.h>	/* __le16, __le32, __le64 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
#endif

#endif /* TRACEBRAID_TYPES_H */
