/* SPDX-License-Identifier: GPL-2.0 */
/* Reads the format files of the kernel's events, which only tracefs has. */
#ifndef BRAID_SOURCE_TRACEFS_H
#define BRAID_SOURCE_TRACEFS_H

#include <linux/types.h>

/**
 * braid_tracefs_open - mount tracefs privately
 *
 * Context: may sleep. Return: 0 or -errno.
 */
int braid_tracefs_open(void);

/** braid_tracefs_close - undo braid_tracefs_open() */
void braid_tracefs_close(void);

/**
 * braid_tracefs_format - read an event's format file
 * @system: of the event
 * @name: likewise
 *
 * Context: may sleep. Return: the text, to be freed with kfree(), or an ERR_PTR: -ENOENT.
 */
char *braid_tracefs_format(const char *system, const char *name);

/**
 * braid_tracefs_printk_formats - read the list of texts at constant addresses
 *
 * While tracefs is not open here. A list that is too long is cut after a line, and the kernel log
 * says so.
 *
 * Context: may sleep. Return: the list, to be freed with kvfree(), or an ERR_PTR.
 */
char *braid_tracefs_printk_formats(void);

/**
 * braid_tracefs_id - read an event's id from a format text
 * @format: the text, or its first two lines
 *
 * Return: the id, or -EINVAL.
 */
int braid_tracefs_id(const char *format);

/**
 * braid_tracefs_walk - walk all events
 * @found: called for each; nonzero ends the walk
 * @arg: passed to it
 *
 * Context: may sleep. Return: 0 or -errno.
 */
int braid_tracefs_walk(int (*found)(const char *system, const char *name, int id, void *arg),
		       void *arg);

#endif /* BRAID_SOURCE_TRACEFS_H */
