// SPDX-License-Identifier: GPL-2.0-or-later
/* Memory for the private copy of a region. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "host_agent/transport/post_mortem.h"
#include "host_agent/util/error.h"

struct braid_mapping *braid_post_mortem_mapping(u64 bytes, const char *path)
{
	struct braid_mapping *m = calloc(1, sizeof(*m));

	if (!m || bytes > BRAID_POST_MORTEM_MAX_BYTES) {
		free(m);
		braid_fail(-ENOMEM, "%s: no memory for a region of %llu bytes", path,
			   (unsigned long long)bytes);
		return NULL;
	}
	m->bytes = (bytes + BRAID_PAGE_BYTES - 1) & ~(u64)(BRAID_PAGE_BYTES - 1);
	m->base = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m->base == MAP_FAILED) {
		braid_fail(-errno, "%s: no memory for a region of %llu bytes", path,
			   (unsigned long long)bytes);
		free(m);
		return NULL;
	}
	strncpy(m->path, path, sizeof(m->path) - 1);
	m->fd = -1;
	m->writable = true;
	return m;
}
