// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The process that writes a capture: a file that stalls, one that fails, and an agent that is
 * killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/capture/packer.h"
#include "host_agent/capture/queue.h"
#include "host_agent/cli/check.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"

#define STREAM_BYTES	(200ULL << 20)	/* several times the queue */
#define EVENTS		30000u		/* of each vCPU; the rings hold them */
#define FILLER_TYPE	0x7ffu		/* a chunk type that readers do not know */

int main(void);

static char *region_path, *capture_path;
static int level;		/* of zstd: the file is packed; 0: it is not */

static const struct fake_params usual = {
	.name = "fake", .bytes = 16 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 512,
};

/* A file that stalls on request, and fails after a number of bytes. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stalls;
	bool waits;		/* a write is stalled */
	u64 left;		/* bytes until ENOSPC */
} disk = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false, ~0ULL };

static void set_stalls(bool stalls)
{
	pthread_mutex_lock(&disk.lock);
	disk.stalls = stalls;
	pthread_cond_broadcast(&disk.changed);
	pthread_mutex_unlock(&disk.lock);
}

static void await_stall(void)
{
	pthread_mutex_lock(&disk.lock);
	while (!disk.waits)
		pthread_cond_wait(&disk.changed, &disk.lock);
	pthread_mutex_unlock(&disk.lock);
}

static ssize_t write_to_disk(int fd, const void *data, size_t bytes)
{
	ssize_t n;

	pthread_mutex_lock(&disk.lock);
	while (disk.stalls) {
		disk.waits = true;
		pthread_cond_broadcast(&disk.changed);
		pthread_cond_wait(&disk.changed, &disk.lock);
	}
	disk.waits = false;
	bytes = bytes < disk.left ? bytes : disk.left;
	pthread_mutex_unlock(&disk.lock);
	if (!bytes) {
		errno = ENOSPC;
		return -1;
	}
	n = write(fd, data, bytes);
	disk.left -= n;
	return n;
}

/* The process as a thread, so that the test can stall its writes. */
struct writer {
	struct braid_flusher *flusher;
	int level;		/* of zstd; 0: the file is not packed */
	int fds[2];
	pthread_t thread;
	braid_flusher_write_fn write;
};

static void *be_process(void *arg)
{
	struct writer *w = arg;

	braid_flusher_run(w->flusher, w->fds[1], w->write);
	close(w->fds[1]);
	return NULL;
}

static void begin_writer(struct writer *w, braid_flusher_write_fn write)
{
	w->write = write;
	w->flusher = braid_flusher_new(w->fds, w->level);
	NEED(w->flusher && !pthread_create(&w->thread, NULL, be_process, w));
}

/* As braid_flusher_stop(), but for a thread. */
static void end_writer(struct writer *w)
{
	shutdown(w->fds[0], SHUT_RDWR);
	pthread_join(w->thread, NULL);
	braid_flusher_stop(w->flusher);
}

/* The queue ------------------------------------------------------------------------------------ */

static u64 received, wrong;

/* Takes less than is queued, in parts of varying size. */
static ssize_t compare(int fd, const void *data, size_t bytes)
{
	const u8 *at = data;
	size_t k, most = 1 + received * 7919 % 300000;

	(void)fd;
	bytes = bytes < most ? bytes : most;
	for (k = 0; k < bytes; k += 509)
		wrong += at[k] != (u8)((received + k) * 31 >> 3);
	received += bytes;
	return bytes;
}

static void bytes_arrive_once_in_order(void)
{
	u64 sent = 0, seed = 1;
	struct writer w = { .level = 0 };
	u32 bytes, k;
	u8 *place;

	received = wrong = 0;
	begin_writer(&w, compare);
	NEED(!braid_flusher_take(w.flusher, STDERR_FILENO));
	while (sent < STREAM_BYTES) {
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		bytes = 1 + (seed >> 33) % (seed >> 62 ? 9000 : BRAID_QUEUE_SLOT_BYTES);
		place = braid_flusher_place(w.flusher, bytes);
		NEED(place && place == braid_flusher_place(w.flusher, bytes));
		for (k = 0; k < bytes; k++)
			place[k] = (sent + k) * 31 >> 3;
		braid_flusher_commit(w.flusher, bytes);
		sent += bytes;
		if (seed >> 60 == 5)
			CHECK_EQ(braid_flusher_wake(w.flusher), 0);
	}
	CHECK_EQ(braid_flusher_settle(w.flusher), 0);
	CHECK_EQ(braid_flusher_written(w.flusher), sent);
	end_writer(&w);
	CHECK_EQ(received, sent);
	CHECK_EQ(wrong, 0);
}

/* A file that stalls --------------------------------------------------------------------------- */

struct reading {
	u64 events, lost, left;
	u32 contradictions;
};

