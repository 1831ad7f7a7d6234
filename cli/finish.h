/* SPDX-License-Identifier: Apache-2.0 */
/*
 * finish.h - the last step of a recording: its analysis goes into the run file, so that a reader begins with it.
 *
 * Made when the file is closed and the job has ended, at low priority, by a process of its own that anybody who
 * opens the run ends by doing so (schema/leisure.h): they analyse it, too. `record` waits for it: when it returns
 * the file is at rest, and may be copied or moved. A file that holds only some ranks of its job is left as it is,
 * for an analysis of it alone is none of the job.
 */
#ifndef LAPWING_CLI_FINISH_H
#define LAPWING_CLI_FINISH_H

#include <stdbool.h>

/** lw_finish_here() - in this process, which has nothing else to do. @niceness: 0 to 19. Return: its exit code. */
int lw_finish_here(const char *path, int niceness);

/**
 * lw_finish_apart() - in a child, waited for; Ctrl-C, or a minute, end that. Unless LAPWING_NO_ANALYZE is set.
 * @verb: says so when it takes long, unless @is_quiet.
 */
void lw_finish_apart(const char *verb, const char *path, bool is_quiet);

/** lw_finish_settle() - one file again, also after an analysis that was cut off. */
void lw_finish_settle(const char *path);

#endif /* LAPWING_CLI_FINISH_H */
