/* SPDX-License-Identifier: Apache-2.0 */
/* found.c - what earlier stages found; apart from run.c, for runs that no store holds. */
#include <string.h>

#include "analyzer/run.h"

const char *lw_run_diag_text(const struct lw_run *run, const char *kind)
{
	const struct lw_diag *diag;

	lw_vec_foreach (diag, &run->diags)
		if (!strcmp(diag->kind, kind))
			return diag->text;
	return NULL;
}
