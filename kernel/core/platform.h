/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The only header of kernel/core that knows where it is compiled: fixed-width
 * types, byte order, bit operations, assertions.  Everything else in core is
 * plain C without allocation, locks, clock or output (rule R2).
 */
#ifndef MROCE_CORE_PLATFORM_H
#define MROCE_CORE_PLATFORM_H

#ifdef __KERNEL__

#include <linux/bitops.h>
#include <linux/bug.h>
#include <linux/build_bug.h>
#include <linux/byteorder/generic.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/overflow.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/types.h>

/* A broken invariant of the core: reported once, never fatal. */
#define mroce_assert(cond) ((void)WARN_ON_ONCE(!(cond)))

#else /* user space: unit tests, fuzzers, simulator, library */

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <linux/types.h>	/* __be16, __be32, __be64 */

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

#define cpu_to_be16(x) ((__be16)__builtin_bswap16(x))
#define cpu_to_be32(x) ((__be32)__builtin_bswap32(x))
#define cpu_to_be64(x) ((__be64)__builtin_bswap64(x))
#define be16_to_cpu(x) ((u16)__builtin_bswap16(x))
#define be32_to_cpu(x) ((u32)__builtin_bswap32(x))
#define be64_to_cpu(x) ((u64)__builtin_bswap64(x))
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the user-space build of kernel/core expects a little-endian machine"
#endif

#ifndef __packed
#define __packed __attribute__((__packed__))
#endif
#ifndef __always_unused
#define __always_unused __attribute__((__unused__))
#endif
#ifndef __must_check
#define __must_check __attribute__((__warn_unused_result__))
#endif
#ifdef __cplusplus
#define static_assert_core(e, m) static_assert(e, m)
#else
#define static_assert_core(e, m) _Static_assert(e, m)
#endif

#define mroce_assert(cond) assert(cond)

#define min_t(t, a, b) ((t)(a) < (t)(b) ? (t)(a) : (t)(b))
#define max_t(t, a, b) ((t)(a) > (t)(b) ? (t)(a) : (t)(b))
#define clamp_t(t, v, lo, hi) min_t(t, max_t(t, v, lo), hi)

static inline u64 div64_u64(u64 a, u64 b)
{
	return a / b;
}

static inline u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 c)
{
	return (u64)((unsigned __int128)a * b / c);
}

static inline unsigned int hweight64(u64 w)
{
	return (unsigned int)__builtin_popcountll(w);
}

/* Index of the least significant set bit; undefined for 0. */
static inline unsigned long __ffs64(u64 w)
{
	return (unsigned long)__builtin_ctzll(w);
}

/* One more than the index of the most significant set bit; 0 for 0. */
static inline int fls64(u64 w)
{
	return w ? 64 - __builtin_clzll(w) : 0;
}

#endif /* __KERNEL__ */

#ifdef __KERNEL__
#define static_assert_core(e, m) static_assert(e, m)
#endif

#endif
