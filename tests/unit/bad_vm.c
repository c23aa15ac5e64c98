// SPDX-License-Identifier: GPL-2.0-or-later
/* Sets up a VM that is about to break a rule. */
#include <dirent.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host_agent/transport/vhost_user.h"
#include "tests/unit/bad_vm.h"
#include "tests/unit/need.h"

struct bad_vm vm;

static char dir[] = "/tmp/bad_vm.XXXXXX";

static int serve(void *arg)
{
	int ret = braid_endpoint_serve(arg);

	return vm.front.pumped < 0 ? vm.front.pumped : ret;
}

int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int nr = 0;

	while (readdir(d))
		nr++;
	closedir(d);
	return nr;
}

bool fds_come_to(int nr)
{
	int n;

	for (n = 0; n < 10000 && count_fds() != nr; n++)
		usleep(1000);
	return count_fds() == nr;
}

int count_mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];
	int nr = 0;

	while (fgets(line, sizeof(line), file))
		nr += !!strstr(line, "memfd:");
	fclose(file);
	return nr;
}

void bad_vm_init(void)
{
	NEED(mkdtemp(dir));
	snprintf(vm.socket_path, sizeof(vm.socket_path), "%s/socket", dir);
}

void bad_vm_deinit(void)
{
	rmdir(dir);
}

void bad_vm_begin(u64 protocol)
{
	char address[96];

	snprintf(address, sizeof(address), "vhost-user:%s%s", vm.socket_path, vm.options ?: "");
	NEED(!braid_endpoint_open(&vm.endpoint, address));
	/* It is not recorded. */
	((struct braid_vhost_endpoint *)vm.endpoint)->hold_ns = 20000;
	vm.region_fd = memfd_create("region", MFD_CLOEXEC);
	NEED(vm.region_fd >= 0 && !ftruncate(vm.region_fd, REGION_BYTES));
	front_end_init(&vm.front, serve, vm.endpoint);
	vm.front.protocol |= protocol;
	front_end_add_memory(&vm.front, REGION, vm.region_fd, 0, REGION_BYTES);
	front_end_connect(&vm.front, vm.socket_path);
}

void bad_vm_end(void)
{
	front_end_free(&vm.front);
	close(vm.region_fd);
	braid_endpoint_close(vm.endpoint);
}

int bad_vm_serve(void)
{
	return serve(vm.endpoint);
}

bool bad_vm_dropped(void)
{
	int n;

	for (n = 0; n < 100; n++) {
		vm.front.pumped = serve(vm.endpoint);
		if (front_end_receive(&vm.front, 0) < 0)
			return true;
	}
	return false;
}

void bad_vm_send(u32 request, u32 flags, u32 bytes, const void *payload, u32 payload_bytes,
		 u32 nr_fds)
{
	int fds[24];
	u32 k;

	for (k = 0; k < 24; k++)
		fds[k] = vm.region_fd;
	front_end_send(&vm.front, &(struct braid_vhost_header){ request, flags, bytes }, payload,
		       payload_bytes, fds, nr_fds);
}
