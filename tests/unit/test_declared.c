// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What daemons and devices declare of the time: answers as the real ones print them, answers of
 * devices that this machine lacks, wrong ones; and which are distrusted.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host_agent/clock_sync/declared.h"
#include "host_agent/clock_sync/declared_reply.h"
#include "host_agent/clock_sync/host.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

#define NOW_NS		1795867716500000000ULL	/* UTC */
#define HOST_NS		50000000000ULL

static const struct braid_declared_moment moment = {
	.h1_ns = HOST_NS, .h2_ns = HOST_NS + 80, .time_ns = NOW_NS, .asked_ns = HOST_NS - 10000000,
};

/* chronyd 4.3 of Debian 12. */
#define CHRONY_HEAD	"0A000001,10.0.0.1,3,1795867714.500000000,"
static const char chrony_right[] =
	CHRONY_HEAD "-0.000000951,-0.000000034,0.000000085,-0.075,-0.007,0.177,0.000005773,"
	"0.000000814,0.1,Normal\n";

static void chrony(void)
{
	struct braid_declared_time t = { 0 };

	CHECK(braid_declared_chrony(&t, chrony_right, &moment));
	CHECK_EQ(t.flags, 0);
	CHECK_EQ(t.kind, BRAID_DECLARED_CHRONY);
	CHECK_EQ(t.h1_ns, HOST_NS);
	CHECK_EQ(t.time_ns, NOW_NS);
	/* 951 + 5773 / 2 + 814 ns, and 10 ms of 500 ppm. */
	CHECK(t.bound_ns >= 4651 + 5000 && t.bound_ns <= 4655 + 5001);
	CHECK(llabs((s64)(t.measured_ns - (HOST_NS - 2000000000))) < 1000);
#define CHRONY_FLAGS(text, wanted)						\
	do {									\
		CHECK(braid_declared_chrony(&t, text, &moment));		\
		CHECK_EQ(t.flags, wanted);					\
	} while (0)
	CHRONY_FLAGS(CHRONY_HEAD "0.1,0,0,0,0,0,0.2,0.3,64.2,Normal\n", 0);
	CHECK(t.bound_ns >= 500000000 && t.bound_ns < 500010000);
	CHRONY_FLAGS("00000000,,0,0.0,0.0,0.0,0.0,0,0,0,1.0,1.0,0.0,Not synchronised\n",
		     BRAID_DECLARED_UNSYNCHRONIZED);
	CHECK_EQ(t.measured_ns, 0);
	/* Its own clock is the reference. */
	CHRONY_FLAGS("7F7F0101,,8,1795867714.5,0,0,0,0,0,0,0,0,0,Normal\n",
		     BRAID_DECLARED_UNSYNCHRONIZED);
	CHRONY_FLAGS(CHRONY_HEAD "0,0,0,0,0,0,0,0.001,64,Insert second\n",
		     BRAID_DECLARED_UNSYNCHRONIZED);
	CHRONY_FLAGS(CHRONY_HEAD "0,0,0,0,0,0,0,1e9,64,Normal\n", BRAID_DECLARED_UNSYNCHRONIZED);
	CHRONY_FLAGS(CHRONY_HEAD "0,0,0,0,0,0,0,-1,64,Normal\n", BRAID_DECLARED_UNSYNCHRONIZED);
	CHECK(!braid_declared_chrony(&t, "506 Cannot talk to daemon\n", &moment));
	CHECK(!braid_declared_chrony(&t, "", &moment));
	CHECK(!braid_declared_chrony(&t, CHRONY_HEAD "0,0,0,0,0,0,0,0,64\n", &moment));
	CHECK(!braid_declared_chrony(&t, CHRONY_HEAD "0,0,0,0,0,0,0,0,64,Normal,1\n", &moment));
	CHECK(!braid_declared_chrony(&t, CHRONY_HEAD "nan,0,0,0,0,0,0,0,64,Normal\n", &moment));
	CHECK(!braid_declared_chrony(&t, CHRONY_HEAD "0,0,0,0,0,0,inf,0,64,Normal\n", &moment));
	CHECK(!braid_declared_chrony(&t, CHRONY_HEAD "0,0,0,0,0,0,,0,64,Normal\n", &moment));
}

