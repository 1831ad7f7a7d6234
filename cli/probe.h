/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h - what kind of program a file is, found without running it (ELF through libelf).
 *
 * For `doctor` (which hooks can see this command?). Not for: processes that already run.
 */
#ifndef LAPWING_CLI_PROBE_H
#define LAPWING_CLI_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ld.so splits LD_PRELOAD at these: a path with one of them cannot be preloaded. */
#define LW_PRELOAD_SEPARATORS " :"

enum lw_probe_kind {
	LW_PROBE_MISSING,
	LW_PROBE_NOT_EXECUTABLE,
	LW_PROBE_SCRIPT,  /* #! line; interpreter says what runs it */
	LW_PROBE_DYNAMIC, /* an ELF program with a dynamic loader: LD_PRELOAD reaches it */
	LW_PROBE_STATIC,  /* an ELF program without one: it does not */
	LW_PROBE_LIBRARY,
	LW_PROBE_OTHER, /* neither ELF nor script */
};

enum { LW_PROBE_MAX_NEEDED = 64 };

struct lw_probe {
	enum lw_probe_kind kind;
	bool is_privileged; /* set-user-id, set-group-id or file capabilities: LD_PRELOAD is ignored */
	char path[4096];
	char interpreter[256]; /* scripts: the program of the #! line; for env, the word after it */
	char needed[LW_PROBE_MAX_NEEDED][96]; /* DT_NEEDED, as many as fit */
	size_t n_needed;
};

/** lw_probe_file() - look at @path. Always fills *@ret_probe; what cannot be read is OTHER. */
void lw_probe_file(const char *path, struct lw_probe *ret_probe);

/** lw_probe_command() - as a shell would find it: @name with a slash, else along PATH. */
void lw_probe_command(const char *name, struct lw_probe *ret_probe);

/** lw_probe_needs() - is a library whose name starts with @prefix among its DT_NEEDED? */
bool lw_probe_needs(const struct lw_probe *probe, const char *prefix);

/** lw_probe_count_symbols() - how many of its dynamic symbols that it defines contain @part. */
size_t lw_probe_count_symbols(const char *path, const char *part);

#endif /* LAPWING_CLI_PROBE_H */
