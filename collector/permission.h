/* SPDX-License-Identifier: Apache-2.0 */
/* permission.h - why packets may not be captured here, and giving the right back once they are. */
#ifndef LAPWING_COLLECTOR_PERMISSION_H
#define LAPWING_COLLECTOR_PERMISSION_H

#include <stddef.h>

/** lw_permission_explain() - what this process lacks to open a packet socket, and what gives it that. */
void lw_permission_explain(char *text, size_t text_bytes);

/** lw_permission_raise() - use a capability that the program's file permits without making it effective. */
void lw_permission_raise(void);

/** lw_permission_drop() - that capability is not needed any more; root keeps it. */
void lw_permission_drop(void);

#endif /* LAPWING_COLLECTOR_PERMISSION_H */
