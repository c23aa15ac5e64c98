/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A flight recorder's socket: a client requests a snapshot, and passes the file for it. */
#ifndef BRAID_TRANSPORT_REQUEST_H
#define BRAID_TRANSPORT_REQUEST_H

#include <poll.h>

#include "host_agent/transport/listener.h"

#define BRAID_REQUEST_LINE_BYTES	512
/* What root runs has sockets and files here: /run/tracebraid is the service's, whose user could change them. */
#define BRAID_ROOTS_FOLDER		"/run/tracebraid-root"

/* The recorder's end. Serves one client at a time; the others wait. */
struct braid_request_endpoint {
	struct braid_listener listener;
	struct braid_socket_address address;
	int fd;			/* the connected client, or -1 */
	bool asked;		/* and has asked */
	u64 since_ns;		/* when it connected */
};

/* A request. */
struct braid_request {
	int fd;			/* a regular file, to be written */
	char path[256];		/* for messages; sanitized */
};

/**
 * braid_request_open - create the socket, named after this process
 * @p: filled on success
 *
 * In BRAID_ROOTS_FOLDER (root) or $XDG_RUNTIME_DIR/tracebraid, which no other user may enter. Call
 * before the process is confined.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_request_open(struct braid_request_endpoint *p);

/** braid_request_close - remove the socket; one that never was has fd and listener.fd of -1 */
void braid_request_close(struct braid_request_endpoint *p);

/** braid_request_fd - what to sleep on, or -1 */
int braid_request_fd(const struct braid_request_endpoint *p);

/**
 * braid_request_poll - check for a request
 * @p: the socket; never blocks
 * @request: filled when 1 is returned
 *
 * Return: 1: answer it with braid_request_answer(); 0: no request.
 */
int braid_request_poll(struct braid_request_endpoint *p, struct braid_request *request);

/**
 * braid_request_answer - answer a request
 * @err: 0 or -errno
 * @line: text for the client
 */
void braid_request_answer(struct braid_request_endpoint *p, int err, const char *line);

/**
 * braid_request_connect - find the recorder
 * @pid: of it; 0: the only one
 *
 * Return: a descriptor, or -errno with braid_fail().
 */
int braid_request_connect(pid_t pid);

/**
 * braid_request_ask - ask for a snapshot, and wait for it
 * @fd: of braid_request_connect()
 * @file: the output: regular, empty
 * @path: its name, for messages
 * @line: set to the recorder's answer, sanitized
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_request_ask(int fd, int file, const char *path, char line[BRAID_REQUEST_LINE_BYTES]);

#endif /* BRAID_TRANSPORT_REQUEST_H */