static void kernel(void)
{
	struct timex x = { .maxerror = 1234, .esterror = 56, .offset = -789, .status = STA_PLL };
	struct braid_declared_time t = { 0 };

	CHECK(braid_declared_kernel(&t, &x, TIME_OK, &moment));
	CHECK_EQ(t.flags, 0);
	CHECK_EQ(t.bound_ns, 1234000 + 789000);
	x.status |= STA_NANO;
	CHECK(braid_declared_kernel(&t, &x, TIME_OK, &moment));
	CHECK_EQ(t.bound_ns, 1234000 + 789);
	CHECK(braid_declared_kernel(&t, &x, TIME_ERROR, &moment));
	CHECK_EQ(t.flags, BRAID_DECLARED_UNSYNCHRONIZED);
	CHECK(braid_declared_kernel(&t, &x, TIME_INS, &moment));
	CHECK_EQ(t.flags, BRAID_DECLARED_UNSYNCHRONIZED);
	x.status |= STA_UNSYNC;
	CHECK(braid_declared_kernel(&t, &x, TIME_OK, &moment));
	CHECK_EQ(t.flags, BRAID_DECLARED_UNSYNCHRONIZED);
	/* Nobody states an error: it grows from 0. */
	x = (struct timex){ .maxerror = 16 * 500, .status = STA_PLL };
	CHECK(braid_declared_kernel(&t, &x, TIME_OK, &moment));
	CHECK_EQ(t.flags, BRAID_DECLARED_NO_ERROR);
	CHECK(!braid_declared_kernel(&t, &x, -1, &moment));
	x.maxerror = -1;
	CHECK(!braid_declared_kernel(&t, &x, TIME_OK, &moment));
}

/* pmc of linuxptp 3.1.1, Debian 12. */
#define PMC(state, timestamping, accuracy, valid)						\
	"sending: GET TIME_STATUS_NP\n"								\
	"\t9ac2d3.fffe.f559e1-0 seq 0 RESPONSE MANAGEMENT TIME_STATUS_NP \n"			\
	"\t\tmaster_offset              128\n"							\
	"\t\tingress_time               1795867716400000000\n"					\
	"\t\tcumulativeScaledRateOffset +0.000000000\n"						\
	"\t\tscaledLastGmPhaseChange    0\n\t\tgmTimeBaseIndicator        0\n"			\
	"\t\tlastGmPhaseChange          0x0000'0000000000000000.0000\n"				\
	"\t\tgmPresent                  true\n\t\tgmIdentity                 1226db.fffe.a5cbb0\n" \
	"\t9ac2d3.fffe.f559e1-0 seq 1 RESPONSE MANAGEMENT CURRENT_DATA_SET \n"			\
	"\t\tstepsRemoved     1\n\t\toffsetFromMaster -128.0\n\t\tmeanPathDelay    2796.0\n"	\
	"\t9ac2d3.fffe.f559e1-0 seq 2 RESPONSE MANAGEMENT PARENT_DATA_SET \n"			\
	"\t\tparentPortIdentity                    1226db.fffe.a5cbb0-1\n"			\
	"\t\tgm.ClockClass                         6\n"						\
	"\t\tgm.ClockAccuracy                      " accuracy "\n"				\
	"\t\tgm.OffsetScaledLogVariance            0xffff\n"					\
	"\t9ac2d3.fffe.f559e1-0 seq 3 RESPONSE MANAGEMENT TIME_PROPERTIES_DATA_SET \n"		\
	"\t\tcurrentUtcOffset      37\n\t\tleap61                0\n\t\tleap59                0\n" \
	"\t\tcurrentUtcOffsetValid " valid "\n\t\tptpTimescale          1\n"			\
	"\t9ac2d3.fffe.f559e1-1 seq 4 RESPONSE MANAGEMENT PORT_PROPERTIES_NP \n"		\
	"\t\tportIdentity            9ac2d3.fffe.f559e1-1\n"					\
	"\t\tportState               " state "\n"						\
	"\t\ttimestamping            " timestamping "\n\t\tinterface               v1\n"

static u32 pmc_flags(struct braid_declared_time *t, const char *reply)
{
	struct braid_declared_pmc p;

	NEED(braid_declared_read_pmc(&p, reply));
	NEED(braid_declared_ptp(t, &p, &moment));
	return t->flags;
}

