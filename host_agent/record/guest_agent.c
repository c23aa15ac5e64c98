// SPDX-License-Identifier: GPL-2.0-or-later
/* Enables events by guest agents, where a guest's memory is only read, and disables them again. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/record/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define FILES_MOST	256u	/* of a guest, which may list any number of events */
#define SYSTEMS_MOST	256u	/* likewise; of further ones each event is enabled by itself */
#define ANSWER_MS	25000	/* timeout for the process' answer: that of libvirt is shorter */
#define LINE_BYTES	1500	/* a line of files to disable by hand */

int braid_record_start_agents(struct braid_recording *r)
{
	const struct braid_record_domains *d = &r->o.domains;

	if (!d->agents)
		return 0;
	if (!d->nr)
		return braid_fail(-EINVAL, "--guest-agent: needs -d DOMAIN");
	return braid_guest_agent_start(&r->agents.process, d->uri, d->names, d->nr);
}

/* The process has ended, with what it has enabled; or it hangs. */
static void lose_process(struct braid_recording *r)
{
	braid_wait_for(&r->wait, BRAID_WAIT_AGENT, -1);
	braid_guest_agent_stop(&r->agents.process);
}

/* Which files ------------------------------------------------------------------------------- */

/* A system of a buffer: if all of its events are wanted, and off, one file enables them. */
struct system {
	u32 buffer;
	const char *name;	/* in the copy of the directory */
	u32 nr, nr_wanted;
	bool added;
};

/* The events of a guest, and what is wanted of them. */
struct plan {
	struct braid_recording *r;
	size_t guest;
	bool fresh;		/* the stream is new */
	const struct braid_superblock *sb;
	struct system systems[SYSTEMS_MOST];
	u32 nr_systems;
	u32 nr_files;
};

static bool is_living(const struct plan *p, const struct braid_schema_event *event)
{
	return !(event->flags & (BRAID_EVENT_GONE | BRAID_EVENT_SUB)) && *event->system &&
	       event->buffer < p->sb->nr_buffers;
}

static bool is_wanted(const struct plan *p, const struct braid_schema_event *event)
{
	const struct braid_record_patterns *wanted = &p->r->o.events;
	size_t k = 0;

	if (event->flags & (BRAID_EVENT_GUEST_ON | BRAID_EVENT_HOST_ON))
		return false;
	while (k < wanted->nr && !braid_pattern_matches(&wanted->items[k], event->system,
							event->name))
		k++;
	return k < wanted->nr;
}

static struct system *system_of(struct plan *p, const struct braid_schema_event *event, bool add)
{
	struct system *system = p->systems;

	for (; system < p->systems + p->nr_systems; system++)
		if (system->buffer == event->buffer && !strcmp(system->name, event->system))
			return system;
	if (!add || p->nr_systems == SYSTEMS_MOST)
		return NULL;
	p->nr_systems++;
	*system = (struct system){ .buffer = event->buffer, .name = event->system };
	return system;
}

/* 0, or -errno with braid_fail(). */
static int add_file(struct plan *p, const struct braid_schema_event *event, bool whole)
{
	struct braid_record_agent_file new = { .guest = p->guest };
	struct braid_record_agents *a = &p->r->agents;
	char path[BRAID_GUEST_AGENT_PATH_BYTES];
	size_t k;
	int err;

	if (p->nr_files++ == FILES_MOST)
		return braid_fail(-E2BIG, "more than %u commands would be sent to its guest agent; use -e with fewer events or whole systems",
				  FILES_MOST);
	strcpy(new.file.domain, p->r->guests[p->guest].domain);
	memcpy(new.file.boot_id, p->sb->boot_id, sizeof(new.file.boot_id));
	snprintf(new.file.buffer, sizeof(new.file.buffer), "%s", p->sb->buffers[event->buffer].name);
	snprintf(new.file.system, sizeof(new.file.system), "%s", event->system);
	snprintf(new.file.event, sizeof(new.file.event), "%s", whole ? "" : event->name);
	err = braid_guest_agent_path(&new.file, path);
	if (err)
		return err;
	for (k = 0; k < a->nr && !braid_guest_agent_same(&a->files[k].file, &new.file); k++)
		;
	if (k < a->nr && p->fresh && a->files[k].state == BRAID_AGENT_ON)
		a->files[k].state = BRAID_AGENT_WANTED;	/* a new driver has it off */
	else if (k == a->nr && braid_array_push(a->files, a->nr, a->capacity, new))
		return braid_out_of_memory();
	return 0;
}

static int add_files(struct plan *p, const struct braid_directory_copy *copy)
{
	struct braid_schema_event event;
	struct system *system;
	u32 at = 0;
	int err = 0;

	while (braid_schema_next(copy->data, copy->bytes, &at, &event) > 0) {
		system = is_living(p, &event) ? system_of(p, &event, true) : NULL;
		if (!system)
			continue;
		system->nr++;
		system->nr_wanted += is_wanted(p, &event);
	}
	at = 0;
	while (!err && braid_schema_next(copy->data, copy->bytes, &at, &event) > 0) {
		bool whole;

		if (!is_living(p, &event) || !is_wanted(p, &event))
			continue;
		system = system_of(p, &event, false);
		whole = system && system->nr == system->nr_wanted;
		if (!whole || !system->added)
			err = add_file(p, &event, whole);
		if (whole)
			system->added = true;
	}
	return err;
}

