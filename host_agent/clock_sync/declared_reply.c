// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses what daemons and devices declare, and judges whether it can still be trusted. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_sync/declared_reply.h"

#define NS_PER_SECOND	1000000000ULL
#define MOST_ERROR_S	1000.0		/* a larger one is not worth being known */
#define MOST_AGE_S	1e7
#define GROWTH		5e-4		/* of an error, until the clock is read, as the kernel's */
#define KERNEL_STEP_US	500		/* by which the kernel lets its error grow each second */
#define CHRONY_FIELDS	14
#define CHRONY_LOCAL	"7F7F01"	/* reference ids of chronyd's own clock: 127.127.1.x */

static struct braid_declared_time declared_at(enum braid_declared_kind kind,
					      const struct braid_declared_moment *m)
{
	return (struct braid_declared_time){
		.h1_ns = m->h1_ns, .h2_ns = m->h2_ns, .time_ns = m->time_ns, .kind = kind,
	};
}

/* The host's time at which a source measured, by its age. */
static u64 measured_at(u64 host_ns, double age_s)
{
	double age_ns = age_s * 1e9;

	if (!(age_ns > 0))
		return host_ns;
	return age_ns < host_ns ? host_ns - (u64)age_ns : 1;
}

/* chronyd ----------------------------------------------------------------------------------- */

/* Return: whether a field is a finite number. */
static bool number(const char *field, double *value)
{
	char *end;

	*value = strtod(field, &end);
	return end != field && !*end && isfinite(*value);
}

static size_t split(char *text, char *fields[], size_t most)
{
	size_t nr = 0;
	char *at = text, *one;

	text[strcspn(text, "\r\n")] = 0;
	while ((one = strsep(&at, ",")) && nr < most)
		fields[nr++] = one;
	return one ? most + 1 : nr;
}

bool braid_declared_chrony(struct braid_declared_time *t, const char *reply,
			   const struct braid_declared_moment *m)
{
	double measured, off, delay, dispersion, bound_s, elapsed_s;
	char text[512], *fields[CHRONY_FIELDS];

	if (strlen(reply) >= sizeof(text))
		return false;
	strcpy(text, reply);
	if (split(text, fields, CHRONY_FIELDS) != CHRONY_FIELDS || !number(fields[3], &measured) ||
	    !number(fields[4], &off) || !number(fields[10], &delay) ||
	    !number(fields[11], &dispersion))
		return false;
	*t = declared_at(BRAID_DECLARED_CHRONY, m);
	elapsed_s = (double)(m->h2_ns - m->asked_ns) / 1e9;
	bound_s = fabs(off) + fabs(delay) / 2 + dispersion + elapsed_s * GROWTH;
	/* A clock that is its own reference declares nothing about others. */
	if (strcmp(fields[13], "Normal") || !(dispersion >= 0) || bound_s > MOST_ERROR_S ||
	    !strncmp(fields[0], CHRONY_LOCAL, strlen(CHRONY_LOCAL)))
		t->flags |= BRAID_DECLARED_UNSYNCHRONIZED;
	else
		t->bound_ns = (u64)(bound_s * 1e9) + 1;
	if (measured > 0)
		t->measured_ns = measured_at(m->h1_ns, m->time_ns / 1e9 - measured);
	return true;
}

/* The kernel -------------------------------------------------------------------------------- */

bool braid_declared_kernel(struct braid_declared_time *t, const struct timex *x, int state,
			   const struct braid_declared_moment *m)
{
	u64 offset_ns = (u64)labs(x->offset) * (x->status & STA_NANO ? 1 : 1000);

	if (state < 0 || x->maxerror < 0 || x->esterror < 0)
		return false;
	*t = declared_at(BRAID_DECLARED_NTP, m);
	if (state != TIME_OK || x->status & STA_UNSYNC || x->maxerror > MOST_ERROR_S * 1e6)
		t->flags |= BRAID_DECLARED_UNSYNCHRONIZED;
	else if (!x->esterror && !(x->maxerror % KERNEL_STEP_US))
		t->flags |= BRAID_DECLARED_NO_ERROR;	/* both were set to 0 */
	else
		t->bound_ns = (u64)x->maxerror * 1000 + offset_ns;
	return true;
}

/* ptp4l ------------------------------------------------------------------------------------- */

/* Of IEEE 1588, from 0x20 on, in ns. */
static const u64 accuracies_ns[] = {
	25, 100, 250, 1000, 2500, 10000, 25000, 100000, 250000, 1000000, 2500000, 10000000,
	25000000, 100000000, 250000000, 1000000000, 10000000000ULL,
};

/* The word after a name, at most 63 characters. */
static bool word_after(const char *reply, const char *name, char word[64])
{
	const char *at = reply;
	size_t length = strlen(name);

	while ((at = strstr(at, name))) {
		bool whole = (at == reply || strchr(" \t\n", at[-1])) && strchr(" \t", at[length]);

		at += length;
		if (whole)
			return sscanf(at, " %63s", word) == 1;
	}
	return false;
}

static bool number_after(const char *reply, const char *name, double *value)
{
	char word[64];

	return word_after(reply, name, word) && number(word, value);
}

