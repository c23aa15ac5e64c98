/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A VM that breaks rules, and a port that is to bear it. */
#ifndef BRAID_TESTS_BAD_VM_H
#define BRAID_TESTS_BAD_VM_H

#include "host_agent/transport/port.h"
#include "tests/unit/front_end.h"

#define REGION		0x40000000ULL	/* where the guest has memory for a region */
#define REGION_BYTES	0x40000u

struct bad_vm {
	struct braid_port *port;
	struct front_end front;	/* its ->pumped keeps the first fault that the port told */
	int region_fd;
	char socket_path[64];
	const char *options;	/* of the port, ",size=..."; NULL: none */
};

/* There is one at a time. */
extern struct bad_vm vm;

/* A folder for the socket; removes it. */
void bad_vm_init(void);
void bad_vm_deinit(void);

/* A port, and a VM that is connected to it. @protocol: features beside the usual ones. */
void bad_vm_begin(u64 protocol);
void bad_vm_end(void);

/* One turn of the port. */
int bad_vm_serve(void);

/* Lets the port work until the connection is closed. Whether it was. */
bool bad_vm_dropped(void);

/* Sends what no front end would, without asking for anything. */
void bad_vm_send(u32 request, u32 flags, u32 bytes, const void *payload, u32 payload_bytes,
		 u32 nr_fds);

/* What this process has open, and of the VM's memory mapped. */
int count_fds(void);
int count_mappings(void);

/* Whether there are that many open in the end: a thread closes some. */
bool fds_come_to(int nr);

#endif /* BRAID_TESTS_BAD_VM_H */
