// SPDX-License-Identifier: GPL-2.0-or-later
/* A guest's region over vhost-user: shared, drained, revoked, found again; doorbells; sockets. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/transport/endpoint.h"
#include "host_agent/util/confine.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/front_end.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"

#define REGION_BYTES	(1u << 20)
#define CHUNK_BYTES	(64u << 10)
#define NR_CHUNKS	(REGION_BYTES / CHUNK_BYTES)
#define HIGH		0x200000000ULL	/* where the guest has the first half of its region */
#define LOW		0x100000000ULL	/* and the second */

static char *socket_path, address[96], region_path[64], *capture_path;

static const struct fake_params usual = {
	.name = "web", .bytes = REGION_BYTES, .nr_vcpus = 2, .subbuf_bytes = 1024, .nr_slots = 64,
};

/* A VM, its guest with a driver, and an agent that records it. */
struct world {
	struct session s;
	struct front_end f;
	struct fake_guest *g;
	struct braid_virtio_chunk chunks[NR_CHUNKS];
};

static int turn(void *arg)
{
	return session_turn(arg);
}

static int serve(void *arg)
{
	return braid_endpoint_serve(arg);
}

/* The region is in chunks with unsorted addresses. */
static void world_init(struct world *w)
{
	u32 k;

	memset(w, 0, sizeof(*w));
	w->g = fake_guest_new(region_path, &usual);
	w->s.guest = w->g;
	front_end_init(&w->f, turn, &w->s);
	front_end_add_memory(&w->f, HIGH, w->g->fd, 0, REGION_BYTES / 2);
	front_end_add_memory(&w->f, LOW, w->g->fd, REGION_BYTES / 2, REGION_BYTES / 2);
	for (k = 0; k < NR_CHUNKS; k++) {
		u64 at = (u64)k * CHUNK_BYTES;

		w->chunks[k].address = at < REGION_BYTES / 2 ? HIGH + at :
							       LOW + at - REGION_BYTES / 2;
		w->chunks[k].bytes = CHUNK_BYTES;
	}
}

static void world_free(struct world *w)
{
	front_end_free(&w->f);
	fake_guest_free(w->g);
}

static bool recording(struct session *s)
{
	return s->status.phase == BRAID_PHASE_RECORDING;
}

static bool is_gone(struct session *s)
{
	return s->status.phase == BRAID_PHASE_GONE;
}

static u64 offered(const struct fake_guest *g)
{
	return g->ctl->offered[0] + g->ctl->offered[1];
}