static struct reading read_capture(void)
{
	char *paths[] = { capture_path };
	struct braid_source_options options = { 0 };
	struct braid_text why = { 0 };
	struct braid_source *source;
	struct reading r = { 0 };
	size_t k;

	NEED(!braid_source_open_captures(&source, paths, 1, &options));
	NEED(!braid_walk_rings(source));
	for (k = 0; source->nr_streams && k < source->streams[0]->nr_rings; k++) {
		const struct braid_ring *ring = source->streams[0]->rings[k];

		if (ring->cpu == BRAID_RING_NOTES)
			continue;
		r.events += ring->walk.events;
		r.lost += ring->walk.lost;
		r.left += ring->report.left;
		r.contradictions += !braid_check_account(ring, &why);
		why.bytes = 0;
	}
	braid_text_free(&why);
	braid_source_free(source);
	return r;
}

static u64 offered(const struct session *s)
{
	return s->guest->ctl->offered[0] + s->guest->ctl->offered[1];
}

static bool all_taken(struct session *s)
{
	return s->status.events == offered(s);
}

static void write_events(struct session *s, u32 nr)
{
	fake_guest_write(s->guest, 0, nr);
	fake_guest_write(s->guest, 1, nr);
}

/* Its rings are emptied while no byte is written. */
static void drain_continues_while_the_file_stalls(void)
{
	struct session s = { 0 };
	struct reading r;
	struct writer w = { .level = level };
	u64 written;
	int lap;

	begin_writer(&w, write_to_disk);
	s.flusher = w.flusher;
	s.guest = fake_guest_new(region_path, &usual);
	session_begin(&s, region_path, capture_path, NULL);
	session_settle(&s);
	NEED(!braid_capture_settle(s.sink.capture));
	set_stalls(true);
	for (lap = 0; lap < (level ? 3 : 1); lap++) {	/* a segment has 1 MiB */
		write_events(&s, level ? EVENTS : 1);
		session_until(&s, all_taken);
	}
	await_stall();
	written = braid_capture_written(s.sink.capture);
	for (lap = 0; lap < 4; lap++) {		/* more than the rings hold */
		write_events(&s, EVENTS);
		session_until(&s, all_taken);
	}
	CHECK_EQ(braid_capture_written(s.sink.capture), written);
	CHECK(!braid_capture_full(s.sink.capture));
	CHECK_EQ(s.status.lost, 0);
	set_stalls(false);
	session_end(&s);
	end_writer(&w);
	r = read_capture();
	CHECK_EQ(r.events, offered(&s));
	CHECK_EQ(r.lost, 0);
	CHECK_EQ(r.contradictions, 0);
	fake_guest_free(s.guest);
}

/* Events that do not fit in the queue stay in the rings, which count losses. */
static void rings_count_what_is_not_queued(void)
{
	static const char filler[64 << 10];
	struct session s = { 0 };
	struct reading r;
	struct writer w = { .level = level };
	u64 before;
	int k;

	begin_writer(&w, write_to_disk);
	s.flusher = w.flusher;
	s.guest = fake_guest_new(region_path, &usual);
	session_begin(&s, region_path, capture_path, NULL);
	session_settle(&s);
	set_stalls(true);
	while (!braid_capture_full(s.sink.capture))
		NEED(!braid_capture_put(s.sink.capture, FILLER_TYPE, 0, NULL, 0, filler,
					sizeof(filler)));
	before = s.status.events;
	for (k = 0; k < 20; k++) {	/* several laps */
		write_events(&s, EVENTS);
		NEED(session_turn(&s) >= 0);
	}
	CHECK_EQ(s.status.events, before);
	set_stalls(false);
	session_end(&s);
	end_writer(&w);
	CHECK(s.status.lost > 0);
	r = read_capture();
	CHECK_EQ(r.lost, s.status.lost);
	CHECK_EQ(r.left, 0);
	CHECK_EQ(r.events + r.lost, offered(&s));
	CHECK_EQ(r.contradictions, 0);
	fake_guest_free(s.guest);
}

