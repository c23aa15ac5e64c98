/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Prints an event's fields one by one, without its print format. */
#ifndef BRAID_FORMAT_FIELDS_H
#define BRAID_FORMAT_FIELDS_H

#include "host_agent/format/private.h"

/**
 * braid_fields_text - append "name=value name=value"
 * @event: whose payload passed braid_vet_payload()
 * @data: the payload
 * @bytes: of it
 * @out: extended
 */
void braid_fields_text(const struct tep_event *event, const u8 *data, u32 bytes,
		       struct braid_text *out);

/**
 * braid_fields_json - append {"name":value,...}
 * @event: whose payload passed braid_vet_payload()
 * @data: the payload
 * @bytes: of it
 * @out: extended
 */
void braid_fields_json(const struct tep_event *event, const u8 *data, u32 bytes,
		       struct braid_text *out);

#endif /* BRAID_FORMAT_FIELDS_H */
