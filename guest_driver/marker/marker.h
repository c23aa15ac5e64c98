/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Events of the guest's programs: /dev/tracebraid (docs/marker.md).
 *
 * Invariants:
 * - A record is copied from the program before room is reserved: a page fault meets no ring.
 * - An event stays registered until the driver is unloaded, or until a program declares other
 *   fields under its name while no file has it open. So a program that is restarted keeps its event.
 */
#ifndef BRAID_MARKER_MARKER_H
#define BRAID_MARKER_MARKER_H

/** braid_marker_init - register the text events, and the device. 0 or -errno */
int braid_marker_init(void);

/** braid_marker_exit - remove the device and all of its events */
void braid_marker_exit(void);

#endif /* BRAID_MARKER_MARKER_H */