/* Drops the files of a guest that are not enabled, and those of a former boot. */
static void drop_files(struct braid_recording *r, size_t guest, const u8 *boot_id)
{
	struct braid_record_agents *a = &r->agents;
	size_t k, nr = 0;

	for (k = 0; k < a->nr; k++) {
		const struct braid_record_agent_file *file = &a->files[k];

		if (file->guest != guest || file->state == BRAID_AGENT_ASKED ||
		    (file->state == BRAID_AGENT_ON && (!boot_id ||
		     !memcmp(file->file.boot_id, boot_id, sizeof(file->file.boot_id)))))
			a->files[nr++] = *file;
	}
	a->nr = nr;
}

/* The events of a guest can't all be enabled. Returns the capture's error. */
static int give_up(struct braid_recording *r, size_t k, const char *why)
{
	struct braid_record_guest *guest = &r->guests[k];
	char line[1024];

	drop_files(r, k, NULL);
	if (guest->agent_failed)
		return 0;
	guest->agent_failed = true;
	snprintf(line, sizeof(line), "%s; recorded are the events that are enabled in the guest",
		 why);
	return braid_region_source_note(guest->source, line);
}

static int plan_guest(struct braid_recording *r, size_t k, bool fresh)
{
	struct braid_region_source *source = r->guests[k].source;
	struct plan plan = {
		.r = r, .guest = k, .fresh = fresh, .sb = braid_region_source_superblock(source),
	};
	struct braid_directory_copy copy;
	char why[512];
	int err = braid_region_source_directory(source, &copy);

	if (err)
		return err == -ENOMEM ? err : 0;
	r->guests[k].agent_asked = true;
	r->guests[k].agent_failed = false;
	drop_files(r, k, plan.sb->boot_id);
	err = add_files(&plan, &copy);
	braid_directory_free(&copy);
	if (!err || err == -ENOMEM)
		return err;
	snprintf(why, sizeof(why), "%s", braid_failure());
	return give_up(r, k, why);
}

/* Guests whose driver came, or got more events. */
static int plan_all(struct braid_recording *r)
{
	struct braid_region_status status;
	bool fresh, more;
	size_t k;
	int err = 0;

	for (k = 0; k < r->nr_guests && !err; k++) {
		struct braid_record_guest *guest = &r->guests[k];

		status = braid_region_source_status(guest->source);
		if (!*guest->domain || !status.only_read)
			continue;
		more = braid_region_source_more(guest->source) && !guest->agent_failed;
		fresh = guest->agent_stream != status.stream;
		guest->agent_stream = status.stream;
		if (fresh || more)
			err = plan_guest(r, k, fresh);
	}
	return err;
}

/* Commands ---------------------------------------------------------------------------------- */

/* A command is said, and then sent. 0 or -EPIPE with braid_fail(). */
static int ask(struct braid_recording *r, struct braid_record_agent_file *file, bool on)
{
	char path[BRAID_GUEST_AGENT_PATH_BYTES];

	braid_guest_agent_path(&file->file, path);
	braid_record_say(r, r->guests[file->guest].name, "guest agent (guest-file-open, guest-file-write, guest-file-close): echo %d >%s",
			 on, path);
	return braid_guest_agent_set(&r->agents.process, &file->file, on);
}

static struct braid_record_agent_file *find_file(struct braid_record_agents *a, int state)
{
	size_t k;

	for (k = 0; k < a->nr; k++)
		if ((int)a->files[k].state == state)
			return &a->files[k];
	return NULL;
}

bool braid_record_asks_agents(const struct braid_recording *r)
{
	size_t k;

	for (k = 0; k < r->nr_guests; k++)
		if (r->guests[k].agent_asked)
			return true;
	return false;
}

/* The process has ended: no guest agent can be asked any more. */
static int without_process(struct braid_recording *r)
{
	char why[512];
	size_t k;
	int err = 0;

	snprintf(why, sizeof(why), "%s", braid_failure());
	lose_process(r);
	for (k = 0; k < r->agents.nr; k++)
		if (r->agents.files[k].state == BRAID_AGENT_ASKED)
			r->agents.files[k].state = BRAID_AGENT_ON;
	for (k = 0; k < r->nr_guests && !err; k++)
		if (r->guests[k].agent_asked)
			err = give_up(r, k, why);
	return err;
}

/* An answer about the file that was asked for. Returns the capture's error. */
static int take_answer(struct braid_recording *r, int err, bool maybe)
{
	struct braid_record_agent_file *file = find_file(&r->agents, BRAID_AGENT_ASKED);
	char why[512];

	if (!file)
		return 0;
	snprintf(why, sizeof(why), "%s", err ? braid_failure() : "");
	file->state = !err || maybe ? BRAID_AGENT_ON : BRAID_AGENT_WANTED;
	return err ? give_up(r, file->guest, why) : 0;
}

