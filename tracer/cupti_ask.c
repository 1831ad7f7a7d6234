/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_ask.c - what the environment wants of CUPTI, and what CUPTI is asked for: kinds of records, and of calls of
 * CUDA those that are read.
 */
#include <stdlib.h>
#include <string.h>

#include "schema/rundir.h"
#include "tracer/cupti_layout.h"
#include "tracer/hook_cupti.h"

/* ---- the environment ---------------------------------------------------------------------------------- */

static const char *const mode_names[] = {[LW_CUPTI_MODE_ON] = "on",
	[LW_CUPTI_MODE_GRAPHS] = "graphs",
	[LW_CUPTI_MODE_OFF] = "off",
	[LW_CUPTI_MODE_RELEASE] = "release"};

enum lw_cupti_mode lw_cupti_mode(bool *ret_is_set)
{
	const char *text = getenv(LW_ENV_GPU);

	*ret_is_set = text && *text;
	if (!*ret_is_set)
		return LW_CUPTI_MODE_ON;
	for (int i = LW_CUPTI_MODE_ON; i <= LW_CUPTI_MODE_RELEASE; i++)
		if (!strcmp(text, mode_names[i]))
			return (enum lw_cupti_mode)i;
	return LW_CUPTI_MODE_UNKNOWN;
}

bool lw_cupti_is_kineto_daemon(void)
{
	const char *text = getenv("KINETO_USE_DAEMON");

	return text && *text && strcmp(text, "0") != 0;
}

/* ---- CUPTI -------------------------------------------------------------------------------------------- */

/* Never KIND_KERNEL: it makes kernels run one after the other. */
static const struct {
	int kind;
	bool is_needed, is_for_graphs;
} kinds[] = {
	{LW_CUPTI_KIND_CONCURRENT_KERNEL, true, false},
	{LW_CUPTI_KIND_DEVICE, false, false},
	{LW_CUPTI_KIND_MEMCPY, false, false},
	{LW_CUPTI_KIND_MEMCPY2, false, false},
	{LW_CUPTI_KIND_MEMSET, false, false},
	{LW_CUPTI_KIND_SYNCHRONIZATION, false, false},
	{LW_CUPTI_KIND_EXTERNAL_CORRELATION, false, false},
	{LW_CUPTI_KIND_OVERHEAD, false, false},
	{LW_CUPTI_KIND_GRAPH_TRACE, false, true},
};

static int enable_kind(const struct lw_cupti_api *api, int kind, uint32_t how)
{
	/* devices that there were before us are told of only so */
	if (kind == LW_CUPTI_KIND_DEVICE && api->ActivityEnableAndDump &&
		!(how & LW_CUPTI_ASK_INSIDE))
		return api->ActivityEnableAndDump(kind);
	return api->ActivityEnable(kind);
}

/* Calls of CUDA, narrowed to those that we read; versions that cannot narrow tell of all. */
static uint32_t switch_calls(const struct lw_cupti_api *api, bool is_on)
{
	uint32_t n = 0, number;
	bool is_driver;

	if (!api->ActivityEnableRuntimeApi || !api->ActivityEnableDriverApi) {
		int (*call)(int) = is_on ? api->ActivityEnable : api->ActivityDisable;

		return (uint32_t)(!call(LW_CUPTI_KIND_RUNTIME) + !call(LW_CUPTI_KIND_DRIVER));
	}
	for (size_t i = 0; (number = lw_cupti_call(i, &is_driver)) != 0; i++)
		n += !(is_driver ? api->ActivityEnableDriverApi(number, is_on)
				 : api->ActivityEnableRuntimeApi(number, is_on));
	return n ? 2 : 0;
}

void lw_cupti_disable(const struct lw_cupti_api *api, uint32_t how)
{
	switch_calls(api, false);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!kinds[i].is_for_graphs || how & LW_CUPTI_ASK_GRAPHS)
			api->ActivityDisable(kinds[i].kind);
}

int lw_cupti_enable(const struct lw_cupti_api *api, uint32_t how, uint32_t *ret_n)
{
	*ret_n = 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		int result;

		if (kinds[i].is_for_graphs && !(how & LW_CUPTI_ASK_GRAPHS))
			continue;
		result = enable_kind(api, kinds[i].kind, how);
		*ret_n += !result;
		if (result && kinds[i].is_needed) {
			lw_cupti_disable(api, how);
			return result;
		}
	}
	*ret_n += switch_calls(api, true);
	return LW_CUPTI_SUCCESS;
}
