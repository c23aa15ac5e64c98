// SPDX-License-Identifier: GPL-2.0-or-later
/* A domain's shared memory: in its XML, and as a file. */
#include <errno.h>
#include <fcntl.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <libxml/xpath.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/discover/libvirt_private.h"
#include "host_agent/discover/region_file.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define MIB		(1ull << 20)
#define PREFIX		"tracebraid-"

/* A name that needs no quoting anywhere. */
static bool is_plain(const char *name)
{
	return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
	       strlen(name);
}

void braid_shmem_name(const char *domain, const char *uuid, char *to, size_t room)
{
	bool plain = is_plain(domain) && strlen(domain) + sizeof(PREFIX) <= room;

	snprintf(to, room, PREFIX "%s", plain ? domain : uuid);
}

/* XML ----------------------------------------------------------------------------------- */

static void cleanup_doc(xmlDoc **doc)
{
	xmlFreeDoc(*doc);
}

static void cleanup_context(xmlXPathContext **context)
{
	xmlXPathFreeContext(*context);
}

static void cleanup_object(xmlXPathObject **object)
{
	xmlXPathFreeObject(*object);
}

#define auto_doc	__attribute__((__cleanup__(cleanup_doc)))
#define auto_context	__attribute__((__cleanup__(cleanup_context)))
#define auto_object	__attribute__((__cleanup__(cleanup_object)))

static xmlDoc *parse(const char *xml)
{
	return xmlReadMemory(xml, strlen(xml), "libvirt.xml", NULL,
			     XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
}

/* The value of an element's attribute or child; NULL: none. To be freed. */
static char *shmem_value_of(xmlXPathContext *context, xmlNode *node, const char *path)
{
	auto_object xmlXPathObject *object = NULL;

	xmlXPathSetContextNode(node, context);
	object = xmlXPathEval((const xmlChar *)path, context);
	if (!object || object->type != XPATH_STRING || !*object->stringval)
		return NULL;
	return strdup((const char *)object->stringval);
}

static u64 bytes_of(xmlXPathContext *context, xmlNode *node)
{
	braid_auto_free char *number = shmem_value_of(context, node, "string(size)");
	braid_auto_free char *unit = shmem_value_of(context, node, "string(size/@unit)");
	u64 n = number ? strtoull(number, NULL, 10) : 0;

	if (!unit || *unit == 'b' || *unit == 'B')
		return n;
	return *unit == 'K' || *unit == 'k' ? n << 10 : *unit == 'G' ? n << 30 : n << 20;
}

/*
 * The first word of a file; 1 if there is none. No other guest data is read: we still have all our
 * privileges.
 */
static u64 first_word(const char *name)
{
	char path[256];
	struct stat st;
	u64 magic = 1;
	int fd;

	snprintf(path, sizeof(path), BRAID_SHM_DIR "%s", name);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return 1;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    pread(fd, &magic, sizeof(magic), 0) != sizeof(magic))
		magic = 1;
	close(fd);
	return magic;
}

/* Confidence that a device is the region: none, or as below. */
enum { NO_REGION, BLANK, NAMED, WRITTEN, USUAL };

static int rank(const char *name, const char *usual)
{
	u64 word;

	if (!strcmp(name, usual))
		return USUAL;
	word = first_word(name);
	if (word == BRAID_MAGIC || word == BRAID_MARK)
		return WRITTEN;
	if (!strncmp(name, PREFIX, strlen(PREFIX)))
		return NAMED;
	return word ? NO_REGION : BLANK;
}

static int rank_by_name(const char *name, const char *wanted)
{
	return strcmp(name, wanted) ? NO_REGION : USUAL;
}

static char *dump(xmlDoc *doc, xmlNode *node)
{
	xmlBuffer *buffer = xmlBufferCreate();
	char *xml = NULL;

	if (buffer && xmlNodeDump(buffer, doc, node, 0, 1) >= 0)
		xml = strdup((const char *)xmlBufferContent(buffer));
	xmlBufferFree(buffer);
	return xml;
}