static bool is_word(const char *reply, const char *name, const char *expected)
{
	char word[64];

	return word_after(reply, name, word) && !strcmp(word, expected);
}

static u64 accuracy_of(const char *reply)
{
	unsigned long code;
	char word[64], *end;

	if (!word_after(reply, "gm.ClockAccuracy", word))
		return 0;
	code = strtoul(word, &end, 16);
	if (*end || code < 0x20 || code - 0x20 >= sizeof(accuracies_ns) / sizeof(*accuracies_ns))
		return 0;
	return accuracies_ns[code - 0x20];
}

bool braid_declared_read_pmc(struct braid_declared_pmc *p, const char *reply)
{
	double offset, delay, ahead = 0, measured;
	char timestamping[64], interface[64];

	if (!number_after(reply, "offsetFromMaster", &offset) ||
	    !number_after(reply, "meanPathDelay", &delay) ||
	    !number_after(reply, "ingress_time", &measured) ||
	    !number_after(reply, "currentUtcOffset", &ahead) ||
	    !word_after(reply, "timestamping", timestamping) ||
	    !word_after(reply, "interface", interface) ||
	    strlen(interface) >= sizeof(p->interface) || fabs(offset) > MOST_ERROR_S * 1e9 ||
	    fabs(delay) > MOST_ERROR_S * 1e9 || fabs(ahead) > 1000 || !(measured >= 0) ||
	    measured > 4e18)
		return false;
	*p = (struct braid_declared_pmc){
		.synchronized = is_word(reply, "gmPresent", "true") &&
				is_word(reply, "portState", "SLAVE"),
		.hardware = strcmp(timestamping, "SOFTWARE"),
		.utc = is_word(reply, "currentUtcOffsetValid", "1") &&
		       is_word(reply, "ptpTimescale", "1"),
		.ahead_s = (s64)ahead, .measured_ns = (u64)measured,
		.bound_ns = accuracy_of(reply),
	};
	strcpy(p->interface, interface);
	/* A path as asymmetric as can be makes an error of its whole delay. */
	if (p->bound_ns)
		p->bound_ns += (u64)(fabs(offset) + fabs(delay)) + 1;
	return true;
}

bool braid_declared_ptp(struct braid_declared_time *t, const struct braid_declared_pmc *p,
			const struct braid_declared_moment *m)
{
	*t = declared_at(BRAID_DECLARED_PTP, m);
	if (!p->synchronized || (p->hardware && !p->utc))
		t->flags |= BRAID_DECLARED_UNSYNCHRONIZED;
	else if (!p->bound_ns)
		t->flags |= BRAID_DECLARED_NO_ERROR;
	else
		t->bound_ns = p->bound_ns;
	if (p->hardware)
		t->time_ns -= (u64)p->ahead_s * NS_PER_SECOND;
	t->measured_ns = measured_at(m->h1_ns, ((double)m->time_ns - (double)p->measured_ns) / 1e9);
	return true;
}

/* vmclock ----------------------------------------------------------------------------------- */

bool braid_declared_vmclock(struct braid_declared_time *t, const struct braid_vmclock_page *page,
			    const struct braid_vmclock *now, const struct braid_declared_moment *m)
{
	bool tai = now->time_type == BRAID_VM_TAI;

	if (!(now->flags & BRAID_VM_TIME))
		return false;
	*t = declared_at(BRAID_DECLARED_VMCLOCK, m);
	t->time_ns = now->time_ns;
	t->measured_ns = m->h1_ns;	/* it changes with the marker */
	if (tai)
		t->time_ns -= (u64)(s64)(s16)page->tai_offset_sec * NS_PER_SECOND;
	if (now->status != BRAID_VM_SYNCHRONIZED ||
	    (tai ? !(page->flags & BRAID_VMCLOCK_TAI_OFFSET) : now->time_type != BRAID_VM_UTC))
		t->flags |= BRAID_DECLARED_UNSYNCHRONIZED;
	else if (!(now->flags & BRAID_VM_BOUND))
		t->flags |= BRAID_DECLARED_NO_ERROR;
	else
		t->bound_ns = now->bound_ns;
	return true;
}

/* Trust ------------------------------------------------------------------------------------- */

void braid_declared_disrupted(struct braid_declared_trust *trust, u64 now_ns)
{
	trust->disrupted_ns = now_ns;
}

void braid_declared_marker(struct braid_declared_trust *trust, u64 marker, u64 now_ns)
{
	if (trust->has_marker && marker != trust->marker)
		trust->disrupted_ns = now_ns;
	trust->has_marker = true;
	trust->marker = marker;
}

void braid_declared_judge(struct braid_declared_trust *trust, struct braid_declared_time *t)
{
	if (t->kind == BRAID_DECLARED_NTP) {
		u64 bound_ns = t->flags ? ~0ULL : t->bound_ns;

		/* The kernel lets the error grow; only a daemon that has measured makes it less. */
		if (bound_ns < trust->kernel_ns)
			trust->kernel_measured_ns = t->h1_ns;
		trust->kernel_ns = bound_ns;
		t->measured_ns = trust->kernel_measured_ns;
	}
	if (trust->disrupted_ns && t->measured_ns <= trust->disrupted_ns)
		t->flags |= BRAID_DECLARED_UNCONFIRMED;
}
