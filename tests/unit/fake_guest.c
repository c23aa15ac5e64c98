// SPDX-License-Identifier: GPL-2.0-or-later
/* The guest's side of a region, in a thread or a process of the host. */
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/fake_guest.h"
#include "tests/unit/format_text.h"
#include "tests/unit/need.h"

#define STEP_NS		500000		/* between two polls, by default */
#define SPIN_NS		2000000		/* of polling for the next ping of a burst */

static const char *const systems[FAKE_NR_EVENTS] = { "sched", "sched", "irq", "test" };
static const char *const names[FAKE_NR_EVENTS] = { "sched_switch", "sched_wakeup",
						   "irq_handler_entry", "count" };

/* Of the latest guest: a counter is read without a reference to its guest. */
static const u64 *gain;

static u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (u64)t.tv_sec * 1000000000 + t.tv_nsec;
}

u64 fake_counter(void)
{
	return now_ns() + FAKE_COUNTER_OFFSET + (gain ? braid_load(gain) : 0);
}

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static void *section(struct fake_guest *g, u32 id)
{
	return g->base + g->sb.sections[id].offset;
}

/* Each event has a number that is one larger than the previous one's in its ring. */
static void make_format(char *to, size_t room, u32 id)
{
	snprintf(to, room,
		 "name: %s\nID: %u\nformat:\n"
		 FORMAT_COMMON
		 "\tfield:u64 number;\toffset:8;\tsize:8;\tsigned:0;\n\n"
		 "print fmt: \"number=%%llu\", REC->number\n", names[id - 1], id);
}

static void fill_directory(struct fake_guest *g)
{
	struct braid_directory *dir = section(g, BRAID_SECTION_DIRECTORY);
	u32 room = g->sb.sections[BRAID_SECTION_DIRECTORY].bytes - sizeof(*dir), k;
	char format[1024];

	memset(dir, 0, sizeof(*dir));
	g->directory_used = 0;
	for (k = 0; k < FAKE_NR_EVENTS; k++) {
		struct braid_schema_event event = {
			.id = k + 1, .system = systems[k], .name = names[k], .format = format,
		};

		make_format(format, sizeof(format), k + 1);
		if (braid_schema_append(dir, room, &g->directory_used, &event))
			die("directory");
		g->event_offsets[k] = event.offset;
		g->event_flags[k] = 0;
		g->event_listed_at[k] = dir->generation;
	}
}

void fake_guest_tell(struct fake_guest *g, struct braid_schema_event *event)
{
	struct braid_directory *dir = section(g, BRAID_SECTION_DIRECTORY);

	if (braid_schema_append(dir, g->sb.sections[BRAID_SECTION_DIRECTORY].bytes - sizeof(*dir),
				&g->directory_used, event))
		die("directory");
}

static void fill_comms(struct fake_guest *g)
{
	struct braid_comm_table *table = section(g, BRAID_SECTION_COMMS);
	struct braid_comm *comm = &table->entries[1];

	memset(table, 0, g->sb.sections[BRAID_SECTION_COMMS].bytes);
	table->nr_entries = g->p.nr_comms ? g->p.nr_comms : 64;
	comm->pid = 1;
	strcpy(comm->comm, "init");
	braid_store_release(&comm->seq, 2);
	braid_store_release(&table->generation, 1);
}

static void lay_out(struct fake_guest *g)
{
	struct braid_region_params params = {
		.region_bytes = g->p.bytes, .nr_vcpus = g->p.nr_vcpus,
		.nr_comms = g->p.nr_comms ? g->p.nr_comms : 64,
		.nr_symbols = 64, .directory_bytes = 16384,
	};
	struct braid_buffer_params buffer = {
		.name = "main", .flags = g->p.flags, .subbuf_bytes = g->p.subbuf_bytes,
		.nr_slots = g->p.nr_slots,
	};
	u64 needed;

	memset(&g->sb, 0, sizeof(g->sb));
	g->sb.magic = BRAID_MAGIC;
	g->sb.version_major = BRAID_VERSION_MAJOR;
	g->sb.state = BRAID_STATE_LIVE;
	g->sb.incarnation = now_ns() | 1;
	g->sb.counter_type = g->p.counter_type ? g->p.counter_type : BRAID_COUNTER_SYNTHETIC;
	g->sb.counter_hz = 1000000000;
	g->sb.init_counter = fake_counter();
	memcpy(g->sb.boot_id, &g->sb.incarnation, sizeof(g->sb.incarnation));
	snprintf(g->sb.guest_name, sizeof(g->sb.guest_name), "%s", g->p.name);
	strcpy(g->sb.kernel_release, "0.0-fake");
	strcpy(g->sb.machine, "fake");
	if (braid_region_layout(&g->sb, &params, &needed) ||
	    braid_region_add_buffer(&g->sb, &buffer, &needed) < 0) {
		fprintf(stderr, "fake guest: %llu bytes are needed\n", (unsigned long long)needed);
		exit(EXIT_FAILURE);
	}
}

