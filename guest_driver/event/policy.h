/* SPDX-License-Identifier: GPL-2.0 */
/* The guest's own policy: what a host may ask. */
#ifndef BRAID_EVENT_POLICY_H
#define BRAID_EVENT_POLICY_H

#include "guest_driver/event/refusal.h"

/**
 * braid_policy_check - whether the host may ask for a class of requests
 * @class: a word of the parameter allow=
 * @refusal: set if not
 *
 * Context: any. Return: 0 or -EPERM.
 */
int braid_policy_check(const char *class, struct braid_refusal *refusal);

/** braid_policy_allows_event - whether the host may enable an event. Context: any */
bool braid_policy_allows_event(const char *system, const char *name);

/**
 * braid_policy_lift - allow all, for a command of the guest's own user
 * @lift: begin or end it
 *
 * Commands are executed one at a time, so no other one sees it.
 */
void braid_policy_lift(bool lift);

#endif /* BRAID_EVENT_POLICY_H */
