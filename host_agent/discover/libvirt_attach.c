// SPDX-License-Identifier: GPL-2.0-or-later
/* Attaches a region to a domain, and detaches it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/discover/libvirt_private.h"
#include "host_agent/discover/region_file.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/folder.h"
#include "host_agent/util/text.h"

#define CHECK_NS		100000000ULL	/* interval between checks for a device's removal */
#define UNMAP_NS	3000000000ULL
#define FILE_MODE	0660	/* the domain's QEMU may run as user or group */

/* One request at work. */
struct job {
	const struct braid_domain_request *o;
	struct braid_domain_result *result;
	virConnectPtr conn;
	virDomainPtr dom;
	char usual[200];	/* the name of the file that attach makes */
};

static void close_job(struct job *j)
{
	if (j->dom)
		virDomainFree(j->dom);
	if (j->conn)
		virConnectClose(j->conn);
}

static int open_job(struct job *j, bool writable)
{
	char uuid[VIR_UUID_STRING_BUFLEN] = "";
	int err;

	memset(j->result, 0, sizeof(*j->result));
	err = braid_libvirt_open(&j->conn, j->o->uri, writable);
	if (!err)
		err = braid_libvirt_domain(j->conn, j->o->domain, &j->dom);
	if (err)
		return err;
	virDomainGetUUIDString(j->dom, uuid);
	braid_shmem_name(virDomainGetName(j->dom), uuid, j->usual, sizeof(j->usual));
	return braid_libvirt_describe(j->dom, &j->result->domain);
}

/* The owner that the file needs: the user that libvirt runs this domain's QEMU as. */
static int find_owner(struct job *j)
{
	braid_auto_free char *xml = virDomainGetXMLDesc(j->dom, 0);
	braid_auto_free char *host = virConnectGetCapabilities(j->conn);
	int err = xml ? braid_dac_owner(xml, &j->result->uid, &j->result->gid) : -ENODATA;

	if (err == -ENODATA && host)
		err = braid_dac_owner(host, &j->result->uid, &j->result->gid);
	if (err == -ENODATA) {	/* a libvirt of a user's own */
		j->result->uid = geteuid();
		j->result->gid = getegid();
		err = 0;
	}
	return err;
}

/* Attach -------------------------------------------------------------------------------- */

/* AppArmor's profile of this domain lists the files that were in its XML when it started. */
static int explain_denied(const struct job *j)
{
	const struct braid_domain *domain = &j->result->domain;
	char uuid[VIR_UUID_STRING_BUFLEN] = "";

	virDomainGetUUIDString(j->dom, uuid);
	return braid_fail(-EACCES, "%s: its QEMU is not permitted to open %s (Permission denied). If AppArmor confines it: run 'tracebraid attach --config %s', shut the domain down and start it, and libvirt then allows it; or, to keep it running, add the line '/dev/shm/tracebraid-* rw,' to /etc/apparmor.d/local/abstractions/libvirt-qemu, and 'apparmor_parser -r /etc/apparmor.d/libvirt/libvirt-%s'",
			  domain->name, domain->path, domain->name, uuid);
}

/*
 * Libvirt has no code for these, only text. QEMU's own text is fixed; libvirt's may be translated,
 * so only the advice depends on it.
 */
static int explain(const struct job *j)
{
	const char *name = j->result->domain.name, *why = virGetLastErrorMessage();

	if (strstr(why, "available PCI slots"))
		return braid_fail(-ENOSPC, "%s has no slot for a conventional PCI device: a q35 machine needs a <controller type='pci' model='pcie-to-pci-bridge'/>; 'tracebraid attach --config %s' adds it and the memory to the configuration: then shut the domain down and start it",
				  name, name);
	if (strstr(why, "does not support hotplugging"))
		return braid_fail(-ENOTSUP, "%s cannot be given a device while it runs, because it has no ACPI; run 'tracebraid attach --config %s', then shut it down and start it; or add <features><acpi/></features>",
				  name, name);
	if (strstr(why, "Permission denied"))
		return explain_denied(j);
	return braid_fail(-EIO, "%s: the memory cannot be attached now: %s; 'tracebraid attach --config %s' adds it at the next start",
			  name, why, name);
}

