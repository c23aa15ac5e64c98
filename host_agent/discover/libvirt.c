// SPDX-License-Identifier: GPL-2.0-or-later
/* Connects to libvirt and describes its domains. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/discover/libvirt_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

/* Else the library prints. */
static void say_nothing(void *arg, virErrorPtr error)
{
	(void)arg;
	(void)error;
}

int braid_libvirt_fail(int err, const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	return braid_fail(err, "%s: %s", line, virGetLastErrorMessage());
}

int braid_libvirt_open(virConnectPtr *conn, const char *uri, bool writable)
{
	if (!uri || !*uri)
		uri = getenv("LIBVIRT_DEFAULT_URI");
	if (!uri || !*uri)
		uri = "qemu:///system";
	virSetErrorFunc(NULL, say_nothing);
	*conn = writable ? virConnectOpen(uri) : virConnectOpenReadOnly(uri);
	return *conn ? 0 : braid_libvirt_fail(-ENOTCONN, "no connection to libvirt at %s", uri);
}

int braid_libvirt_domain(virConnectPtr conn, const char *word, virDomainPtr *dom)
{
	*dom = virDomainLookupByName(conn, word);
	if (!*dom)
		*dom = virDomainLookupByUUIDString(conn, word);
	return *dom ? 0 : braid_fail(-ENOENT, "libvirt knows no domain '%s'; 'tracebraid list' shows all",
				     word);
}

void braid_libvirt_name(virDomainPtr dom, char *name)
{
	snprintf(name, BRAID_GUEST_NAME_BYTES, "%s", virDomainGetName(dom));
	braid_text_clean(name);
}

static const char *state_name(int state)
{
	static const char *const names[] = {
		[VIR_DOMAIN_NOSTATE] = "no state",
		[VIR_DOMAIN_RUNNING] = "running",
		[VIR_DOMAIN_BLOCKED] = "idle",
		[VIR_DOMAIN_PAUSED] = "paused",
		[VIR_DOMAIN_SHUTDOWN] = "in shutdown",
		[VIR_DOMAIN_SHUTOFF] = "shut off",
		[VIR_DOMAIN_CRASHED] = "crashed",
		[VIR_DOMAIN_PMSUSPENDED] = "pmsuspended",
	};

	return state >= 0 && state < (int)(sizeof(names) / sizeof(names[0])) ? names[state] : names[0];
}

/* What a domain has, by its live or its inactive XML; *has tells. */
static int find_region(virDomainPtr dom, struct braid_domain *domain, const char *usual,
		       unsigned int flags, bool *has)
{
	braid_auto_free char *xml = virDomainGetXMLDesc(dom, flags);
	struct braid_shmem shmem;
	int err;

	if (!xml)
		return braid_libvirt_fail(-EIO, "%s", domain->name);
	err = braid_shmem_find(xml, usual, &shmem);
	if (err)
		return err;
	*has = *shmem.name;
	if (*has && !*domain->path) {
		snprintf(domain->path, sizeof(domain->path), BRAID_SHM_DIR "%s", shmem.name);
		domain->bytes = shmem.bytes;
	}
	if (!*has && *shmem.blank)
		snprintf(domain->blank, sizeof(domain->blank), BRAID_SHM_DIR "%s", shmem.blank);
	free(shmem.xml);
	return 0;
}

int braid_libvirt_describe(virDomainPtr dom, struct braid_domain *domain)
{
	char uuid[VIR_UUID_STRING_BUFLEN] = "", usual[200];
	int state = VIR_DOMAIN_NOSTATE, err = 0;

	memset(domain, 0, sizeof(*domain));
	braid_libvirt_name(dom, domain->name);
	virDomainGetUUIDString(dom, uuid);
	braid_shmem_name(virDomainGetName(dom), uuid, usual, sizeof(usual));
	domain->active = virDomainIsActive(dom) == 1;
	virDomainGetState(dom, &state, NULL, 0);
	domain->state = state_name(state);
	if (domain->active) {
		domain->qemu_pid = braid_qemu_of_uuid(uuid);
		err = find_region(dom, domain, usual, 0, &domain->attached);
	}
	if (!err && virDomainIsPersistent(dom) == 1)
		err = find_region(dom, domain, usual, VIR_DOMAIN_XML_INACTIVE, &domain->configured);
	return err;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct braid_domain *)a)->name, ((const struct braid_domain *)b)->name);
}

int braid_domains_list(const char *uri, struct braid_domain **domains, size_t *nr)
{
	struct braid_domain one, *all = NULL;
	virDomainPtr *doms = NULL;
	size_t found = 0, capacity = 0;
	virConnectPtr conn;
	int k, n, err;

	err = braid_libvirt_open(&conn, uri, false);
	if (err)
		return err;
	n = virConnectListAllDomains(conn, &doms, 0);
	if (n < 0)
		err = braid_libvirt_fail(-EIO, "libvirt's domains");
	for (k = 0; k < n; k++) {
		/* One that went meanwhile is none. */
		if (!err && !braid_libvirt_describe(doms[k], &one) &&
		    braid_array_push(all, found, capacity, one))
			err = braid_fail(-ENOMEM, "out of memory");
		virDomainFree(doms[k]);
	}
	free(doms);
	virConnectClose(conn);
	if (err) {
		free(all);
		return err;
	}
	if (found)
		qsort(all, found, sizeof(*all), by_name);
	*domains = all;
	*nr = found;
	return 0;
}
