// SPDX-License-Identifier: GPL-2.0-or-later
/* An event that a guest lists between the host's look at its directory and ENABLE. */
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"

static const struct fake_params usual = {
	.name = "fake", .bytes = 4 << 20, .nr_vcpus = 2, .subbuf_bytes = 1024, .nr_slots = 16,
};

static bool first_is_enabled(struct session *s)
{
	return braid_load(&s->guest->event_flags[0]);
}

/* It is enabled, but only when the host has read that it is listed. */
static void enabled_when_seen(void)
{
	char *region_path = scratch("region"), *capture_path = scratch("capture");
	struct braid_pattern pattern;
	struct session s = { .pattern = &pattern };

	NEED(!braid_pattern_parse(&pattern, "sched"));
	NEED(!braid_exchange_start(&s.exchange));
	s.guest = fake_guest_new(region_path, &usual);
	s.guest->ctl->list_again = 1;
	session_begin(&s, region_path, capture_path, NULL);
	fake_guest_start_thread(s.guest);
	session_until(&s, first_is_enabled);
	CHECK_EQ(s.guest->ctl->unseen, 1);
	CHECK(s.guest->event_flags[1]);
	fake_guest_stop(s.guest);
	session_end(&s);
	braid_exchange_stop(s.exchange);
	fake_guest_free(s.guest);
}

int main(void)
{
	RUN(enabled_when_seen);
	return VERDICT();
}
