// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The built file and the installed libibverbs: every symbol resolves, the
 * constructor registers what it should, nothing is printed.
 *
 * This program defines the registration function itself (and exports it, so
 * that it is found first) to see what the provider hands over.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "../verbs_private.h"
#include <rdma/metaroce-abi.h>
#include "tap.h"

static const struct verbs_device_ops *registered;
static int registrations;

void verbs_register_driver_34(const struct verbs_device_ops *ops)
{
	registered = ops;
	registrations++;
}

/* The real library, with the provider named in the environment, in a process of its own. */
static void test_silent(const char *path)
{
	static const char suffix[] = "-rdmav34.so";
	char cmd[4096], line[256] = "";
	size_t stem = strlen(path) - strlen(suffix);
	FILE *f;

	snprintf(cmd, sizeof(cmd),
		 "RDMAV_DRIVERS='%.*s' ibv_devices 2>&1 >/dev/null", (int)stem, path);
	f = popen(cmd, "r");
	if (f && !fgets(line, sizeof(line), f))
		line[0] = 0;
	line[strcspn(line, "\n")] = 0;
	/* Without any RDMA device or module libibverbs itself complains. */
	ok(f && (!line[0] || strstr(line, "Failed to get IB devices list")),
	   "ibv_devices is silent with the provider: %s", line);
	if (f)
		pclose(f);
}

int main(void)
{
	const char *path = getenv("PROVIDER");
	void *lib;

	if (!path || strlen(path) < 12) {
		printf("1..0 # SKIP PROVIDER is not set\n");
		return 0;
	}
	ok(dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL) != NULL, "libibverbs loads");
	lib = dlopen(path, RTLD_NOW);
	ok(lib != NULL, "all symbols of the provider resolve: %s",
	   lib ? "yes" : dlerror());
	ok(registrations == 1 && registered && !strcmp(registered->name, "metaroce"),
	   "it registers as metaroce, once");
	ok(registered && registered->match_table[0].u.driver_id == METAROCE_DRIVER_ID,
	   "for its own driver id");
	ok(lib && !dlsym(lib, "mroce_post_send") && !dlsym(lib, "mroce_create_qp"),
	   "it exports nothing");
	test_silent(path);
	return tap_done();
}
