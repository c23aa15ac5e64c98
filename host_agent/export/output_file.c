// SPDX-License-Identifier: GPL-2.0-or-later
/* Files of exports: whole, or not there. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/export/export.h"
#include "host_agent/util/error.h"
#include "host_agent/util/folder.h"

/* An export must not overwrite its capture. If an input has two names, say the one in question. */
static int check_name(int folder, const char *name, const struct braid_walk_options *options)
{
	const char *input, *found = NULL;
	struct stat a, b;
	size_t k;

	for (k = 0; k < options->nr_inputs && !fstatat(folder, name, &a, 0); k++) {
		input = options->inputs[k];
		if (!stat(input, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino &&
		    (!found || !strcmp(braid_folder_name(input), name)))
			found = input;
	}
	return found ? braid_fail(-EINVAL, "'%s' is an input file: name another output", found) : 0;
}

int braid_export_create(int folder, const char *path, const char *part,
			const struct braid_walk_options *options, struct stat *made)
{
	const char *name = braid_folder_name(path);
	int fd, err = check_name(folder, name, options);
	struct stat st;

	if (!err)
		err = check_name(folder, part, options);
	if (err)
		return err;
	if (!fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode))
		return braid_fail(-ELOOP, "cannot create '%s': it is a symbolic link; name the file itself",
				  path);	/* /dev/stdout, for instance */
	unlinkat(folder, part, 0);	/* it may be a link, or of another mode */
	/* Private as the capture. */
	fd = openat(folder, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0 && !fstat(fd, made))
		return fd;
	err = braid_fail(-errno, "cannot create '%s': %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return err;
}

int braid_export_complete(int folder, const char *path, const char *part, const struct stat *made)
{
	int err = braid_folder_rename(folder, part, braid_folder_name(path), made);

	if (err == -ESTALE)
		return braid_fail(err, "cannot complete '%s': its unfinished file was removed or replaced; does another process write to it?",
				  path);
	return err ? braid_fail(err, "cannot create '%s': %s", path, strerror(-err)) : 0;
}

/* A file that is not regular is written directly. */
static int open_special(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 ? fd :
	       braid_fail(-errno, "cannot write to '%s': %s", path, strerror(errno));
}

/* A regular file, or a new one. */
static int open_part(struct braid_export_file *f, const struct braid_walk_options *options)
{
	int fd;

	if (snprintf(f->part, sizeof(f->part), "%s.part", braid_folder_name(f->out)) >=
	    (int)sizeof(f->part))
		return braid_fail(-ENAMETOOLONG, "the name of the output file is too long");
	f->folder = braid_folder_open(f->out);
	if (f->folder < 0)
		return braid_fail(f->folder, "cannot create '%s': %s", f->out, strerror(-f->folder));
	fd = braid_export_create(f->folder, f->out, f->part, options, &f->made);
	if (fd < 0)
		close(f->folder);
	return fd;
}

static void drop_part(struct braid_export_file *f, bool removed)
{
	if (f->direct)
		return;
	if (removed)
		braid_folder_remove(f->folder, f->part, &f->made);
	close(f->folder);
}

int braid_export_file_open(struct braid_export_file *f, const char *out,
			   const struct braid_walk_options *options)
{
	struct stat st;
	int fd;

	f->out = out;
	f->to = stdout;
	f->direct = true;
	if (!strcmp(out, "-"))
		return 0;
	f->direct = !stat(out, &st) && !S_ISREG(st.st_mode);
	fd = f->direct ? open_special(out) : open_part(f, options);
	if (fd < 0)
		return fd;
	f->to = fdopen(fd, "w");
	if (f->to)
		return 0;
	close(fd);
	drop_part(f, true);
	return braid_out_of_memory();
}

int braid_export_file_close(struct braid_export_file *f, int err)
{
	if (f->to == stdout)
		return err;
	if (fclose(f->to) && !err)
		err = braid_fail(-errno, "cannot write '%s': %s", f->out, strerror(errno));
	if (!err && !f->direct)
		err = braid_export_complete(f->folder, f->out, f->part, &f->made);
	drop_part(f, err);
	return err;
}

int braid_export_to_file(const char *out, struct braid_source *source,
			 const struct braid_walk_options *options,
			 struct braid_walk_totals *totals,
			 int (*write)(FILE *to, struct braid_source *source,
				      const struct braid_walk_options *options,
				      struct braid_walk_totals *totals))
{
	struct braid_export_file f;
	int err = braid_export_file_open(&f, out, options);

	return err ? err : braid_export_file_close(&f, write(f.to, source, options, totals));
}
