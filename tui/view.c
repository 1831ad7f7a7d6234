/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/view.h"

#include <string.h>

const struct lw_view_ops *const lw_views[LW_VIEW_COUNT] = {
	&lw_view_overview,
	&lw_view_timeline,
	&lw_view_phases,
	&lw_view_tensors,
	&lw_view_ranks,
	&lw_view_network,
	&lw_view_model,
	&lw_view_advice,
	&lw_view_grid,
	&lw_view_whatif,
	&lw_view_log,
};

int lw_view_find(const char *name)
{
	size_t n = strlen(name);
	int found = -1;

	for (int i = 0; i < LW_VIEW_COUNT; i++) {
		if (!strcmp(lw_views[i]->name, name))
			return i;
		if (n && !strncmp(lw_views[i]->name, name, n))
			found = found == -1 ? i : -2;
	}
	return found < 0 ? -1 : found;
}
