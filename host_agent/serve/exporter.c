// SPDX-License-Identifier: GPL-2.0-or-later
/* Serves the metrics over HTTP. */
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "host_agent/serve/exporter.h"
#include "host_agent/util/error.h"

#define CONNECTIONS	16u
#define MESSAGE		"io.prometheus.client.MetricFamily"
#define TIMEOUT_S	30u
#define REQUEST_BYTES	((size_t)16 << 10)	/* of a connection, without its answer */

static const char exporter_index[] =
	"<!doctype html><title>tracebraid</title><p><a href=\"/metrics\">Metrics</a></p>\n";

/* Listening --------------------------------------------------------------------------------- */

static int exporter_bind(int fd, const struct sockaddr *address, socklen_t bytes, const char *text)
{
	const int one = 1;

	if (fd < 0)
		return braid_fail(-errno, "%s: no socket can be made: %s", text, strerror(errno));
	if (address->sa_family != AF_UNIX)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, address, bytes) || listen(fd, CONNECTIONS)) {
		int err = braid_fail(-errno, "%s: cannot listen there: %s", text, strerror(errno));

		close(fd);
		return err;
	}
	return fd;
}

/* A socket that a former process left is replaced; nothing else is. */
static int exporter_listen_local(const char *path, const char *text)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat st;

	if (*path != '/' || strlen(path) >= sizeof(address.sun_path))
		return braid_fail(-EINVAL, "'%s' is not a valid address: expected unix:/PATH of at most %zu characters",
				  text, sizeof(address.sun_path) - 1);
	strcpy(address.sun_path, path);
	if (!lstat(path, &st) && S_ISSOCK(st.st_mode))
		unlink(path);
	return exporter_bind(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
			     (struct sockaddr *)&address, sizeof(address), text);
}

static int exporter_listen_port(const char *text)
{
	static const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
		.ai_socktype = SOCK_STREAM,
	};
	const char *colon = strrchr(text, ':');
	bool brackets = *text == '[';
	struct addrinfo *found;
	char host[64] = "";
	int fd;

	if (colon && (!brackets || colon[-1] == ']'))
		snprintf(host, sizeof(host), "%.*s", (int)(colon - text - 2 * brackets),
			 text + brackets);
	if (!*host || getaddrinfo(host, colon + 1, &hints, &found))
		return braid_fail(-EINVAL, "'%s' is not a valid address: expected 127.0.0.1:9464, [::1]:9464 or unix:/PATH",
				  text);
	fd = exporter_bind(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
			   found->ai_addr, found->ai_addrlen, text);
	freeaddrinfo(found);
	return fd;
}

int braid_exporter_listen(struct braid_exporter *e, const struct braid_conf *conf)
{
	size_t k;
	int fd;

	*e = (struct braid_exporter){ 0 };
	for (k = 0; k < conf->nr_listens; k++) {
		const char *text = conf->listens[k];

		fd = strncmp(text, "unix:", 5) ? exporter_listen_port(text) :
						 exporter_listen_local(text + 5, text);
		if (fd < 0) {
			braid_exporter_close(e);
			return fd;
		}
		e->fds[e->nr++] = fd;
	}
	return 0;
}

/* Answering --------------------------------------------------------------------------------- */

