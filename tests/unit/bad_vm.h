/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A VM that breaks rules, and an endpoint that must withstand it. */
#ifndef BRAID_TESTS_BAD_VM_H
#define BRAID_TESTS_BAD_VM_H

#include "host_agent/transport/endpoint.h"
#include "tests/unit/front_end.h"

#define REGION		0x40000000ULL	/* where the guest has memory for a region */
#define REGION_BYTES	0x40000u

struct bad_vm {
	struct braid_endpoint *endpoint;
	struct front_end front;	/* its ->pumped keeps the first fault that the endpoint reported */
	int region_fd;
	char socket_path[64];
	const char *options;	/* of the endpoint, ",size=..."; NULL: none */
};

/* Only one exists at a time. */
extern struct bad_vm vm;

/* Creates and removes a folder for the socket. */
void bad_vm_init(void);
void bad_vm_deinit(void);

/* An endpoint, and a VM that is connected to it. @protocol: features besides the usual ones. */
void bad_vm_begin(u64 protocol);
void bad_vm_end(void);

/* One turn of the endpoint. */
int bad_vm_serve(void);

/* Runs the endpoint until the connection is closed. Return: whether it was. */
bool bad_vm_dropped(void);

/* Sends an invalid message without requesting an answer. */
void bad_vm_send(u32 request, u32 flags, u32 bytes, const void *payload, u32 payload_bytes,
		 u32 nr_fds);

/* Files that this process has open, and mappings of the VM's memory. */
int count_fds(void);
int count_mappings(void);

/* Whether that many remain open: a thread closes some. */
bool fds_come_to(int nr);

#endif /* BRAID_TESTS_BAD_VM_H */