void fake_guest_ring(struct fake_guest *g, u32 buffer, u32 vcpu, struct braid_ring_map *map)
{
	braid_region_ring(&g->sb.buffers[buffer], g->base, vcpu, map);
	map->flags &= ~BRAID_BUFFER_CLOSING;
}

u64 fake_guest_read(struct fake_guest *g, u32 vcpu)
{
	static u64 copy[BRAID_MAX_SUBBUF_BYTES / 8];
	struct braid_reader reader;
	struct braid_ring_map map;
	struct braid_span span;
	struct braid_cursor c;
	u64 events = 0;
	s64 n;

	fake_guest_ring(g, 0, vcpu, &map);
	NEED(!braid_reader_attach(&reader, &map, g->sb.incarnation));
	while (braid_reader_next(&reader, &span) > 0) {
		memcpy(copy, span.data + span.from_bytes, span.to_bytes - span.from_bytes);
		braid_cursor_init(&c, (u8 *)copy, span.to_bytes - span.from_bytes, 0, map.flags);
		n = braid_page_count(&c);
		NEED(n >= 0);
		braid_reader_done(&reader, &span, n);
		events += n;
	}
	return events;
}

static void init_rings(struct fake_guest *g, u32 buffer)
{
	struct braid_ring_map map;
	u32 k;

	for (k = 0; k < g->p.nr_vcpus; k++) {
		struct braid_ring_identity who = {
			.incarnation = g->sb.incarnation, .vcpu = k, .buffer = buffer,
			.first_position = BRAID_POS_MASK - 3 + (u64)g->ctl->nr_inits * 100000,
			.first_seq = ~0ULL - 99, .counter = fake_counter(),
			.past = g->has_past[buffer] ? &g->past[buffer][k] : NULL,
			.external = &g->external,
		};

		free(g->writers[buffer][k]);
		g->writers[buffer][k] =
			calloc(1, braid_writer_bytes(g->sb.buffers[buffer].nr_slots));
		fake_guest_ring(g, buffer, k, &map);
		braid_writer_init(g->writers[buffer][k], &map, &who);
	}
}

/* Announces changed buffers. */
static void publish_buffers(struct fake_guest *g)
{
	struct braid_superblock *shared = (struct braid_superblock *)g->base;

	braid_store(&shared->buffers_seq, g->sb.buffers_seq + 1);
	braid_fence();
	shared->nr_buffers = g->sb.nr_buffers;
	memcpy(shared->buffers, g->sb.buffers, sizeof(shared->buffers));
	g->sb.buffers_seq += 2;
	braid_store_release(&shared->buffers_seq, g->sb.buffers_seq);
}

u32 fake_guest_open_buffer(struct fake_guest *g, const struct braid_buffer_params *params)
{
	u64 needed;
	int index = braid_region_add_buffer(&g->sb, params, &needed);

	if (index < 0) {
		fprintf(stderr, "fake guest: buffer %s: %d\n", params->name, index);
		exit(EXIT_FAILURE);
	}
	init_rings(g, index);
	publish_buffers(g);
	return index;
}

void fake_guest_closing(struct fake_guest *g, u32 buffer)
{
	g->sb.buffers[buffer].flags |= BRAID_BUFFER_CLOSING;
	publish_buffers(g);
}

void fake_guest_close_buffer(struct fake_guest *g, u32 buffer, bool scribble)
{
	const struct braid_buffer_desc *desc = &g->sb.buffers[buffer];
	u32 k;

	for (k = 0; k < g->p.nr_vcpus; k++)
		braid_writer_past(g->writers[buffer][k], &g->past[buffer][k]);
	g->has_past[buffer] = true;
	if (scribble)
		memset(g->base + desc->rings_offset, 0xa5, desc->ring_stride * desc->nr_rings);
	braid_region_remove_buffer(&g->sb, buffer);
	publish_buffers(g);
}

