// SPDX-License-Identifier: GPL-2.0-or-later
/* NATS' service convention, which libnats 3.4 does not have. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/fleet/service.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"
#include "shared/version.h"

#define SERVICE		"tracebraid"
#define NR_VERBS	3u

static const char *const verbs[NR_VERBS] = { "PING", "INFO", "STATS" };
static const char *const types[NR_VERBS] = {
	"io.nats.micro.v1.ping_response", "io.nats.micro.v1.info_response",
	"io.nats.micro.v1.stats_response",
};

const char *const braid_fleet_endpoints[BRAID_FLEET_ENDPOINTS] = {
	"status", "sql", "analyze", "snapshot", "watch", "record", "files", "pull", "flow",
	"again",
};

int braid_fleet_host_name(const struct braid_fleet_conf *conf, char name[BRAID_FLEET_NAME])
{
	char *c;

	if (*conf->name) {
		if (!braid_fleet_name_is_valid(conf->name))
			return braid_fail(-EINVAL, "'%s' is not a valid name of a host: expected letters, digits, '-' and '_'",
					  conf->name);
		strcpy(name, conf->name);
		return 0;
	}
	if (gethostname(name, BRAID_FLEET_NAME))
		return braid_fail(-errno, "the hostname is longer than %u characters; set 'name' in [fleet]",
				  BRAID_FLEET_NAME - 1);
	for (c = name; *c; c++)
		if (*c == '.')	/* separates the words of a subject */
			*c = '_';
	return braid_fleet_name_is_valid(name) ? 0 :
	       braid_fail(-EINVAL, "the hostname '%s' cannot be used; set 'name' in [fleet]", name);
}

int braid_fleet_service_subscribe(struct braid_fleet_service *s, struct braid_fleet_link *link)
{
	char subject[BRAID_FLEET_SUBJECT];
	time_t now = time(NULL);
	struct tm tm;
	u32 verb, k;
	int err = 0;

	gmtime_r(&now, &tm);
	strftime(s->started, sizeof(s->started), "%Y-%m-%dT%H:%M:%SZ", &tm);
	for (verb = 0; verb < NR_VERBS; verb++)
		for (k = 0; k < 3 && !err; k++) {
			snprintf(subject, sizeof(subject), "$SRV.%s%s%s%s", verbs[verb],
				 k ? "." SERVICE : "", k > 1 ? "." : "", k > 1 ? s->host : "");
			err = braid_fleet_subscribe(link, subject);
		}
	return err;
}

void braid_fleet_service_done(struct braid_fleet_service *s, enum braid_fleet_endpoint endpoint,
			      u64 began_ns, const char *error)
{
	s->stats[endpoint].requests++;
	s->stats[endpoint].ns += braid_monotonic_ns() - began_ns;
	if (!*error)
		return;
	s->stats[endpoint].errors++;
	snprintf(s->stats[endpoint].error, sizeof(s->stats[endpoint].error), "%s", error);
}

static void service_put_endpoint(const struct braid_fleet_service *s, u32 k, bool stats,
				 struct braid_text *out)
{
	braid_text_printf(out, "%s{\"name\":\"%s\",\"subject\":\"" BRAID_FLEET_SUBJECTS "%s.%s\"",
			  k ? "," : "", braid_fleet_endpoints[k], s->host, braid_fleet_endpoints[k]);
	if (stats) {
		braid_text_printf(out, ",\"num_requests\":%llu,\"num_errors\":%llu,\"last_error\":",
				  (unsigned long long)s->stats[k].requests,
				  (unsigned long long)s->stats[k].errors);
		braid_text_json(out, s->stats[k].error, strlen(s->stats[k].error));
		braid_text_printf(out, ",\"processing_time\":%llu,\"average_processing_time\":%llu",
				  (unsigned long long)s->stats[k].ns,
				  (unsigned long long)(s->stats[k].requests ?
						       s->stats[k].ns / s->stats[k].requests : 0));
	} else {
		braid_text_puts(out, ",\"metadata\":{}");
	}
	braid_text_putc(out, '}');
}

bool braid_fleet_service_answer(const struct braid_fleet_service *s, const char *subject,
				struct braid_text *out)
{
	const char *verb = subject + strlen("$SRV.");
	u32 which, k;

	if (strncmp(subject, "$SRV.", strlen("$SRV.")))
		return false;
	for (which = 0; which < NR_VERBS; which++)
		if (strlen(verbs[which]) == strcspn(verb, ".") &&
		    !strncmp(verb, verbs[which], strlen(verbs[which])))
			break;
	if (which == NR_VERBS)
		return false;
	out->bytes = 0;
	braid_text_printf(out, "{\"name\":\"" SERVICE "\",\"id\":\"%s\",\"version\":\"" BRAID_VERSION "\",\"metadata\":{},\"type\":\"%s\"",
			  s->host, types[which]);
	if (which)
		braid_text_printf(out, ",%s\"endpoints\":[", which == 1 ?
				  "\"description\":\"traces of guests and their host\"," : "");
	for (k = 0; which && k < BRAID_FLEET_ENDPOINTS; k++)
		service_put_endpoint(s, k, which == 2, out);
	if (which)
		braid_text_putc(out, ']');
	if (which == 2)
		braid_text_printf(out, ",\"started\":\"%s\"", s->started);
	braid_text_putc(out, '}');
	return true;
}
