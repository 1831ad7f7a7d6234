/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/figure.h"

void lw_cli_put_diags(struct lw_json *json, const struct lw_run *run)
{
	const struct lw_diag *diag;

	lw_vec_foreach (diag, &run->diags) {
		lw_json_object(json, NULL);
		lw_json_string(json, "kind", diag->kind);
		lw_json_int(json, "count", (int64_t)diag->n);
		lw_json_string(json, "text", diag->text);
		lw_json_object_end(json);
	}
}

int lw_cli_run_exit(const struct lw_run *run)
{
	bool is_incomplete =
		run->n_lost || run->n_missing_ranks || run->n_duplicate_ranks || !run->is_closed;

	for (size_t r = 0; r < run->ranks.n; r++)
		is_incomplete |= run->ranks.at[r].died;
	return is_incomplete ? LW_EXIT_INCOMPLETE : LW_EXIT_OK;
}