bool fake_guest_followed(struct fake_guest *g)
{
	struct braid_mailbox *box = section(g, BRAID_SECTION_MAILBOX);

	return braid_load_acquire(&box->agent_buffers_seq) == g->sb.buffers_seq;
}

/* The steps of a driver that loads. */
static void load(struct fake_guest *g)
{
	struct braid_superblock *shared = (struct braid_superblock *)g->base;
	struct braid_superblock first = { .magic = BRAID_MAGIC, .state = BRAID_STATE_INIT,
					  .version_major = BRAID_VERSION_MAJOR };

	lay_out(g);
	braid_store(&shared->state, BRAID_STATE_INIT);
	braid_fence();
	first.incarnation = g->sb.incarnation;
	*shared = first;
	braid_fence();
	memset(section(g, BRAID_SECTION_MAILBOX), 0, sizeof(struct braid_mailbox));
	memset(section(g, BRAID_SECTION_CLOCK), 0, sizeof(struct braid_clock_cells));
	memset(section(g, BRAID_SECTION_SYMBOLS), 0, sizeof(struct braid_symbol_table));
	fill_directory(g);
	fill_comms(g);
	memset(g->has_past, 0, sizeof(g->has_past));
	braid_clock_latch_set(&g->external, &(struct braid_clock_map){
		fake_counter(), 1700000000000000000LL, 1ULL << BRAID_CLOCK_SHIFT });
	memset((void *)g->ctl->offered, 0, sizeof(g->ctl->offered));
	init_rings(g, 0);
	first = g->sb;
	first.state = BRAID_STATE_INIT;
	*shared = first;
	braid_store_release(&shared->state, BRAID_STATE_LIVE);
	g->ctl->nr_inits++;
	braid_store_release(&g->ctl->incarnation, g->sb.incarnation);
	braid_store_release(&g->ctl->state, BRAID_STATE_LIVE);
}

void fake_guest_write(struct fake_guest *g, u32 vcpu, u64 events)
{
	fake_guest_write_to(g, 0, vcpu, events);
}

void fake_guest_write_to(struct fake_guest *g, u32 buffer, u32 vcpu, u64 events)
{
	struct braid_writer *w = g->writers[buffer][vcpu];

	while (events--) {
		u64 number = g->ctl->offered[vcpu], token;
		u32 bytes = 16 + number % 5 * 8 + (number % 97 == 0 ? 80 : 0);
		struct braid_record record = { .common_type = 1 + number % FAKE_NR_EVENTS,
					       .common_pid = 1 };
		u8 *at = braid_ring_reserve(w, bytes, fake_counter, &token);

		braid_store(&g->ctl->offered[vcpu], number + 1);
		if (!at)
			continue;
		memset(at, 0, bytes);
		memcpy(at, &record, sizeof(record));
		memcpy(at + sizeof(record), &number, sizeof(number));
		braid_ring_commit(w, token);
	}
}

static bool enabled(const struct fake_guest *g)
{
	u32 k;

	for (k = 0; k < FAKE_NR_EVENTS; k++)
		if (g->event_flags[k])
			return true;
	return g->p.always;
}

static bool matches(const char *pattern, const char *name)
{
	return !*pattern || !fnmatch(pattern, name, 0);
}

/* As when a module is unloaded and loaded again, but nr_reused does not count it. */
static void list_again(struct fake_guest *g)
{
	struct braid_directory *dir = section(g, BRAID_SECTION_DIRECTORY);

	g->event_flags[0] = 0;
	braid_schema_set_flags(dir, g->event_offsets[0], 0);
	g->event_listed_at[0] = dir->generation;
	g->ctl->list_again = 0;
}

static bool has_seen(const struct fake_guest *g, const struct braid_mailbox *box, u32 k)
{
	return !(box->arg0 & BRAID_ONLY_SEEN) ||
	       g->event_listed_at[k] <= box->arg0 >> BRAID_SEEN_SHIFT;
}

