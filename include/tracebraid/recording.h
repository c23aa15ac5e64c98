/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Recordings --------------------------------------------------------------------------------- */
#ifndef TRACEBRAID_RECORDING_H
#define TRACEBRAID_RECORDING_H

#ifndef TRACEBRAID_TRACEBRAID_H
#error "include tracebraid/tracebraid.h, which includes this file"
#endif

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * The recorder needs root, or access to the regions, and gives up all other privileges. So it runs as
 * the program `tracebraid`, in a separate process.
 */
struct tracebraid_recording;

/**
 * tracebraid_record - start a recording
 * @recording: set on success: the program runs
 * @path: of the capture; it exists, for tracebraid_follow() to open, once guests have confirmed their
 *	events
 * @options: of `tracebraid record`, one word each, such as "-r", "web1", "-e", "sched", then NULL; "--"
 *	and a command may follow. NULL: record all guests
 * @program: its path; NULL: the one in this library's folder, in the folder bin beside that, or in PATH
 *
 * The program inherits no open files of the caller, and gets no signals from its terminal. It ends within
 * two seconds after the caller ends.
 *
 * Return: 0, or a negative errno: -ENOENT: no such program.
 */
int tracebraid_record(struct tracebraid_recording **recording, const char *path,
		      const char *const *options, const char *program);

/**
 * tracebraid_recording_fd - a descriptor for poll(): readable when there is a report to read
 *
 * Return: the descriptor; -1: all reports were read.
 */
int tracebraid_recording_fd(const struct tracebraid_recording *recording);

/**
 * tracebraid_recording_next - the next report of a recording
 * @recording: the recording
 * @timeout_ms: how long to wait for a report; 0: not at all; -1: without limit
 * @json: set if 1 is returned: an object, valid until the next call. Its "type" is "started", "progress"
 *	every second, "message" with "text", or "stopped"; all but messages have "ns", "duration_ns",
 *	"bytes" of the capture, and "guests" with "name", "state", "events" and "lost". "dropped" is the
 *	number of earlier objects that were lost because they were not read in time
 *
 * Return: 1; 0: the recording has ended, see tracebraid_recording_wait(); -EAGAIN: no report within the
 * time; or another negative errno.
 */
int tracebraid_recording_next(struct tracebraid_recording *recording, int timeout_ms,
			      const char **json);

/** tracebraid_recording_stop - ask a recording to end, by SIGINT. Return: 0, or a negative errno */
int tracebraid_recording_stop(struct tracebraid_recording *recording);

/**
 * tracebraid_recording_wait - wait until a recording has ended, and discard its remaining reports
 * @recording: the recording
 * @status: set, unless it is NULL: the program's exit status, see tracebraid-record(1)
 *
 * Return: 0: the status is 0, or 3: less was recorded than requested; -EIO: the recording or its command
 * failed, and tracebraid_error() is the program's message.
 */
int tracebraid_recording_wait(struct tracebraid_recording *recording, int *status);

/** tracebraid_recording_free - stop a recording if it runs, wait for its end, and free it; NULL is fine */
void tracebraid_recording_free(struct tracebraid_recording *recording);

/**
 * tracebraid_open_regions - open regions, or dumps of guests' memory, as one trace
 * @trace: set on success
 * @sources: as for `tracebraid recover`: region files of guests, or dumps; then NULL
 * @program: as for tracebraid_record()
 * @warn: as for tracebraid_open()
 * @arg: passed to @warn
 *
 * The events are copied into memory; the regions stay as they are, so a later recording finds the same
 * events. A guest may be running, and may be being recorded: the trace then contains the events that were
 * unread when the region was copied, and a note that the guest is running. Events that are overwritten
 * during the copy count as lost.
 *
 * Return: 0, or a negative errno: -EIO: the program failed, and tracebraid_error() is its message.
 */
int tracebraid_open_regions(struct tracebraid_trace **trace, const char *const *sources,
			    const char *program, void (*warn)(void *arg, const char *line),
			    void *arg);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* TRACEBRAID_RECORDING_H */
