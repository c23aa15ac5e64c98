// SPDX-License-Identifier: GPL-2.0-or-later
/* The watch over KVM's offsets, on a simulated tracefs: the files it opens, and cleaning up. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <tracefs.h>
#include <unistd.h>

#include "host_agent/clock_sync/kvm.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

static struct {
	int pipe[2];
	u32 busy;		/* times that removing the instance fails */
	bool there, on, freed;
} fake;

#define INSTANCE	((struct tracefs_instance *)&fake)

const char *tracefs_tracing_dir(void)
{
	return "/";
}

bool tracefs_event_file_exists(struct tracefs_instance *instance, const char *system,
			       const char *event, const char *file)
{
	(void)instance, (void)file;
	return !strcmp(system, "kvm") && !strcmp(event, "kvm_write_tsc_offset");
}

struct tracefs_instance *tracefs_instance_create(const char *name)
{
	(void)name;
	fake.there = fake.on = true;
	return INSTANCE;
}

int tracefs_instance_file_write(struct tracefs_instance *instance, const char *file,
				const char *text)
{
	(void)instance, (void)file;
	return strlen(text);
}

int tracefs_instance_set_buffer_size(struct tracefs_instance *instance, size_t size, int cpu)
{
	(void)instance, (void)size, (void)cpu;
	return 0;
}

int tracefs_event_enable(struct tracefs_instance *instance, const char *system, const char *event)
{
	(void)instance, (void)system, (void)event;
	return 0;
}

int tracefs_instance_file_open(struct tracefs_instance *instance, const char *file, int flags)
{
	(void)instance;
	CHECK(!strcmp(file, "trace_pipe"));
	CHECK(flags & O_CLOEXEC);
	NEED(!pipe2(fake.pipe, flags & (O_CLOEXEC | O_NONBLOCK)));
	return fake.pipe[0];
}

int tracefs_trace_off(struct tracefs_instance *instance)
{
	(void)instance;
	fake.on = false;
	return 0;
}

int tracefs_instance_destroy(struct tracefs_instance *instance)
{
	(void)instance;
	if (fake.busy) {
		fake.busy--;
		errno = EBUSY;
		return -1;
	}
	fake.there = false;
	return 0;
}

void tracefs_instance_free(struct tracefs_instance *instance)
{
	(void)instance;
	fake.freed = true;
}

/* An executed child must not hold the instance; a short use by others does not keep it. */
static void busy_for_a_moment(void)
{
	static const char line[] =
		" CPU 0/KVM-1234  [001] d..1. 5000: kvm_write_tsc_offset: vcpu=0 prev=0 next=77\n";
	const struct braid_kvm_change *change;
	struct braid_kvm_watch *w;
	size_t at = 0;

	NEED(!braid_kvm_watch_open(&w));
	CHECK(fcntl(fake.pipe[0], F_GETFD) & FD_CLOEXEC);
	NEED(write(fake.pipe[1], line, sizeof(line) - 1) == sizeof(line) - 1);
	braid_kvm_watch_poll(w);
	change = braid_kvm_watch_next(w, &at);
	CHECK(change && change->tid == 1234 && change->host_counter == 5000 &&
	      change->offset == 77);
	fake.busy = 3;
	braid_kvm_watch_close(w);
	CHECK(!fake.there && !fake.on && fake.freed);
	close(fake.pipe[1]);
}

/* Permanent use: the instance remains, but does not trace. */
static void busy_permanently(void)
{
	struct braid_kvm_watch *w;

	memset(&fake, 0, sizeof(fake));
	NEED(!braid_kvm_watch_open(&w));
	fake.busy = ~0u;
	braid_kvm_watch_close(w);
	CHECK(fake.there && !fake.on && fake.freed);
	close(fake.pipe[1]);
}

int main(void)
{
	RUN(busy_for_a_moment);
	RUN(busy_permanently);
	return VERDICT();
}
