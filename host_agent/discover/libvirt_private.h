/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files that talk to libvirt share among themselves. */
#ifndef BRAID_DISCOVER_LIBVIRT_PRIVATE_H
#define BRAID_DISCOVER_LIBVIRT_PRIVATE_H

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <sys/stat.h>

#include "host_agent/discover/libvirt.h"

/* A <shmem> that is a region. */
struct braid_shmem {
	char name[200];		/* of the file in /dev/shm; "": none */
	u64 bytes;
	char *xml;		/* the whole element; free() */
	char blank[200];	/* of one that may be intended as a region, or "" */
};

/* braid_fail() with libvirt's own message appended. */
int braid_libvirt_fail(int err, const char *format, ...)
	__attribute__((__format__(printf, 2, 3)));

/* Whether it is this host's libvirt that a URI names. */
bool braid_uri_is_local(const char *uri);

/* Connects to this host's; -errno with braid_fail(). */
int braid_libvirt_open(virConnectPtr *conn, const char *uri, bool writable);

/* By name, UUID or id; -ENOENT with braid_fail(). */
int braid_libvirt_domain(virConnectPtr conn, const char *word, virDomainPtr *dom);

/* Fills in all of a domain that libvirt knows; 0 or -errno with braid_fail(). */
int braid_libvirt_describe(virDomainPtr dom, struct braid_domain *domain);

/* Copies a domain's name, sanitized. */
void braid_libvirt_name(virDomainPtr dom, char *name);

/* The name of the file that attach creates for a domain. */
void braid_shmem_name(const char *domain, const char *uuid, char *to, size_t room);

/*
 * Finds the region among a domain's devices: the one created by attach, else one that holds a
 * region or the mark, else one with a region's name. Any other belongs to another program: Looking Glass's, too, is
 * blank before its user starts. xml: of the domain; usual: braid_shmem_name()'s. 0 (also if there
 * is none) or -errno with braid_fail().
 */
int braid_shmem_find(const char *xml, const char *usual, struct braid_shmem *shmem);

/* Finds the device of that name; as above. */
int braid_shmem_find_named(const char *xml, const char *name, struct braid_shmem *shmem);

/* The device's element, to be attached; NULL with braid_fail(): no plain name, or no memory. */
char *braid_shmem_xml(const char *name, u64 bytes);

/*
 * Reads "user and group of QEMU" off a domain's or the host's XML.
 * 0; -ENODATA: it does not say; -EINVAL with braid_fail().
 */
int braid_dac_owner(const char *xml, uid_t *uid, gid_t *gid);

/* Whether it is a file that attach can have made. */
bool braid_shmem_file_ours(const struct stat *st, u64 bytes, uid_t uid);

#endif /* BRAID_DISCOVER_LIBVIRT_PRIVATE_H */