/* Guests of which all is answered. Returns the capture's error. */
static int finish_guests(struct braid_recording *r)
{
	bool *busy = calloc(r->nr_guests + 1, sizeof(*busy));
	size_t k;
	int err = busy ? 0 : braid_out_of_memory();

	for (k = 0; k < r->agents.nr && !err; k++)
		busy[r->agents.files[k].guest] |= r->agents.files[k].state != BRAID_AGENT_ON;
	for (k = 0; k < r->nr_guests && !err; k++) {
		struct braid_record_guest *guest = &r->guests[k];

		if (!guest->agent_asked || busy[k])
			continue;
		guest->agent_asked = false;
		if (braid_region_source_status(guest->source).only_read)
			err = braid_region_source_enabled(guest->source, !guest->agent_failed);
	}
	free(busy);
	return err;
}

int braid_record_poll_agents(struct braid_recording *r)
{
	struct braid_record_agents *a = &r->agents;
	struct braid_record_agent_file *file;
	int answered = 0, failed = 0, err = 0;
	bool maybe = false;

	if (a->process.fd < 0 || r->end_ns)
		return 0;
	answered = braid_guest_agent_answer(&a->process, &failed, &maybe);
	if (answered > 0)
		err = take_answer(r, failed, maybe);
	else if (answered < 0)
		err = without_process(r);
	if (!err)
		err = plan_all(r);
	if (err || !braid_record_asks_agents(r))
		return err;
	file = find_file(a, BRAID_AGENT_ASKED) ? NULL : find_file(a, BRAID_AGENT_WANTED);
	if (file) {
		file->state = BRAID_AGENT_ASKED;
		if (ask(r, file, true))
			err = without_process(r);
	}
	return err ? err : finish_guests(r);
}

/* The end ----------------------------------------------------------------------------------- */

/* Waits. 1; 0: the process hangs, has ended, or a signal came. */
static int await_answer(struct braid_recording *r, int *err, bool *maybe)
{
	struct pollfd p[] = {
		{ .fd = r->agents.process.fd, .events = POLLIN },
		{ .fd = r->signal_fd, .events = POLLIN },
	};
	int ret;

	do {
		if (poll(p, 2, ANSWER_MS) <= 0 || p[1].revents)
			return 0;
		ret = braid_guest_agent_answer(&r->agents.process, err, maybe);
	} while (!ret);
	return ret > 0;
}

/* Returns whether the event may still be on. Ends the process if it does not answer. */
static bool disable(struct braid_recording *r, struct braid_record_agent_file *file)
{
	const char *name = r->guests[file->guest].name;
	bool maybe;
	int err = 0;

	if (ask(r, file, false) || !await_answer(r, &err, &maybe)) {
		lose_process(r);
		return true;
	}
	if (!err || err == -ENOENT || err == -ESHUTDOWN)
		return false;		/* or there is nothing left to disable */
	braid_record_say(r, name, "%s", braid_failure());
	return true;
}

/* Lines by which a user of the guest can do it. */
static void say_by_hand(struct braid_recording *r, size_t guest)
{
	const struct braid_record_agents *a = &r->agents;
	char path[BRAID_GUEST_AGENT_PATH_BYTES];
	struct braid_text line = { 0 };
	size_t k;

	for (k = 0; k < a->nr; k++) {
		if (a->files[k].guest == guest) {
			braid_guest_agent_path(&a->files[k].file, path);
			braid_text_printf(&line, " %s", path);
		}
		if (!line.bytes || (k + 1 < a->nr && line.bytes < LINE_BYTES))
			continue;
		braid_text_putc(&line, '\0');
		if (!line.failed)
			braid_record_say(r, r->guests[guest].name, "events may still be enabled; in the guest: echo 0 | tee%s",
					 line.data);
		line.bytes = 0;
	}
	braid_text_free(&line);
}

void braid_record_undo_agents(struct braid_recording *r)
{
	struct braid_record_agents *a = &r->agents;
	struct braid_record_agent_file *asked = find_file(a, BRAID_AGENT_ASKED);
	bool maybe = true;
	int err = 0;
	size_t k, i;

	if (asked && !await_answer(r, &err, &maybe))
		lose_process(r);
	if (asked)
		asked->state = !err || maybe ? BRAID_AGENT_ON : BRAID_AGENT_WANTED;
	for (k = 0; k < r->nr_guests; k++) {
		drop_files(r, k, NULL);
		r->guests[k].agent_failed = false;
	}
	for (k = i = 0; k < a->nr; k++) {
		struct braid_record_guest *guest = &r->guests[a->files[k].guest];

		guest->agent_failed = guest->agent_failed || a->process.fd < 0 ||
				      disable(r, &a->files[k]);
		if (guest->agent_failed)	/* its others are not tried */
			a->files[i++] = a->files[k];
	}
	a->nr = i;
	for (k = 0; k < r->nr_guests; k++)
		say_by_hand(r, k);
	a->nr = 0;
}
