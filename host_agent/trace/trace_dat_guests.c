// SPDX-License-Identifier: GPL-2.0-or-later
/* Guests that `trace-cmd record -A` recorded beside their host: ties their files to the host's. */
#include <stdio.h>
#include <string.h>

#include "host_agent/trace/trace_dat.h"
#include "host_agent/util/error.h"

/* What a host's file lists of a guest's; NULL: it does not. */
static struct braid_dat_guest *listed(const struct braid_trace_dat *host,
				      const struct braid_trace_dat *guest)
{
	size_t k;

	for (k = 0; guest->trace_id && k < host->nr_guests; k++)
		if (host->guests[k].trace_id == guest->trace_id)
			return &host->guests[k];
	return NULL;
}

/* A guest's file names the trace of its host as its peer. A guest's file is not a host's. */
static bool is_host_of(const struct braid_trace_dat *host, const struct braid_trace_dat *guest)
{
	return host != guest && !host->of_guest &&
	       (listed(host, guest) ||
		(guest->of_guest && host->trace_id && guest->times.peer_id == host->trace_id));
}

/* A thread that each of several vCPUs has runs all of them. */
static bool runs_all(const struct braid_dat_guest *guest)
{
	u32 k;

	for (k = 1; k < guest->nr_threads; k++)
		if (guest->threads[k].tid != guest->threads[0].tid)
			return false;
	return guest->nr_threads > 1;
}

static const char *base_of(const struct braid_trace_dat *dat)
{
	const char *slash = strrchr(dat->path, '/');

	return slash ? slash + 1 : dat->path;
}

/*
 * A guest that trace-cmd was given by its vsock CID has that number in the host's list, or no name.
 * Then the name is that of its file: "trace-NAME.dat" beside "trace.dat".
 */
static void name_guest(struct braid_trace_dat *dat, const struct braid_trace_dat *host,
		       const char *name)
{
	const char *of_host = base_of(host), *of_guest = base_of(dat);
	size_t stem = strlen(of_host), n = strlen(of_guest);
	char own[sizeof(dat->path)] = "";

	stem -= stem > 4 && !strcmp(of_host + stem - 4, ".dat") ? 4 : 0;
	if (n > stem + 5 && !strncmp(of_guest, of_host, stem) && of_guest[stem] == '-' &&
	    !strcmp(of_guest + n - 4, ".dat"))
		snprintf(own, sizeof(own), "%.*s", (int)(n - stem - 5), of_guest + stem + 1);
	if (name[strspn(name, "0123456789")] || !*own)
		snprintf(own, sizeof(own), "%s", name);
	if (*own)
		braid_dat_name_stream(dat, own);
}

/* Takes over what the host's file says of it. */
static void describe(struct braid_trace_dat *dat, struct braid_dat_guest *guest)
{
	struct braid_stream *s = &dat->stream->stream;

	if (s->nr_cpus < guest->nr_threads)
		s->nr_cpus = guest->nr_threads;
	if (s->threads)
		return;		/* by another file of the host */
	if (runs_all(guest)) {
		guest->threads[0].vcpu = BRAID_VCPU_ALL;
		guest->nr_threads = 1;
	}
	s->threads = guest->threads;
	s->nr_threads = guest->nr_threads;
	guest->threads = NULL;
	guest->nr_threads = 0;
}

static int tie(struct braid_trace_dat *dat, struct braid_trace_dat *host)
{
	struct braid_stream *s = &dat->stream->stream;
	struct braid_dat_guest *guest = listed(host, dat);

	if (s->nr_cpus > BRAID_MAX_CPUS)
		return braid_dat_broken(dat, "it has too many CPUs");
	dat->host = host;
	s->kind = BRAID_STREAM_GUEST;
	name_guest(dat, host, guest ? guest->name : "");
	if (guest)
		describe(dat, guest);
	/* Its stamps become the host's, so the host's rate and offset apply. */
	if (host->times.multiplier) {
		dat->times.multiplier = host->times.multiplier;
		dat->times.shift = host->times.shift;
	}
	dat->times.offset_ns = host->times.offset_ns;
	return 0;
}

int braid_dat_tie_guests(struct braid_capture_source *cs)
{
	size_t k, n;
	int err = 0;

	for (k = 0; k < cs->nr_files; k++) {
		struct braid_trace_dat *dat = cs->files[k].dat;

		for (n = 0; dat && n < cs->nr_files && !dat->host && !err; n++)
			if (cs->files[n].dat && is_host_of(cs->files[n].dat, dat))
				err = tie(dat, cs->files[n].dat);
		if (err)
			return err;
	}
	return 0;
}