static void ptp(void)
{
	static const char right[] = PMC("SLAVE", "SOFTWARE", "0x22", "0");
	struct braid_declared_time t = { 0 };
	struct braid_declared_pmc p;
	char text[sizeof(right)];
	size_t k;

	CHECK_EQ(pmc_flags(&t, right), 0);
	CHECK_EQ(t.kind, BRAID_DECLARED_PTP);
	CHECK_EQ(t.bound_ns, 250 + 128 + 2796 + 1);
	CHECK_EQ(t.time_ns, NOW_NS);
	CHECK(llabs((s64)(t.measured_ns - (HOST_NS - 100000000))) < 1000);
	CHECK_EQ(pmc_flags(&t, PMC("UNCALIBRATED", "SOFTWARE", "0x22", "0")),
		 BRAID_DECLARED_UNSYNCHRONIZED);
	CHECK_EQ(pmc_flags(&t, PMC("SLAVE", "SOFTWARE", "0xfe", "0")), BRAID_DECLARED_NO_ERROR);
	CHECK_EQ(pmc_flags(&t, PMC("SLAVE", "SOFTWARE", "0x31", "0")), BRAID_DECLARED_NO_ERROR);
	/* A network card's clock is of TAI: it must be known how far that is from UTC. */
	CHECK_EQ(pmc_flags(&t, PMC("SLAVE", "HARDWARE", "0x21", "1")), 0);
	CHECK_EQ(t.time_ns, NOW_NS - 37000000000ULL);
	CHECK_EQ(t.bound_ns, 100 + 128 + 2796 + 1);
	CHECK_EQ(pmc_flags(&t, PMC("SLAVE", "HARDWARE", "0x21", "0")),
		 BRAID_DECLARED_UNSYNCHRONIZED);
	CHECK(!braid_declared_read_pmc(&p, ""));
	CHECK(!braid_declared_read_pmc(&p, "sending: GET TIME_STATUS_NP\n"));
	/* Truncated anywhere: an answer, or none. */
	for (k = 0; k < sizeof(right); k++) {
		memcpy(text, right, k);
		text[k] = 0;
		if (braid_declared_read_pmc(&p, text))
			CHECK(k > sizeof(right) - 8);
	}
}

static const struct braid_vmclock_page page_right = {
	.magic = BRAID_VMCLOCK_MAGIC, .version = BRAID_VMCLOCK_VERSION, .size = 112,
	.counter_id = BRAID_VMCLOCK_TSC, .time_type = BRAID_VM_TAI, .disruption_marker = 7,
	.flags = BRAID_VMCLOCK_TAI_OFFSET | BRAID_VMCLOCK_PERIOD_MAXERROR |
		 BRAID_VMCLOCK_TIME_MAXERROR,
	.clock_status = BRAID_VM_SYNCHRONIZED, .tai_offset_sec = 37,
	.counter_value = 1000, .period = 18446744073ULL, .period_maxerror = 18446744,
	.time_sec = NOW_NS / 1000000000, .time_maxerror_ns = 100,
};

static void vmclock(void)
{
	struct braid_vmclock_page page = page_right;
	struct braid_declared_time t = { 0 };
	struct braid_vmclock now;

	CHECK_EQ(braid_vmclock_check(&page, sizeof(page)), 112);
	CHECK_EQ(braid_vmclock_check(&page, 111), 0);
	/* 1 GHz, a second later; the period is off by 0.1 % at most. */
	braid_vmclock_evaluate(&page, BRAID_VMCLOCK_TSC, 1000 + 1000000000ULL, &now);
	CHECK(braid_declared_vmclock(&t, &page, &now, &moment));
	CHECK_EQ(t.flags, 0);
	CHECK(llabs((s64)(t.time_ns - (NOW_NS / 1000000000 - 37 + 1) * 1000000000)) < 5);
	CHECK(t.bound_ns > 1000000 && t.bound_ns < 1000200);
#define VMCLOCK_FLAGS(change, wanted)								\
	do {											\
		page = page_right;								\
		change;										\
		braid_vmclock_evaluate(&page, BRAID_VMCLOCK_TSC, 2000, &now);			\
		CHECK(braid_declared_vmclock(&t, &page, &now, &moment));			\
		CHECK_EQ(t.flags, wanted);							\
	} while (0)
	VMCLOCK_FLAGS(page.time_type = BRAID_VM_UTC, 0);
	VMCLOCK_FLAGS(page.time_type = BRAID_VM_MONOTONIC, BRAID_DECLARED_UNSYNCHRONIZED);
	VMCLOCK_FLAGS(page.flags &= ~(u64)BRAID_VMCLOCK_TAI_OFFSET, BRAID_DECLARED_UNSYNCHRONIZED);
	VMCLOCK_FLAGS(page.flags &= ~(u64)BRAID_VMCLOCK_TIME_MAXERROR, BRAID_DECLARED_NO_ERROR);
	VMCLOCK_FLAGS(page.clock_status = BRAID_VM_FREERUNNING, BRAID_DECLARED_UNSYNCHRONIZED);
	page.counter_id = BRAID_VMCLOCK_NONE;		/* QEMU: the marker alone */
	braid_vmclock_evaluate(&page, BRAID_VMCLOCK_TSC, 2000, &now);
	CHECK(!braid_declared_vmclock(&t, &page, &now, &moment));
}

static u32 judged(struct braid_declared_trust *trust, u32 kind, u64 h1_ns, u64 measured_ns,
		  u64 bound_ns)
{
	struct braid_declared_time t = {
		.kind = kind, .h1_ns = h1_ns, .h2_ns = h1_ns, .measured_ns = measured_ns,
		.bound_ns = bound_ns, .flags = bound_ns ? 0 : BRAID_DECLARED_UNSYNCHRONIZED,
	};

	braid_declared_judge(trust, &t);
	return t.flags;
}