static void serve_mailbox(struct fake_guest *g)
{
	struct braid_mailbox *box = section(g, BRAID_SECTION_MAILBOX), copy;
	u32 seq = braid_load_acquire(&box->command_seq), k, matched = 0, unseen = 0;

	braid_store(&box->guest_heartbeat, fake_counter());
	if (seq == braid_load(&box->done_seq))
		return;
	memcpy(&copy, box, sizeof(copy));
	copy.system[BRAID_PATTERN_BYTES - 1] = copy.event[BRAID_PATTERN_BYTES - 1] = 0;
	if (copy.command == BRAID_CMD_ENABLE && g->ctl->list_again)
		list_again(g);
	for (k = 0; k < FAKE_NR_EVENTS; k++) {
		if (!matches(copy.system, systems[k]) || !matches(copy.event, names[k]))
			continue;
		if (copy.command == BRAID_CMD_ENABLE && !has_seen(g, &copy, k)) {
			unseen++;
			continue;
		}
		matched++;
		if (copy.command != BRAID_CMD_ENABLE && copy.command != BRAID_CMD_DISABLE)
			continue;
		g->event_flags[k] = copy.command == BRAID_CMD_ENABLE ? BRAID_EVENT_HOST_ON : 0;
		braid_schema_set_flags(section(g, BRAID_SECTION_DIRECTORY), g->event_offsets[k],
				       g->event_flags[k]);
	}
	braid_store(&box->result, 0);
	braid_store(&box->matched, matched);
	braid_store(&box->unseen, unseen);
	g->ctl->unseen += unseen;
	g->ctl->commands++;
	braid_store_release(&box->done_seq, seq);
}

/* As in the driver: the host's clock first, then the counter. */
static void publish_poll(struct fake_guest *g)
{
	struct braid_clock_cells *cells = section(g, BRAID_SECTION_CLOCK);
	u32 seq = cells->poll_seq;

	braid_store(&cells->poll_seq, seq + 1);
	braid_fence();
	braid_store(&cells->poll_vcpu, 1);
	braid_store(&cells->poll_host_ns, braid_load_acquire(&cells->host_ns));
	braid_fence();
	braid_store(&cells->poll_counter, fake_counter());
	g->ctl->marker += braid_load(&g->ctl->marker_spins);
	braid_store(&cells->poll_marker, braid_load(&g->ctl->marker));
	braid_store(&cells->poll_flags, braid_load(&g->ctl->vmclock) ? BRAID_POLL_MARKER : 0);
	braid_store_release(&cells->poll_seq, seq + 2);
}

static void publish_wall(struct fake_guest *g)
{
	struct braid_clock_cells *cells = section(g, BRAID_SECTION_CLOCK);
	struct timespec t;

	braid_store(&cells->wall_seq, cells->wall_seq + 1);
	braid_fence();
	clock_gettime(CLOCK_REALTIME, &t);
	braid_store(&cells->wall_counter, fake_counter());
	braid_store(&cells->wall_realtime_ns, (u64)t.tv_sec * 1000000000 + t.tv_nsec +
					      braid_load(&g->ctl->wall_ahead_ns));
	braid_store(&cells->wall_source, (u32)BRAID_PAIR_GUEST_REALTIME);
	braid_store(&cells->wall_flags, braid_load(&g->ctl->wall_flags));
	braid_store_release(&cells->wall_seq, cells->wall_seq + 1);
}

static void publish_vmclock(struct fake_guest *g)
{
	struct braid_clock_cells *cells = section(g, BRAID_SECTION_CLOCK);

	braid_store(&cells->vm_seq, cells->vm_seq + 1);
	braid_fence();
	braid_store(&cells->vm_flags, (u32)(BRAID_VM_TIME | BRAID_VM_BOUND | BRAID_VM_GENERATION));
	braid_store(&cells->vm_marker, braid_load(&g->ctl->marker));
	braid_store(&cells->vm_counter, fake_counter());
	braid_store(&cells->vm_time_ns, 1700000000000000005ULL);
	braid_store(&cells->vm_bound_ns, 1234ULL);
	braid_store(&cells->vm_generation, 77ULL);
	braid_store(&cells->vm_time_type, (u8)BRAID_VM_TAI);
	braid_store(&cells->vm_status, (u8)BRAID_VM_SYNCHRONIZED);
	braid_store_release(&cells->vm_seq, cells->vm_seq + 1);
}

static void serve_clock(struct fake_guest *g)
{
	struct braid_clock_cells *cells = section(g, BRAID_SECTION_CLOCK);
	u64 burst = braid_load_acquire(&cells->burst), idle_ns;
	u32 vcpu = braid_load(&cells->burst_vcpu);

	publish_poll(g);
	publish_wall(g);
	if (braid_load(&g->ctl->vmclock))
		publish_vmclock(g);
	if (burst == braid_load(&cells->ready))
		return;
	braid_store_release(&cells->ready, burst);
	for (idle_ns = now_ns(); now_ns() - idle_ns < SPIN_NS;) {
		u64 ping = braid_load_acquire(&cells->ping);

		if (braid_load(&cells->burst_over) == burst)
			return;
		if (ping == braid_load(&cells->pong))
			continue;
		braid_store(&cells->pong_counter, fake_counter());
		braid_store(&cells->pong_vcpu, vcpu ? vcpu : 1);
		braid_store_release(&cells->pong, ping);
		idle_ns = now_ns();
	}
}

