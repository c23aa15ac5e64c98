/* SPDX-License-Identifier: GPL-2.0 */
/* The file through which the guest's own user selects what is recorded. */
#ifndef BRAID_EVENT_SELECT_H
#define BRAID_EVENT_SELECT_H

int braid_select_init(void);
void braid_select_exit(void);

#endif /* BRAID_EVENT_SELECT_H */