static void test_life(void)
{
	struct world w;
	u32 *announced, *revoked;
	struct {
		u32 offset, bytes, flags;
		struct braid_virtio_config config;
	} __attribute__((__packed__)) ask = { .bytes = sizeof(ask.config) };

	world_init(&w);
	session_begin(&w.s, address, capture_path, NULL);
	CHECK_EQ(session_turn(&w.s), 0);
	CHECK_EQ(w.s.status.phase, BRAID_PHASE_WAITING);
	front_end_connect(&w.f, socket_path);
	NEED(front_end_start(&w.f));
	CHECK(front_end_ask(&w.f, BRAID_VHOST_GET_CONFIG, &ask, sizeof(ask), -1));
	CHECK_EQ(w.f.reply_bytes, sizeof(ask));
	memcpy(&ask.config, w.f.reply.config.data, sizeof(ask.config));
	CHECK_EQ(ask.config.region_bytes, 2 << 20);
	CHECK(ask.config.region_bytes_max >= ask.config.region_bytes && ask.config.chunks_max);

	announced = front_end_announce(&w.f, w.chunks, NR_CHUNKS);
	fake_guest_write(w.g, 0, 300);
	fake_guest_write(w.g, 1, 200);
	session_until(&w.s, recording);
	session_settle(&w.s);
	CHECK_EQ(front_end_used(&w.f, BRAID_VIRTIO_CONTROLQ), -1);	/* it is kept */
	fake_guest_write(w.g, 0, 100);
	*announced = 99;
	revoked = front_end_revoke(&w.f);
	CHECK_EQ(front_end_await(&w.f, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK(!w.s.source || w.s.status.phase == BRAID_PHASE_DOWN);
	CHECK_EQ(front_end_await(&w.f, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK_EQ(w.f.queues[0].ring.used->ring[0].id, 0);	/* the announcement first */
	CHECK(front_end_called(&w.f, BRAID_VIRTIO_CONTROLQ));
	CHECK_EQ(*revoked, BRAID_VIRTIO_OK);
	CHECK(strstr(w.s.last_note, "took its region back"));
	front_end_hang_up(&w.f);
	session_until(&w.s, is_gone);
	session_end(&w.s);
	CHECK_EQ(w.s.status.events, offered(w.g));
	CHECK_EQ(w.s.status.lost, 0);
	CHECK_EQ(w.s.status.nr_streams, 1);
	world_free(&w);
}

/* The agent is restarted: its successor finds the region at its former place. */
static void test_restart(void)
{
	struct world w;

	world_init(&w);
	session_begin(&w.s, address, capture_path, NULL);
	front_end_connect(&w.f, socket_path);
	NEED(front_end_start(&w.f));
	front_end_announce(&w.f, w.chunks, NR_CHUNKS);
	fake_guest_write(w.g, 0, 500);
	session_until(&w.s, recording);
	session_end(&w.s);
	CHECK_EQ(w.s.status.events, 500);
	CHECK_EQ(front_end_used(&w.f, BRAID_VIRTIO_CONTROLQ), -1);
	CHECK(access(socket_path, F_OK));

	fake_guest_write(w.g, 0, 321);
	front_end_hang_up(&w.f);
	memset(&w.s, 0, sizeof(w.s));
	session_begin(&w.s, address, capture_path, NULL);
	front_end_connect(&w.f, socket_path);
	NEED(front_end_start(&w.f));
	session_until(&w.s, recording);
	fake_guest_write(w.g, 1, 79);
	front_end_revoke(&w.f);
	CHECK_EQ(front_end_await(&w.f, BRAID_VIRTIO_CONTROLQ), 4);
	session_end(&w.s);
	CHECK_EQ(w.s.status.events, 400);
	CHECK_EQ(w.s.status.lost, 0);
	world_free(&w);
}

/* The restarted agent finds a guest that waits for the release. */
static void test_restart_in_unload(void)
{
	struct world w;
	u32 *revoked;

	world_init(&w);
	session_begin(&w.s, address, capture_path, NULL);
	front_end_connect(&w.f, socket_path);
	NEED(front_end_start(&w.f));
	front_end_announce(&w.f, w.chunks, NR_CHUNKS);
	session_until(&w.s, recording);
	session_end(&w.s);

	fake_guest_write(w.g, 0, 321);
	front_end_hang_up(&w.f);
	revoked = front_end_revoke(&w.f);
	*revoked = 99;
	memset(&w.s, 0, sizeof(w.s));
	session_begin(&w.s, address, capture_path, NULL);
	front_end_connect(&w.f, socket_path);
	NEED(front_end_start(&w.f));
	CHECK_EQ(front_end_await(&w.f, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK_EQ(front_end_await(&w.f, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK_EQ(*revoked, BRAID_VIRTIO_OK);
	session_end(&w.s);
	CHECK_EQ(w.s.status.events, 321);
	CHECK_EQ(w.s.status.lost, 0);
	world_free(&w);
}

/* Another VM in place of one that has gone. */
static void replace_vm(struct world *w)
{
	struct session s = w->s;

	world_free(w);
	world_init(w);
	s.guest = w->g;
	w->s = s;
}

/* The VM dies: all that its guest wrote is read, nothing is written. Another one connects. */
static void test_death(void)
{
	static u8 before[REGION_BYTES];
	struct world w;

	world_init(&w);
	session_begin(&w.s, address, capture_path, NULL);
	front_end_connect(&w.f, socket_path);
	NEED(front_end_start(&w.f));
	front_end_announce(&w.f, w.chunks, NR_CHUNKS);
	session_until(&w.s, recording);
	fake_guest_write(w.g, 0, 700);
	memcpy(before, w.g->base, REGION_BYTES);
	front_end_hang_up(&w.f);
	session_until(&w.s, is_gone);
	CHECK_EQ(w.s.status.events, 700);
	CHECK(!memcmp(before, w.g->base, REGION_BYTES));
	CHECK(strstr(w.s.last_note, "closed the connection"));

	replace_vm(&w);
	front_end_connect(&w.f, socket_path);
	NEED(front_end_start(&w.f));
	front_end_announce(&w.f, w.chunks, NR_CHUNKS);
	session_until(&w.s, recording);
	fake_guest_write(w.g, 0, 300);
	session_settle(&w.s);
	session_end(&w.s);
	CHECK_EQ(w.s.status.events, 1000);
	CHECK_EQ(w.s.status.lost, 0);
	CHECK_EQ(w.s.status.nr_streams, 2);
	world_free(&w);
}

/* A VM that is disconnected and reconnects is read from the same position: no duplicates. */
static void test_fault(void)
{
	static u8 before[REGION_BYTES];
	struct world w;

	world_init(&w);
	session_begin(&w.s, address, capture_path, NULL);
	front_end_connect(&w.f, socket_path);
	NEED(front_end_start(&w.f));
	front_end_announce(&w.f, w.chunks, NR_CHUNKS);
	session_until(&w.s, recording);
	fake_guest_write(w.g, 0, 250);
	session_settle(&w.s);
	fake_guest_write(w.g, 0, 250);
	memcpy(before, w.g->base, REGION_BYTES);
	NEED(front_end_send(&w.f, &(struct braid_vhost_header){ 99, 1, 0 }, NULL, 0, NULL, 0));
	session_until(&w.s, is_gone);
	CHECK_EQ(w.s.status.events, 250);
	CHECK(!memcmp(before, w.g->base, REGION_BYTES));
	CHECK(strstr(w.s.last_note, "connection was closed"));

	front_end_hang_up(&w.f);
	front_end_connect(&w.f, socket_path);
	NEED(front_end_start(&w.f));
	session_until(&w.s, recording);
	fake_guest_write(w.g, 0, 100);
	session_settle(&w.s);
	session_end(&w.s);
	CHECK_EQ(w.s.status.events, offered(w.g));
	CHECK_EQ(w.s.status.lost, 0);
	CHECK_EQ(w.s.status.nr_streams, 2);
	world_free(&w);
}

/* A paused VM stops its devices. The answer is sent when the region has been released. */
static void test_pause(void)
{
	struct world w;
	int n;

	world_init(&w);
	session_begin(&w.s, address, capture_path, NULL);
	front_end_connect(&w.f, socket_path);
	NEED(front_end_start(&w.f));
	front_end_announce(&w.f, w.chunks, NR_CHUNKS);
	for (n = 0; n < 3; n++) {
		session_until(&w.s, recording);
		fake_guest_write(w.g, n & 1, 400);
		CHECK(front_end_stop(&w.f));
		CHECK_EQ(w.s.status.phase, BRAID_PHASE_DOWN);
		CHECK_EQ(w.s.status.events, 400 * (n + 1));
		NEED(front_end_start(&w.f));
	}
	session_until(&w.s, recording);
	session_end(&w.s);
	CHECK_EQ(w.s.status.events, offered(w.g));
	CHECK_EQ(w.s.status.nr_streams, 4);
	CHECK_EQ(front_end_used(&w.f, BRAID_VIRTIO_CONTROLQ), -1);
	world_free(&w);
}

/* Memory that stays at its place has no effect; else the region is mapped again. */
static void test_memory_moves(void)
{
	struct world w;

	world_init(&w);
	session_begin(&w.s, address, capture_path, NULL);
	front_end_connect(&w.f, socket_path);
	NEED(front_end_start(&w.f));
	front_end_announce(&w.f, w.chunks, NR_CHUNKS);
	session_until(&w.s, recording);
	fake_guest_write(w.g, 0, 100);
	w.f.nr_more++;		/* another entry */
	w.f.more[2] = w.f.more[0];
	w.f.more[2].guest_address = w.f.more[2].user_address = 1ULL << 40;
	w.f.more_fds[2] = w.f.more_fds[0];
	CHECK(front_end_set_memory(&w.f));
	session_settle(&w.s);
	CHECK_EQ(w.s.status.nr_streams, 1);
	CHECK_EQ(w.s.status.phase, BRAID_PHASE_RECORDING);

	w.f.more[0].offset = REGION_BYTES / 2;	/* both halves change places: no region there */
	w.f.more[1].offset = 0;
	CHECK(front_end_set_memory(&w.f));
	session_settle(&w.s);
	CHECK_EQ(w.s.status.phase, BRAID_PHASE_DOWN);
	w.f.more[0].offset = 0;
	w.f.more[1].offset = REGION_BYTES / 2;
	CHECK(front_end_set_memory(&w.f));
	session_until(&w.s, recording);
	CHECK_EQ(w.s.status.nr_streams, 2);
	session_end(&w.s);
	CHECK_EQ(w.s.status.events, 100);
	world_free(&w);
}

/* A mapping of a former connection is closed before the next one is made. */
static void test_port(void)
{
	struct pollfd fds[BRAID_ENDPOINT_FDS];
	struct braid_mapping *m, *other;
	struct braid_endpoint *p;
	struct world w;

	world_init(&w);
	NEED(!braid_endpoint_open(&p, address));
	CHECK(braid_endpoint_has_scheme(address));
	CHECK(!braid_endpoint_has_scheme(socket_path));
	w.f.pump = serve;
	w.f.pump_arg = p;
	CHECK_EQ(braid_endpoint_map(p, &m), -ENOTCONN);
	front_end_connect(&w.f, socket_path);
	NEED(front_end_start(&w.f));
	CHECK_EQ(braid_endpoint_map(p, &m), -ENODATA);
	front_end_announce(&w.f, w.chunks, NR_CHUNKS);
	CHECK(braid_endpoint_serve(p) >= 0);
	NEED(!braid_endpoint_map(p, &m));
	CHECK(m->bytes == REGION_BYTES && m->qemu_pid == getpid() && m->fd == -1 && m->writable);
	CHECK(!memcmp(m->base, w.g->base, REGION_BYTES));
	CHECK(!braid_mapping_gone(m));
	front_end_hang_up(&w.f);
	CHECK_EQ(braid_endpoint_serve(p), 0);
	CHECK(braid_mapping_gone(m) && !m->taken_back);
	CHECK(!memcmp(m->base, w.g->base, REGION_BYTES));

	front_end_connect(&w.f, socket_path);
	CHECK(front_end_send(&w.f, &(struct braid_vhost_header){ BRAID_VHOST_GET_FEATURES, 1, 0 },
			     NULL, 0, NULL, 0));
	CHECK_EQ(braid_endpoint_serve(p), 0);
	CHECK_EQ(front_end_receive(&w.f, BRAID_VHOST_GET_FEATURES), 0);
	braid_mapping_close(m);
	CHECK_EQ(braid_endpoint_serve(p), 0);
	CHECK_EQ(front_end_receive(&w.f, BRAID_VHOST_GET_FEATURES), 1);
	NEED(front_end_start(&w.f));
	NEED(!braid_endpoint_map(p, &m));
	/* Revoked: the buffers are returned when it is closed, and not before. */
	front_end_revoke(&w.f);
	CHECK(braid_endpoint_serve(p) >= 0);
	CHECK(braid_mapping_gone(m) && m->taken_back);
	CHECK_EQ(front_end_used(&w.f, BRAID_VIRTIO_CONTROLQ), -1);
	CHECK_EQ(braid_endpoint_map(p, &other), -ENODATA);
	CHECK_EQ(poll(fds, braid_endpoint_fds(p, fds), 0), 0);
	braid_mapping_close(m);
	CHECK_EQ(poll(fds, braid_endpoint_fds(p, fds), 0), 1);
	CHECK_EQ(front_end_await(&w.f, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK_EQ(front_end_await(&w.f, BRAID_VIRTIO_CONTROLQ), 4);
	braid_endpoint_close(p);
	world_free(&w);
}

/* The agent rings, with or without a buffer for it. */
static void check_agent_rings(struct world *w, struct braid_endpoint *p)
{
	struct braid_virtio_notice *notices[2];
	u32 k;

	braid_endpoint_ring(p);
	CHECK_EQ(front_end_used(&w->f, BRAID_VIRTIO_NOTIFYQ), -1);
	for (k = 0; k < 2; k++) {
		notices[k] = (void *)front_end_put(&w->f, BRAID_VIRTIO_NOTIFYQ, NULL, 0, 4);
		notices[k]->event = 77;
	}
	braid_endpoint_serve(p);
	CHECK_EQ(front_end_used(&w->f, BRAID_VIRTIO_NOTIFYQ), -1);
	braid_endpoint_ring(p);
	CHECK_EQ(front_end_used(&w->f, BRAID_VIRTIO_NOTIFYQ), 4);
	CHECK_EQ(notices[0]->event, BRAID_VIRTIO_WAKE);
	CHECK(front_end_called(&w->f, BRAID_VIRTIO_NOTIFYQ));
	CHECK_EQ(notices[1]->event, 77);
	w->f.queues[BRAID_VIRTIO_NOTIFYQ].ring.avail->flags = VRING_AVAIL_F_NO_INTERRUPT;
	braid_endpoint_ring(p);
	CHECK_EQ(front_end_used(&w->f, BRAID_VIRTIO_NOTIFYQ), 4);
	CHECK(!front_end_called(&w->f, BRAID_VIRTIO_NOTIFYQ));
	w->f.queues[BRAID_VIRTIO_NOTIFYQ].ring.avail->flags = 0;
	CHECK(front_end_ask_value(&w->f, BRAID_VHOST_SET_VRING_CALL,
				  BRAID_VHOST_NO_FD | BRAID_VIRTIO_NOTIFYQ, -1));
	front_end_put(&w->f, BRAID_VIRTIO_NOTIFYQ, NULL, 0, 4);
	braid_endpoint_ring(p);
	CHECK_EQ(front_end_used(&w->f, BRAID_VIRTIO_NOTIFYQ), 4);
	CHECK(!front_end_called(&w->f, BRAID_VIRTIO_NOTIFYQ));
}

static void check_doorbells(u64 protocol)
{
	struct braid_endpoint *p;
	struct pollfd fds[BRAID_ENDPOINT_FDS];
	struct world w;
	size_t nr;

	world_init(&w);
	NEED(!braid_endpoint_open(&p, address));
	w.f.pump = serve;
	w.f.pump_arg = p;
	w.f.protocol |= protocol;
	CHECK_EQ(braid_endpoint_doorbell(p), 0);
	CHECK(braid_endpoint_fds(p, fds) == 1 && poll(fds, 1, 0) == 0);
	front_end_connect(&w.f, socket_path);
	CHECK(poll(fds, 1, 0) == 1);
	NEED(front_end_start(&w.f));
	CHECK_EQ(braid_endpoint_doorbell(p), 1);
	braid_endpoint_serve(p);
	nr = braid_endpoint_fds(p, fds);
	CHECK(nr == (protocol ? 1 : 3) && poll(fds, nr, 0) == 0);

	/* The guest rings: reported once. */
	front_end_kick(&w.f, BRAID_VIRTIO_NOTIFYQ);
	if (!protocol) {
		CHECK(poll(fds, nr, 0) == 1);
		CHECK_EQ(braid_endpoint_serve(p), 1);
	} else {
		CHECK_EQ(w.f.pumped, 1);
	}
	CHECK_EQ(braid_endpoint_serve(p), 0);
	front_end_kick(&w.f, BRAID_VIRTIO_CONTROLQ);
	CHECK_EQ(protocol ? w.f.pumped : braid_endpoint_serve(p), 0);

	check_agent_rings(&w, p);
	CHECK(front_end_stop(&w.f));
	CHECK_EQ(braid_endpoint_doorbell(p), 0);
	braid_endpoint_ring(p);
	braid_endpoint_close(p);
	world_free(&w);
}

static void test_doorbells(void)
{
	check_doorbells(0);
}

static void test_inband(void)
{
	check_doorbells(FRONT_INBAND);
}

static int try_open(const char *at)
{
	struct braid_endpoint *p;
	int err = braid_endpoint_open(&p, at);

	if (!err)
		braid_endpoint_close(p);
	return err;
}

static void test_addresses(void)
{
	static const char *const bad[] = { ",size=", ",size=0", ",size=4095", ",size=2G",
					   ",size=1T", ",shm=x", ",other=1", NULL };
	struct braid_endpoint *p;
	struct stat st;
	char text[160];
	u32 k;

	CHECK_EQ(try_open("vhost-user:"), -EINVAL);
	for (k = 0; bad[k]; k++) {
		snprintf(text, sizeof(text), "vhost-user:%s%s", socket_path, bad[k]);
		CHECK_EQ(try_open(text), -EINVAL);
		CHECK(access(socket_path, F_OK));
	}
	NEED(!braid_endpoint_open(&p, address));
	CHECK(!stat(socket_path, &st) && S_ISSOCK(st.st_mode) && !(st.st_mode & 0007));
	CHECK_EQ(try_open(address), -EADDRINUSE);
	CHECK_EQ(braid_endpoint_serve(p), 0);	/* that turn was a client that disconnected */
	CHECK_EQ(braid_endpoint_serve(p), 0);
	braid_endpoint_close(p);
	CHECK(access(socket_path, F_OK));
}

static int wait_a_little(void *arg)
{
	(void)arg;
	return usleep(100);
}

/* A fully confined agent, like record once its sockets exist. */
static void be_confined(void)
{
	struct braid_mapping *m = NULL;
	struct braid_endpoint *p;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	NEED(!braid_endpoint_open(&p, address) && !braid_endpoint_allow(p) &&
	     !braid_confine(BRAID_CONFINE_RECORD, NULL));
	for (;;) {
		braid_endpoint_serve(p);
		if (!m && !braid_endpoint_map(p, &m))
			braid_store(&m->base[0], 77);
		if (m && braid_mapping_gone(m)) {
			braid_mapping_close(m);
			m = NULL;
		}
		braid_endpoint_ring(p);
		usleep(100);
	}
}

static void test_confined(void)
{
	struct world w;
	pid_t pid = fork();

	if (!pid)
		be_confined();
	world_init(&w);
	w.f.pump = wait_a_little;
	while (!front_end_try_connect(&w.f, socket_path)) {
		NEED(!waitpid(pid, NULL, WNOHANG));
		usleep(100);
	}
	NEED(front_end_start(&w.f));
	front_end_announce(&w.f, w.chunks, NR_CHUNKS);
	front_end_put(&w.f, BRAID_VIRTIO_NOTIFYQ, NULL, 0, 4);
	CHECK_EQ(front_end_await(&w.f, BRAID_VIRTIO_NOTIFYQ), 4);
	while (braid_load(&w.g->base[0]) != 77 && !waitpid(pid, NULL, WNOHANG))
		usleep(100);
	front_end_revoke(&w.f);
	CHECK_EQ(front_end_await(&w.f, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK_EQ(front_end_await(&w.f, BRAID_VIRTIO_CONTROLQ), 4);
	CHECK(front_end_stop(&w.f));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(socket_path);
	world_free(&w);
}

int main(void)
{
	socket_path = scratch("socket");
	snprintf(address, sizeof(address), "vhost-user:%s,size=2M", socket_path);
	snprintf(region_path, sizeof(region_path), "/dev/shm/test_vhost_user.%d", getpid());
	capture_path = scratch("capture");
	RUN(test_life);
	RUN(test_restart);
	RUN(test_restart_in_unload);
	RUN(test_death);
	RUN(test_fault);
	RUN(test_pause);
	RUN(test_memory_moves);
	RUN(test_port);
	RUN(test_doorbells);
	RUN(test_inband);
	RUN(test_addresses);
	RUN(test_confined);
	return VERDICT();
}