static void produce(struct fake_guest *g)
{
	u64 now = now_ns(), due = 0, burst = braid_load_acquire(&g->ctl->burst);
	u32 k;

	if (g->p.rate && (s64)(now - g->next_ns) > 0) {
		due = (now - g->next_ns) * g->p.rate / 1000000000;
		g->next_ns += due * 1000000000 / g->p.rate;
	}
	if (!enabled(g))
		due = 0;
	for (k = 0; k < g->p.nr_vcpus; k++)
		fake_guest_write(g, k, due + (burst - g->burst_seen));
	g->burst_seen = burst;
	braid_store_release(&g->ctl->burst_done, burst);
}

void fake_guest_look(struct fake_guest *g)
{
	serve_mailbox(g);
	serve_clock(g);
	produce(g);
}

static void live(struct fake_guest *g)
{
	struct braid_superblock *shared = (struct braid_superblock *)g->base;
	struct timespec step = { .tv_nsec = g->p.poll_ns ? g->p.poll_ns : STEP_NS };

	g->next_ns = now_ns();
	while (!braid_load_acquire(&g->ctl->stop)) {
		nanosleep(&step, NULL);
		braid_store_release(&g->ctl->stands, braid_load_acquire(&g->ctl->frozen));
		if (g->ctl->stands)
			continue;
		if (braid_load(&g->ctl->go_down) && g->ctl->state == BRAID_STATE_LIVE) {
			braid_store_release(&shared->state, BRAID_STATE_DOWN);
			braid_store_release(&g->ctl->state, BRAID_STATE_DOWN);
		}
		if (braid_load(&g->ctl->begin_anew)) {
			braid_store(&g->ctl->go_down, 0);
			braid_store(&g->ctl->begin_anew, 0);
			load(g);
			g->next_ns = now_ns();
		}
		if (g->ctl->state != BRAID_STATE_LIVE)
			continue;
		fake_guest_look(g);
	}
}

struct fake_guest *fake_guest_new(const char *path, const struct fake_params *p)
{
	struct fake_guest *g = calloc(1, sizeof(*g));

	g->p = *p;
	snprintf(g->path, sizeof(g->path), "%s", path);
	unlink(path);
	g->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (g->fd < 0 || ftruncate(g->fd, p->bytes))
		die(path);
	g->base = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g->fd, 0);
	g->ctl = mmap(NULL, sizeof(*g->ctl), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (g->base == MAP_FAILED || g->ctl == MAP_FAILED)
		die("mmap");
	gain = &g->ctl->counter_gain;
	load(g);
	return g;
}

static void *thread_main(void *arg)
{
	live(arg);
	return NULL;
}

void fake_guest_start_thread(struct fake_guest *g)
{
	braid_store(&g->ctl->stop, 0);
	if (pthread_create(&g->thread, NULL, thread_main, g))
		die("thread");
}

void fake_guest_start_process(struct fake_guest *g)
{
	braid_store(&g->ctl->stop, 0);
	g->pid = fork();
	if (g->pid < 0)
		die("fork");
	if (!g->pid) {
		live(g);
		_exit(0);
	}
}

void fake_guest_stop(struct fake_guest *g)
{
	braid_store_release(&g->ctl->stop, 1);
	if (g->thread)
		pthread_join(g->thread, NULL);
	if (g->pid)
		waitpid(g->pid, NULL, 0);
	g->thread = 0;
	g->pid = 0;
}

void fake_guest_free(struct fake_guest *g)
{
	u32 b, k;

	fake_guest_stop(g);
	for (b = 0; b < BRAID_MAX_BUFFERS; b++)
		for (k = 0; k < FAKE_MAX_VCPUS; k++)
			free(g->writers[b][k]);
	munmap(g->base, g->p.bytes);
	if (gain == &g->ctl->counter_gain)
		gain = NULL;
	munmap(g->ctl, sizeof(*g->ctl));
	close(g->fd);
	unlink(g->path);
	free(g);
}