static void trust(void)
{
	struct braid_declared_trust trust = { 0 };

	CHECK_EQ(judged(&trust, BRAID_DECLARED_CHRONY, 1000, 0, 5), 0);
	CHECK_EQ(judged(&trust, BRAID_DECLARED_NTP, 1000, 0, 5), 0);
	/* A step: until it has measured. */
	braid_declared_disrupted(&trust, 2000);
	CHECK_EQ(judged(&trust, BRAID_DECLARED_CHRONY, 2100, 1900, 5), BRAID_DECLARED_UNCONFIRMED);
	CHECK_EQ(judged(&trust, BRAID_DECLARED_CHRONY, 3000, 2500, 5), 0);
	/* The kernel's error grows, until a daemon states another one. */
	CHECK_EQ(judged(&trust, BRAID_DECLARED_NTP, 2100, 0, 6), BRAID_DECLARED_UNCONFIRMED);
	CHECK_EQ(judged(&trust, BRAID_DECLARED_NTP, 2200, 0, 7), BRAID_DECLARED_UNCONFIRMED);
	CHECK_EQ(judged(&trust, BRAID_DECLARED_NTP, 2300, 0, 3), 0);
	CHECK_EQ(judged(&trust, BRAID_DECLARED_NTP, 2400, 0, 4), 0);
	/* Unsynchronized, and then not any more, with a larger error than before. */
	braid_declared_disrupted(&trust, 3000);
	CHECK_EQ(judged(&trust, BRAID_DECLARED_NTP, 3100, 0, 0),
		 BRAID_DECLARED_UNSYNCHRONIZED | BRAID_DECLARED_UNCONFIRMED);
	CHECK_EQ(judged(&trust, BRAID_DECLARED_NTP, 3200, 0, 9), 0);
	/* A migration, by vmclock's marker. */
	braid_declared_marker(&trust, 7, 4000);
	CHECK_EQ(judged(&trust, BRAID_DECLARED_CHRONY, 4100, 3900, 5), 0);
	braid_declared_marker(&trust, 7, 4200);
	CHECK_EQ(judged(&trust, BRAID_DECLARED_CHRONY, 4300, 3900, 5), 0);
	braid_declared_marker(&trust, 8, 4400);
	CHECK_EQ(judged(&trust, BRAID_DECLARED_CHRONY, 4500, 3900, 5), BRAID_DECLARED_UNCONFIRMED);
	CHECK_EQ(judged(&trust, BRAID_DECLARED_VMCLOCK, 4500, 4500, 5), 0);
}

/* The helper, on this machine: whatever the kernel says is there, once more at the end. */
static void helper(void)
{
	struct braid_declared d = { .fd = -1 };
	struct braid_capture_reader *r;
	struct braid_capture_writer *w;
	struct braid_declared_time t;
	struct braid_chunk_view v;
	struct braid_chunk_file head;
	struct timex x = { 0 };
	u64 from = braid_host_clock_ns(), to;
	bool synchronized = adjtimex(&x) == TIME_OK && !(x.status & STA_UNSYNC);
	char path[64];
	u32 nr = 0;

	snprintf(path, sizeof(path), "/tmp/test_declared.%d", (int)getpid());
	w = synth_capture(path);
	CHECK_EQ(braid_declared_turn(&d, w, false), 0);
	NEED(!braid_declared_start(&d));
	/* It answers the last question before it ends. */
	while (!nr) {
		struct braid_declared_time peek;

		nr = recv(d.fd, &peek, sizeof(peek), MSG_PEEK) > 0;
	}
	NEED(!braid_declared_turn(&d, w, true));
	to = braid_host_clock_ns();
	braid_declared_stop(&d);
	NEED(!braid_capture_finish(w));
	NEED(!braid_capture_open(&r, path, &head));
	for (nr = 0; braid_capture_next(r, &v) > 0;) {
		u32 at = 0;

		if (v.type != BRAID_CHUNK_DECLARED)
			continue;
		while (braid_view_take(&v, &at, &t, sizeof(t))) {
			CHECK(t.h1_ns >= from && t.h1_ns <= t.h2_ns && t.h2_ns <= to);
			nr += t.kind == BRAID_DECLARED_NTP;
			if (t.kind == BRAID_DECLARED_NTP && !synchronized)
				CHECK(t.flags & BRAID_DECLARED_UNSYNCHRONIZED);
		}
	}
	CHECK_EQ(nr, 2);
	braid_capture_close(r);
	unlink(path);
}

int main(void)
{
	RUN(chrony);
	RUN(kernel);
	RUN(ptp);
	RUN(vmclock);
	RUN(trust);
	RUN(helper);
	return VERDICT();
}