/* The writer of chunks gets the error once, and the file ends with a complete chunk. */
static void failure_is_reported_once(void)
{
	struct session s = { 0 };
	struct braid_capture_reader *reader;
	struct braid_chunk_view view;
	struct braid_chunk_file head;
	struct writer w = { .level = level };
	struct stat st;
	int ret;

	begin_writer(&w, write_to_disk);
	disk.left = level ? 800001 : 50001;
	s.flusher = w.flusher;
	s.guest = fake_guest_new(region_path, &usual);
	session_begin(&s, region_path, capture_path, NULL);
	do {
		if (all_taken(&s))
			write_events(&s, EVENTS);
		ret = session_turn(&s);
	} while (ret >= 0);
	CHECK_EQ(ret, -ENOSPC);
	CHECK(strstr(braid_failure(), "the disk is full; it is valid up to byte "));
	CHECK_EQ(braid_capture_flush(s.sink.capture), -ENOSPC);
	CHECK(braid_region_source_finish(s.source) < 0);
	braid_region_source_close(s.source);
	braid_capture_abandon(s.sink.capture);
	end_writer(&w);
	disk.left = ~0ULL;
	NEED(!braid_capture_open(&reader, capture_path, &head));
	while ((ret = braid_capture_next(reader, &view)) > 0)
		;
	CHECK_EQ(ret, 0);
	CHECK(level || !braid_capture_damage(reader)->cut_off);	/* segments end within chunks */
	CHECK_EQ(braid_capture_damage(reader)->stretches, 0);
	NEED(!stat(capture_path, &st));
	CHECK(st.st_size > (level ? 400000 : 40000) && st.st_size <= (level ? 800001 : 50001));
	CHECK(level ? braid_capture_size(reader) > (1 << 20) &&
			      !(braid_capture_size(reader) % (1 << 20)) :
		      braid_capture_size(reader) == (u64)st.st_size);
	braid_capture_close(reader);
	fake_guest_free(s.guest);
}

static pid_t only_child(void)
{
	FILE *children = fopen("/proc/thread-self/children", "r");
	int pid = 0;

	NEED(children && fscanf(children, "%d", &pid) == 1);
	fclose(children);
	return pid;
}

/* The process is killed: the writer of chunks reports that, and what is in the file is valid. */
static void death_is_reported(void)
{
	struct session s = { 0 };
	struct reading r;
	int ret, k;

	NEED(!braid_flusher_start(&s.flusher, level, NULL));
	s.guest = fake_guest_new(region_path, &usual);
	session_begin(&s, region_path, capture_path, NULL);
	for (k = 0; k < 3; k++) {
		write_events(&s, EVENTS);
		session_until(&s, all_taken);
	}
	NEED(!braid_capture_flush(s.sink.capture) && !braid_flusher_settle(s.flusher));
	kill(only_child(), SIGKILL);
	do {
		fake_guest_write(s.guest, 0, 1);
		ret = session_turn(&s);
	} while (ret >= 0);
	CHECK_EQ(ret, -EIO);
	CHECK(strstr(braid_failure(), "it is valid up to byte "));
	CHECK(braid_region_source_finish(s.source) < 0);
	braid_region_source_close(s.source);
	braid_capture_abandon(s.sink.capture);
	braid_flusher_stop(s.flusher);
	r = read_capture();
	/* the last segment is lost with the process */
	CHECK(r.events >= (level ? 2 : 6) * EVENTS);
	fake_guest_free(s.guest);
}

/* An agent that is killed ---------------------------------------------------------------------- */

/* Reads all events of the rings into a FIFO without a reader, and is killed. */
static void be_agent(struct session *s, const char *fifo)
{
	NEED(!braid_flusher_start(&s->flusher, level, NULL));
	session_begin(s, region_path, fifo, NULL);
	session_until(s, all_taken);
	raise(SIGKILL);
}

/* Events that rings count as read are written, although the agent died before. */
static void queue_outlives_the_agent(void)
{
	static char bytes[65536];
	struct session s = { 0 };
	struct reading r;
	char *path = scratch("fifo");
	int status, fifo, file;
	ssize_t n;
	pid_t pid;

	NEED(!mkfifo(path, 0600));
	fifo = open(path, O_RDONLY | O_NONBLOCK);
	file = open(capture_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	NEED(fifo >= 0 && file >= 0 && !fcntl(fifo, F_SETFL, 0));
	s.guest = fake_guest_new(region_path, &usual);
	write_events(&s, EVENTS);
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		close(fifo);
		be_agent(&s, path);
	}
	NEED(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	while ((n = read(fifo, bytes, sizeof(bytes))) > 0)
		NEED(!braid_write_all(file, bytes, n));
	CHECK_EQ(n, 0);
	close(fifo);
	close(file);
	r = read_capture();
	CHECK_EQ(r.events, offered(&s));
	CHECK_EQ(r.lost, 0);
	fake_guest_free(s.guest);
	unlink(path);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	region_path = scratch("region");
	capture_path = scratch("1.braid");
	RUN(bytes_arrive_once_in_order);
	for (level = 0; level <= BRAID_PACKER_LEVEL; level += BRAID_PACKER_LEVEL) {
		RUN(queue_outlives_the_agent);
		RUN(death_is_reported);
		RUN(drain_continues_while_the_file_stalls);
		RUN(rings_count_what_is_not_queued);
		RUN(failure_is_reported_once);
	}
	return VERDICT();
}
