/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Test Anything Protocol, one point per ok(). */
#ifndef TAP_H
#define TAP_H

#include <stdio.h>

static int tap_count, tap_failed;

#define ok(cond, ...)							\
	do {								\
		int tap_ok = !!(cond);					\
									\
		printf("%sok %d - ", tap_ok ? "" : "not ", ++tap_count);	\
		printf(__VA_ARGS__);					\
		printf("\n");						\
		if (!tap_ok) {						\
			tap_failed++;					\
			printf("# %s:%d: %s\n", __FILE__, __LINE__, #cond); \
		}							\
		fflush(stdout);						\
	} while (0)

static inline int tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed != 0;
}

#endif
