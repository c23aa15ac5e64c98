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
	struct stat st;

	if (!err)
		err = check_name(part, options);
	if (err)
		return err;
	if (!lstat(path, &st) && S_ISLNK(st.st_mode))	/* /dev/stdout, for instance */
		return braid_fail(-ELOOP, "cannot create '%s': it is a symbolic link; name the file itself",
				  path);
	unlink(part);	/* it may be a link, or of another mode */
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);	/* private as the capture */
	return fd >= 0 ? fd :
	       braid_fail(-errno, "cannot create '%s': %s", path, strerror(errno));
}

/* A file that is not regular is written directly. */
static int open_special(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 ? fd :
	       braid_fail(-errno, "cannot write to '%s': %s", path, strerror(errno));
}

int braid_export_file_open(struct braid_export_file *f, const char *out,
			   const struct braid_export_options *options)
{
	struct stat st;
	int fd;

	f->out = out;
	f->to = stdout;
	f->direct = true;
	if (!strcmp(out, "-"))
		return 0;
	f->direct = !stat(out, &st) && !S_ISREG(st.st_mode);
	if (snprintf(f->part, sizeof(f->part), f->direct ? "%s" : "%s.part", out) >= (int)sizeof(f->part))
		return braid_fail(-ENAMETOOLONG, "the name of the output file is too long");
	fd = f->direct ? open_special(out) : braid_export_create(out, f->part, options);
	if (fd < 0)
		return fd;
	f->to = fdopen(fd, "w");
	if (f->to)
		return 0;
	close(fd);
	if (!f->direct)
		unlink(f->part);
	return braid_out_of_memory();
}

int braid_export_file_close(struct braid_export_file *f, int err)
{
	if (f->to == stdout)
		return err;
	if (fclose(f->to) && !err)
		err = braid_fail(-errno, "cannot write '%s': %s", f->out, strerror(errno));
	if (!err && !f->direct && rename(f->part, f->out))
		err = braid_fail(-errno, "cannot rename '%s' to '%s': %s", f->part, f->out,
				 strerror(errno));
	if (err && !f->direct)
		unlink(f->part);
	return err;
}

int braid_export_to_file(const char *out, struct braid_source *source,
			 const struct braid_export_options *options,
			 struct braid_export_totals *totals,
			 int (*write)(FILE *to, struct braid_source *source,
				      const struct braid_export_options *options,
				      struct braid_export_totals *totals))
{
	struct braid_export_file f;
	int err = braid_export_file_open(&f, out, options);

	return err ? err : braid_export_file_close(&f, write(f.to, source, options, totals));
}
