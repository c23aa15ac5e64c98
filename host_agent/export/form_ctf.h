/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The form "ctf": Common Trace Format 1.8, one trace a stream; see docs/ctf.md. */
#ifndef BRAID_EXPORT_FORM_CTF_H
#define BRAID_EXPORT_FORM_CTF_H

#include "host_agent/export/export.h"

/**
 * braid_export_ctf_prepare - load libbabeltrace2's CTF writer, and allow many open files
 *
 * A confined process can do neither.
 *
 * Return: 0, or -ENOENT with braid_fail().
 */
int braid_export_ctf_prepare(void);

/** braid_export_ctf - the form's run(); @out is a folder */
int braid_export_ctf(const char *out, struct braid_source *source,
		     const struct braid_export_options *options,
		     struct braid_export_totals *totals);

#endif /* BRAID_EXPORT_FORM_CTF_H */