/* Live, in the configuration, or both at once, so that one can't succeed alone. */
static int plug(struct job *j, bool live, bool config, const char *xml)
{
	struct braid_domain_result *result = j->result;
	unsigned int flags = (live ? VIR_DOMAIN_AFFECT_LIVE : 0) |
			     (config ? VIR_DOMAIN_AFFECT_CONFIG : 0);

	if (!virDomainAttachDeviceFlags(j->dom, xml, flags)) {
		result->changed_live = live;
		result->changed_config = config;
		return 0;
	}
	if (!j->o->config)
		return explain(j);
	/* If it is not possible now, for any reason, it may be from the next start on. */
	if (live) {
		snprintf(result->why_later, sizeof(result->why_later), "%s",
			 virGetLastErrorMessage());
		braid_text_clean(result->why_later);
	}
	if (config && (!live || virDomainAttachDeviceFlags(j->dom, xml, VIR_DOMAIN_AFFECT_CONFIG)))
		return braid_libvirt_fail(-EIO, "%s: the memory cannot be added to its configuration",
					  result->domain.name);
	result->changed_config = config;
	return 0;
}

/* Warn of a file that others may read: it shows the guest's activity. */
static void check_mode(struct braid_domain_result *result)
{
	struct stat st;

	if (!lstat(result->domain.path, &st) && st.st_mode & 04)
		snprintf(result->note, sizeof(result->note),
			 "every user of this host can read its trace; run chmod 660 %s",
			 result->domain.path);
}

/* The driver clears the file when the domain starts. */
static void check_unread(struct braid_domain_result *result)
{
	const struct braid_domain *domain = &result->domain;

	if (!*result->note && !domain->active && braid_region_file_unread(domain->path))
		snprintf(result->note, sizeof(result->note),
			 "the file holds a trace that was not recovered, and %s's next start overwrites it: tracebraid recover '%s'",
			 domain->name, domain->name);
}

static int check_request(const struct job *j, bool live)
{
	const struct braid_domain *domain = &j->result->domain;

	if (!live && !j->o->config)
		return braid_fail(-ESHUTDOWN, "%s is %s; start it first, or use --config, which adds the memory at its next start",
				  domain->name, domain->state);
	if (j->o->config && virDomainIsPersistent(j->dom) != 1)
		return braid_fail(-EINVAL, "%s is transient: it has no configuration; omit --config",
				  domain->name);
	return 0;
}

/* A leftover file: clear the data of a former guest. */
static int make_blank(const struct braid_region_file *file, const char *domain)
{
	struct stat st;
	pid_t user = stat(file->path, &st) ? 0 : braid_qemu_of(st.st_dev, st.st_ino);

	if (user)
		return braid_fail(-EBUSY, "%s is in use by process %d: another domain's memory? Detach it there first",
				  file->path, (int)user);
	if (braid_region_file_unread(file->path))
		return braid_fail(-EEXIST, "%s holds a trace that was not recovered: tracebraid recover '%s'; then remove the file, and attach again",
				  file->path, domain);
	return braid_region_file_mark(file);
}

/* Block signals between creating the file and the device: else the file would be left over. */
static void block_signals(sigset_t *before)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, before);
}

