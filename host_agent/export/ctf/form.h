/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The form "ctf": Common Trace Format 1.8, one trace a stream; see docs/ctf.md. */
#ifndef BRAID_EXPORT_CTF_FORM_H
#define BRAID_EXPORT_CTF_FORM_H

#include "host_agent/walk/options.h"

/** braid_export_ctf - the form's run(); @out is a folder */
int braid_export_ctf(const char *out, struct braid_source *source,
		     const struct braid_walk_options *options,
		     struct braid_walk_totals *totals);

#endif /* BRAID_EXPORT_CTF_FORM_H */
