/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A flight recorder's socket: who may connect asks for a snapshot, and brings the file for it. */
#ifndef BRAID_TRANSPORT_REQUEST_H
#define BRAID_TRANSPORT_REQUEST_H

#include <poll.h>

#include "host_agent/transport/listener.h"

#define BRAID_REQUEST_LINE_BYTES	512

/* The recorder's end. One who asks is served at a time; the others wait. */
struct braid_request_port {
	struct braid_listener listener;
	struct braid_socket_address address;
	int fd;			/* who is connected, or -1 */
	bool asked;		/* and has asked */
	u64 since_ns;		/* when it connected */
};

/* What is asked for. */
struct braid_request {
	int fd;			/* a regular file, to be written */
	char path[256];		/* for messages; tame */
};

/**
 * braid_request_open - make the socket, named after this process
 * @p: filled on success
 *
 * In /run/tracebraid (root) or $XDG_RUNTIME_DIR/tracebraid, which nobody else may enter. To be
 * called before the process is confined.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_request_open(struct braid_request_port *p);

/** braid_request_close - remove the socket; one that never was has fd and listener.fd of -1 */
void braid_request_close(struct braid_request_port *p);

/** braid_request_fd - what to sleep on, or -1 */
int braid_request_fd(const struct braid_request_port *p);

/**
 * braid_request_poll - whether somebody asks
 * @p: the socket; never waited for
 * @request: filled when 1 is returned
 *
 * Return: 1: braid_request_answer() is awaited; 0.
 */
int braid_request_poll(struct braid_request_port *p, struct braid_request *request);

/**
 * braid_request_answer - say how it went
 * @err: 0 or -errno
 * @line: for whoever asked
 */
void braid_request_answer(struct braid_request_port *p, int err, const char *line);

/**
 * braid_request_connect - find the recorder
 * @pid: of it; 0: there is one alone
 *
 * Return: a descriptor, or -errno with braid_fail().
 */
int braid_request_connect(pid_t pid);

/**
 * braid_request_ask - ask for a snapshot, and wait for it
 * @fd: of braid_request_connect()
 * @file: to be written: regular, empty
 * @path: its name, for messages
 * @line: set to what the recorder said, tame
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_request_ask(int fd, int file, const char *path, char line[BRAID_REQUEST_LINE_BYTES]);

#endif /* BRAID_TRANSPORT_REQUEST_H */
