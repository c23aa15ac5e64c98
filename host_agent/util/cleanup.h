/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Scope guards: what a function acquired is released when its scope ends. */
#ifndef BRAID_UTIL_CLEANUP_H
#define BRAID_UTIL_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void braid_cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void braid_cleanup_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void braid_cleanup_file(FILE **file)
{
	if (*file)
		fclose(*file);
}

static inline void braid_cleanup_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* free() at the end of the scope; the pointer must be initialized */
#define braid_auto_free		__attribute__((__cleanup__(braid_cleanup_free)))
/* close() at the end of the scope, if not negative */
#define braid_auto_fd		__attribute__((__cleanup__(braid_cleanup_fd)))
/* fclose() at the end of the scope, if not NULL */
#define braid_auto_file		__attribute__((__cleanup__(braid_cleanup_file)))
/* closedir() at the end of the scope, if not NULL */
#define braid_auto_dir		__attribute__((__cleanup__(braid_cleanup_dir)))

/* Transfers ownership of a guarded pointer. */
#define braid_take(p)							\
	({								\
		__typeof__(p) taken_ = (p);				\
		(p) = NULL;						\
		taken_;							\
	})

#endif /* BRAID_UTIL_CLEANUP_H */
