/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names in a folder that was opened once. Who owns a folder above may put another in its place at
 * any time: by a path, we would then rename or remove files there.
 */
#ifndef BRAID_UTIL_FOLDER_H
#define BRAID_UTIL_FOLDER_H

#include <stdbool.h>
#include <sys/stat.h>

/** braid_folder_name - the last part of a path: the name in its folder, "" after a trailing '/' */
const char *braid_folder_name(const char *path);

/**
 * braid_folder_open - open the folder that a file is in, or will be
 * @path: of the file
 *
 * Return: a descriptor for the functions below and for openat() and the like; or -errno, -EISDIR
 * if @path can only be a folder.
 */
int braid_folder_open(const char *path);

/**
 * braid_folder_has - whether a name is still that of the file which we made
 * @folder: of braid_folder_open()
 * @name: in it; a link is not followed
 * @made: of the file, when it was made. While it is open, no other file can have its inode number
 */
bool braid_folder_has(int folder, const char *name, const struct stat *made);

/**
 * braid_folder_remove - remove the file, or the empty folder, that we made
 *
 * Parameters as above. The check and the removal are two system calls: who may write in @folder can
 * come between, but gets no more removed than a name there.
 *
 * Return: 0; -ESTALE: the name is another file's, or none's; or another -errno.
 */
int braid_folder_remove(int folder, const char *name, const struct stat *made);

/**
 * braid_folder_rename - rename the file, or the folder, that we made
 * @to: its new name in the same folder; an existing file is replaced
 *
 * Other parameters and return as above.
 */
int braid_folder_rename(int folder, const char *name, const char *to, const struct stat *made);

#endif /* BRAID_UTIL_FOLDER_H */
