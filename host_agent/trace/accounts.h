/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A stream's accounts of filters and probes. */
#ifndef BRAID_TRACE_ACCOUNTS_H
#define BRAID_TRACE_ACCOUNTS_H

#include <stddef.h>

#include "host_agent/capture/account.h"

/* What a guest counted at a filter or probe, in one capture. */
struct braid_stream_account {
	u32 file;		/* number of the capture */
	struct braid_account row;	/* sanitized */
};

/* Those of one kind, each once a capture. */
struct braid_stream_accounts {
	struct braid_stream_account *items;
	size_t nr;
};

#endif /* BRAID_TRACE_ACCOUNTS_H */
