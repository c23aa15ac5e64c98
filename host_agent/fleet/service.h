/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a host says of itself by NATS' service convention: PING, INFO and STATS. */
#ifndef BRAID_FLEET_SERVICE_H
#define BRAID_FLEET_SERVICE_H

#include "host_agent/fleet/link.h"

#define BRAID_FLEET_ENDPOINTS	10u

/* The requests that a host answers: the last word of their subject, in this order. */
enum braid_fleet_endpoint {
	BRAID_FLEET_OF_STATUS, BRAID_FLEET_OF_SQL, BRAID_FLEET_OF_ANALYZE, BRAID_FLEET_OF_SNAPSHOT,
	BRAID_FLEET_OF_WATCH, BRAID_FLEET_OF_RECORD, BRAID_FLEET_OF_FILES, BRAID_FLEET_OF_PULL,
	BRAID_FLEET_OF_FLOW, BRAID_FLEET_OF_AGAIN,
};

extern const char *const braid_fleet_endpoints[BRAID_FLEET_ENDPOINTS];

struct braid_fleet_service {
	char host[BRAID_FLEET_NAME];
	char started[32];
	struct {
		u64 requests, errors;	/* that are over */
		u64 ns;			/* from a request to its end, of all */
		char error[128];	/* the last one */
	} stats[BRAID_FLEET_ENDPOINTS];
};

/** braid_fleet_service_done - a request is over; @began_ns: when it came; @error: "": none */
void braid_fleet_service_done(struct braid_fleet_service *s, enum braid_fleet_endpoint endpoint,
			      u64 began_ns, const char *error);

/** braid_fleet_host_name - this host's name in the fleet. Return: 0, or -EINVAL */
int braid_fleet_host_name(const struct braid_fleet_conf *conf, char name[BRAID_FLEET_NAME]);

/** braid_fleet_service_subscribe - announce it. Return: 0, or -errno with braid_fail() */
int braid_fleet_service_subscribe(struct braid_fleet_service *s, struct braid_fleet_link *link);

/**
 * braid_fleet_service_answer - answer what comes on a subject of the convention
 * @s: the service
 * @subject: "$SRV.PING", ...
 * @out: set to the answer
 *
 * Return: false: it is not such a subject.
 */
bool braid_fleet_service_answer(const struct braid_fleet_service *s, const char *subject,
				struct braid_text *out);

#endif /* BRAID_FLEET_SERVICE_H */