/* Makes the file, then plugs; undoes the first when the second fails. */
static int libvirt_attach_give(struct job *j, bool live, bool config)
{
	struct braid_domain_result *result = j->result;
	struct braid_domain *domain = &result->domain;
	struct braid_region_file file = {
		.path = domain->path, .uid = result->uid, .gid = result->gid, .mode = FILE_MODE,
	};
	braid_auto_free char *xml = NULL;
	braid_auto_fd int folder = -1;
	struct stat made;
	const char *name;
	sigset_t before;
	int err;

	if (!*domain->path) {
		snprintf(domain->path, sizeof(domain->path), BRAID_SHM_DIR "%s", j->usual);
		domain->bytes = j->o->bytes;
	}
	name = domain->path + strlen(BRAID_SHM_DIR);
	xml = braid_shmem_xml(name, domain->bytes);
	if (!xml)
		return -EINVAL;
	folder = braid_folder_open(domain->path);
	block_signals(&before);
	file.bytes = domain->bytes;
	err = braid_region_file_make(&file, &made);
	result->file_made = !err && made.st_mode;
	if (!err && !result->file_made)
		err = live ? make_blank(&file, domain->name) : braid_region_file_invite(&file);
	if (!err)
		err = plug(j, live, config, xml);
	if (err && result->file_made)
		braid_folder_remove(folder, braid_folder_name(domain->path), &made);
	if (err)
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

int braid_domain_attach(const struct braid_domain_request *o, struct braid_domain_result *result)
{
	struct braid_domain *domain = &result->domain;
	struct job j = { .o = o, .result = result };
	bool live, config;
	int err = open_job(&j, true);

	if (!err)
		err = check_request(&j, domain->active);
	if (!err)
		err = find_owner(&j);
	live = !err && domain->active && !domain->attached;
	config = !err && o->config && !domain->configured;
	if (live || config)
		err = libvirt_attach_give(&j, live, config);
	if (!err) {
		domain->attached |= result->changed_live;
		domain->configured |= result->changed_config;
		check_mode(result);
		check_unread(result);
	}
	close_job(&j);
	return err;
}

int braid_domain_plan(const struct braid_domain_request *o, struct braid_domain_result *result)
{
	struct braid_domain *domain = &result->domain;
	struct job j = { .o = o, .result = result };
	int err = open_job(&j, false);

	if (!err)
		err = find_owner(&j);
	if (!err) {
		snprintf(domain->path, sizeof(domain->path), BRAID_SHM_DIR "%s", j.usual);
		domain->bytes = o->bytes;
		result->xml = braid_shmem_xml(j.usual, o->bytes);
		if (!result->xml)
			err = -EINVAL;
	}
	close_job(&j);
	return err;
}

/* Detach -------------------------------------------------------------------------------- */

/*
 * The one device that was found at first, in the running domain or in its configuration;
 * "" as name: it is not there.
 */
static int find_device(struct job *j, unsigned int flags, struct braid_shmem *shmem)
{
	braid_auto_free char *xml = virDomainGetXMLDesc(j->dom, flags);
	const struct braid_domain *domain = &j->result->domain;

	memset(shmem, 0, sizeof(*shmem));
	if (!xml)
		return braid_libvirt_fail(-EIO, "%s", domain->name);
	return braid_shmem_find_named(xml, domain->path + strlen(BRAID_SHM_DIR), shmem);
}

/* A guest may release a device late, or never. */
static int wait_for_end(struct job *j)
{
	const struct timespec step = { .tv_nsec = CHECK_NS };
	struct braid_shmem shmem;
	u64 waited;
	int err;

	for (waited = 0; ; waited += CHECK_NS) {
		if (virDomainIsActive(j->dom) != 1)
			return 0;
		err = find_device(j, 0, &shmem);
		free(shmem.xml);
		if (err || !*shmem.name)
			return err;
		if (waited >= j->o->timeout_ns)
			return braid_fail(-ETIMEDOUT, "%s did not release the memory within %llu s; its kernel may not be running; retry with a longer --timeout, or shut the domain down",
					  j->result->domain.name,
					  (unsigned long long)(j->o->timeout_ns / 1000000000));
		nanosleep(&step, NULL);
	}
}

static int unplug_live(struct job *j)
{
	struct braid_shmem shmem;
	int err = find_device(j, 0, &shmem);

	/* A failure may be no more than a slow guest's: what counts is whether it goes. */
	if (!err && *shmem.name &&
	    virDomainDetachDeviceFlags(j->dom, shmem.xml, VIR_DOMAIN_AFFECT_LIVE) &&
	    virGetLastErrorCode() != VIR_ERR_OPERATION_TIMEOUT &&
	    virGetLastErrorCode() != VIR_ERR_OPERATION_FAILED)
		err = braid_libvirt_fail(-EIO, "%s: the memory cannot be detached",
					 j->result->domain.name);
	free(shmem.xml);
	return err ? err : wait_for_end(j);
}

static int unplug_config(struct job *j)
{
	struct braid_shmem shmem;
	int err = find_device(j, VIR_DOMAIN_XML_INACTIVE, &shmem);

	if (!err && *shmem.name &&
	    virDomainDetachDeviceFlags(j->dom, shmem.xml, VIR_DOMAIN_AFFECT_CONFIG))
		err = braid_libvirt_fail(-EIO, "%s: the memory cannot be removed from its configuration",
					 j->result->domain.name);
	if (!err && *shmem.name)
		j->result->changed_config = true;
	else if (!err)
		snprintf(j->result->note, sizeof(j->result->note),
			 "its configuration still has another region; detach again to remove it");
	free(shmem.xml);
	return err;
}

/* The guest first: one that keeps it keeps its configuration too. */
static int unplug(struct job *j)
{
	struct braid_domain_result *result = j->result;
	int err = 0;

	if (result->domain.attached) {
		err = unplug_live(j);
		result->changed_live = !err;
	}
	if (!err && result->domain.configured)
		err = unplug_config(j);
	return err;
}

/* The QEMU that maps a file, or 0: it unmaps it a moment after the device has gone. */
static pid_t wait_for_unmap(const struct stat *file)
{
	const struct timespec step = { .tv_nsec = CHECK_NS };
	pid_t user = braid_qemu_of(file->st_dev, file->st_ino);
	u64 waited;

	for (waited = 0; user && waited < UNMAP_NS; waited += CHECK_NS) {
		nanosleep(&step, NULL);
		user = braid_qemu_of(file->st_dev, file->st_ino);
	}
	return user;
}

/* Removes what attach has made, and says why if it leaves something. */
static void remove_file(struct braid_domain_result *result, const char *usual)
{
	const char *path = result->domain.path, *name = braid_folder_name(path);
	braid_auto_fd int folder = braid_folder_open(path);
	struct stat st;
	pid_t user;
	int err;

	if (folder < 0 || fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW))
		return;
	user = wait_for_unmap(&st);
	if (strcmp(name, usual) || !braid_shmem_file_ours(&st, result->domain.bytes, result->uid)) {
		snprintf(result->note, sizeof(result->note), "%s was not removed: attach did not create it",
			 path);
		return;
	}
	if (user) {
		snprintf(result->note, sizeof(result->note), "%s was not removed: process %d uses it", path,
			 (int)user);
		return;
	}
	err = braid_folder_remove(folder, name, &st);
	result->file_removed = !err;
	if (err)
		snprintf(result->note, sizeof(result->note), "%s was not removed: %s", path,
			 err == -ESTALE ? "another file has its name now" : strerror(-err));
}

/* A domain that stopped without its file: the size is the file's own. */
static void find_left_over(struct job *j)
{
	struct braid_domain *domain = &j->result->domain;
	struct stat st;

	if (*domain->path)
		return;
	snprintf(domain->path, sizeof(domain->path), BRAID_SHM_DIR "%s", j->usual);
	if (!lstat(domain->path, &st))
		domain->bytes = st.st_size;
}

int braid_domain_detach(const struct braid_domain_request *o, struct braid_domain_result *result)
{
	struct job j = { .o = o, .result = result };
	struct braid_mapping *m = NULL;
	int err = open_job(&j, true);

	if (!err)
		err = find_owner(&j);
	if (!err)
		find_left_over(&j);
	/* Locked until all is done: no recording can begin meanwhile. */
	if (!err && braid_mapping_take(&m, result->domain.path) == -EBUSY)
		err = -EBUSY;
	if (!err)
		err = unplug(&j);
	if (!err)
		remove_file(result, j.usual);
	braid_mapping_close(m);
	close_job(&j);
	return err;
}
