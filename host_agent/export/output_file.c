// SPDX-License-Identifier: GPL-2.0-or-later
/* Files of exports: whole, or not there. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/export.h"
#include "host_agent/util/error.h"

/* An export must not overwrite its capture. */
static int check_name(const char *path, const struct braid_export_options *options)
{
	struct stat a, b;
	size_t k;

	for (k = 0; k < options->nr_inputs && !stat(path, &a); k++)
		if (!stat(options->inputs[k], &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
			return braid_fail(-EINVAL, "'%s' is an input file: name another output",
					  path);
	return 0;
}

int braid_export_create(const char *path, const char *part,
			const struct braid_export_options *options)
{
	int fd, err = check_name(path, options);

	if (!err)
		err = check_name(part, options);
	if (err)
		return err;
	unlink(part);	/* it may be a link, or of another mode */
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);	/* private as the capture */
	return fd >= 0 ? fd :
	       braid_fail(-errno, "cannot create '%s': %s", part, strerror(errno));
}

/* A file that is not regular is written directly. */
static int open_special(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 ? fd :
	       braid_fail(-errno, "cannot write to '%s': %s", path, strerror(errno));
}

int braid_export_to_file(const char *out, struct braid_source *source,
			 const struct braid_export_options *options,
			 struct braid_export_totals *totals,
			 int (*write)(FILE *to, struct braid_source *source,
				      const struct braid_export_options *options,
				      struct braid_export_totals *totals))
{
	char part[4096];
	struct stat st;
	int fd, err = 0;
	bool direct;
	FILE *to;

	if (!strcmp(out, "-"))
		return write(stdout, source, options, totals);
	direct = !stat(out, &st) && !S_ISREG(st.st_mode);
	if (snprintf(part, sizeof(part), direct ? "%s" : "%s.part", out) >= (int)sizeof(part))
		return braid_fail(-ENAMETOOLONG, "the name of the output file is too long");
	fd = direct ? open_special(out) : braid_export_create(out, part, options);
	if (fd < 0)
		return fd;
	to = fdopen(fd, "w");
	if (to)
		err = write(to, source, options, totals);
	else
		err = braid_out_of_memory();
	if ((to ? fclose(to) : close(fd)) && !err)
		err = braid_fail(-errno, "cannot write '%s': %s", part, strerror(errno));
	if (!err && !direct && rename(part, out))
		err = braid_fail(-errno, "cannot rename '%s' to '%s': %s", part, out,
				 strerror(errno));
	if (err && !direct)
		unlink(part);
	return err;
}