static enum MHD_Result exporter_send(struct MHD_Connection *connection, unsigned int status,
				     const char *type, struct MHD_Response *response)
{
	enum MHD_Result result = MHD_NO;

	if (!response)
		return MHD_NO;
	if (MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES)
		result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result exporter_send_text(struct MHD_Connection *connection, unsigned int status,
					  const char *type, const char *text)
{
	return exporter_send(connection, status, type,
			     MHD_create_response_from_buffer(strlen(text), (void *)text,
							     MHD_RESPMEM_PERSISTENT));
}

/* Native histograms are in protobuf alone: who reads them asks for that. */
static enum braid_exposition_form exporter_form(const char *accept)
{
	if (!accept)
		return BRAID_EXPOSITION_TEXT;
	if (strstr(accept, "application/vnd.google.protobuf") && strstr(accept, MESSAGE) &&
	    strstr(accept, "encoding=delimited"))
		return BRAID_EXPOSITION_PROTOBUF;
	return strstr(accept, "application/openmetrics-text") ? BRAID_EXPOSITION_OPEN :
								BRAID_EXPOSITION_TEXT;
}

static enum MHD_Result exporter_send_metrics(const struct braid_exporter *e,
					     struct MHD_Connection *connection)
{
	static const char *const types[] = {
		[BRAID_EXPOSITION_TEXT] = "text/plain; version=0.0.4; charset=utf-8",
		[BRAID_EXPOSITION_OPEN] =
			"application/openmetrics-text; version=1.0.0; charset=utf-8",
		[BRAID_EXPOSITION_PROTOBUF] =
			"application/vnd.google.protobuf; proto=" MESSAGE "; encoding=delimited",
	};
	enum braid_exposition_form form = exporter_form(
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT));
	struct braid_text text = { 0 };

	e->write(e->arg, form, &text);
	if (text.failed) {
		braid_text_free(&text);
		return MHD_NO;
	}
	return exporter_send(connection, MHD_HTTP_OK, types[form],
			     MHD_create_response_from_buffer(text.bytes, text.data,
							     MHD_RESPMEM_MUST_FREE));
}

static enum MHD_Result exporter_answer(void *arg, struct MHD_Connection *connection,
				       const char *url, const char *method, const char *version,
				       const char *upload, size_t *upload_bytes, void **state)
{
	static int seen;

	(void)version;
	(void)upload;
	(void)upload_bytes;
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return exporter_send_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain",
					  "only GET is answered\n");
	if (!*state) {		/* of the first call, only the headers are there */
		*state = &seen;
		return MHD_YES;
	}
	if (!strcmp(url, "/metrics"))
		return exporter_send_metrics(arg, connection);
	if (!strcmp(url, "/"))
		return exporter_send_text(connection, MHD_HTTP_OK, "text/html", exporter_index);
	return exporter_send_text(connection, MHD_HTTP_NOT_FOUND, "text/plain",
				  "not found; /metrics is there\n");
}

int braid_exporter_start(struct braid_exporter *e, braid_exporter_fn *write, void *arg)
{
	size_t k;

	e->write = write;
	e->arg = arg;
	for (k = 0; k < e->nr; k++) {
		e->daemons[k] = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, exporter_answer, e,
						 MHD_OPTION_LISTEN_SOCKET, e->fds[k],
						 MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS,
						 MHD_OPTION_CONNECTION_TIMEOUT, TIMEOUT_S,
						 MHD_OPTION_CONNECTION_MEMORY_LIMIT, REQUEST_BYTES,
						 MHD_OPTION_END);
		if (!e->daemons[k])
			return braid_fail(-ENOMEM, "the metrics cannot be served");
	}
	return 0;
}

size_t braid_exporter_fds(const struct braid_exporter *e, struct pollfd fds[BRAID_CONF_LISTENS])
{
	const union MHD_DaemonInfo *info;
	size_t k, nr = 0;

	for (k = 0; k < e->nr; k++) {
		info = !e->daemons[k] ? NULL :
		       MHD_get_daemon_info(e->daemons[k], MHD_DAEMON_INFO_EPOLL_FD);
		if (info)
			fds[nr++] = (struct pollfd){ .fd = info->epoll_fd, .events = POLLIN };
	}
	return nr;
}

void braid_exporter_turn(const struct braid_exporter *e)
{
	size_t k;

	for (k = 0; k < e->nr; k++)
		if (e->daemons[k])
			MHD_run(e->daemons[k]);
}

void braid_exporter_close(struct braid_exporter *e)
{
	size_t k;

	for (k = 0; k < e->nr; k++) {
		if (e->daemons[k])
			MHD_stop_daemon(e->daemons[k]);	/* closes what it listens on */
		else
			close(e->fds[k]);
	}
	e->nr = 0;
}