/* Whether it can be a file's name, and a line's part. */
static bool is_name(const char *name)
{
	char clean[sizeof(((struct braid_shmem *)NULL)->name)];

	if (strlen(name) >= sizeof(clean) || strchr(name, '/'))
		return false;
	strcpy(clean, name);
	braid_text_clean(clean);
	return !strcmp(clean, name);
}

/* The device that ranks highest; one that is merely blank is not a region's. */
static int shmem_find(const char *xml, int (*rank_of)(const char *name, const char *wanted),
		      const char *wanted, struct braid_shmem *shmem)
{
	auto_doc xmlDoc *doc = parse(xml);
	auto_context xmlXPathContext *context = doc ? xmlXPathNewContext(doc) : NULL;
	auto_object xmlXPathObject *all = NULL;
	int k, best = 0;

	memset(shmem, 0, sizeof(*shmem));
	if (context)
		all = xmlXPathEval((const xmlChar *)"/domain/devices/shmem[model/@type='ivshmem-plain']",
				   context);
	if (!all)
		return braid_fail(-EBADMSG, "cannot parse libvirt's XML of a domain");
	for (k = 0; all->nodesetval && k < all->nodesetval->nodeNr; k++) {
		xmlNode *node = all->nodesetval->nodeTab[k];
		braid_auto_free char *name = shmem_value_of(context, node, "string(@name)");
		int how = name && is_name(name) ? rank_of(name, wanted) : NO_REGION;

		if (how == BLANK)
			strcpy(shmem->blank, name);
		if (how <= BLANK || how <= best)
			continue;
		best = how;
		strcpy(shmem->name, name);
		shmem->bytes = bytes_of(context, node);
		free(shmem->xml);
		shmem->xml = dump(doc, node);
		if (!shmem->xml)
			return braid_out_of_memory();
	}
	return 0;
}

int braid_shmem_find(const char *xml, const char *usual, struct braid_shmem *shmem)
{
	return shmem_find(xml, rank, usual, shmem);
}

int braid_shmem_find_named(const char *xml, const char *name, struct braid_shmem *shmem)
{
	return shmem_find(xml, rank_by_name, name, shmem);
}

char *braid_shmem_xml(const char *name, u64 bytes)
{
	char *xml;

	/* One that was found in a domain, and not made by us, may need quoting. */
	if (!is_plain(name)) {
		braid_fail(-EINVAL, "%s: attach cannot write this name; use only letters, digits, '.', '_' and '-' for the file and its <shmem>",
			   name);
		return NULL;
	}
	if (asprintf(&xml, "<shmem name='%s'>\n  <model type='ivshmem-plain'/>\n  <size unit='M'>%llu</size>\n</shmem>\n",
		     name, (unsigned long long)(bytes / MIB)) < 0) {
		braid_out_of_memory();
		return NULL;
	}
	return xml;
}

/* Owner --------------------------------------------------------------------------------- */

int braid_dac_owner(const char *xml, uid_t *uid, gid_t *gid)
{
	auto_doc xmlDoc *doc = parse(xml);
	auto_context xmlXPathContext *context = doc ? xmlXPathNewContext(doc) : NULL;
	braid_auto_free char *label = NULL;

	if (context)
		label = shmem_value_of(context, xmlDocGetRootElement(doc),
				       "string(/domain/seclabel[@model='dac']/label"
				       " | /capabilities/host/secmodel[model='dac']/baselabel)");
	if (!label || !strchr(label, ':'))
		return -ENODATA;
	return braid_owner_parse(label, uid, gid);
}

/* File ---------------------------------------------------------------------------------- */

bool braid_shmem_file_ours(const struct stat *st, u64 bytes, uid_t uid)
{
	return S_ISREG(st->st_mode) && st->st_nlink == 1 && (u64)st->st_size == bytes &&
	       (st->st_uid == uid || st->st_uid == geteuid());
}
