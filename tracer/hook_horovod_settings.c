/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_horovod_settings.c - Horovod's knobs, as SETTING records, whenever one changes.
 *
 * Reads:  the environment and the documented defaults once; then the ParameterManager itself, which
 *         every operation's Enabled() is handed: that shows what the autotuner tries too.
 */
#include <math.h>
#include <stdlib.h>

#include "tracer/hook_horovod.h"

enum {
	BEFORE_0_21 = 0, /* index into the defaults below */
	SINCE_0_21 = 1
};

/* Variables that Horovod reads when it starts. Those without a reader below stay as told here. */
static const struct variable {
	enum lw_setting setting;
	const char *name;
	double defaults[2]; /* BEFORE_0_21, SINCE_0_21; in the variable's unit */
	double unit;        /* of the setting, in the variable's: cycle time is ns from ms */
	bool is_text;       /* set at all means 1 */
} variables[] = {
	{LW_SETTING_FUSION_BYTES, "HOROVOD_FUSION_THRESHOLD", {67108864, 134217728}, 1, false},
	{LW_SETTING_CYCLE_NS, "HOROVOD_CYCLE_TIME", {5, 1}, 1e6, false},
	{LW_SETTING_CACHE_CAPACITY, "HOROVOD_CACHE_CAPACITY", {1024, 1024}, 1, false},
	{LW_SETTING_AUTOTUNE, "HOROVOD_AUTOTUNE", {0, 0}, 1, false},
	{LW_SETTING_HIERARCHICAL_ALLREDUCE, "HOROVOD_HIERARCHICAL_ALLREDUCE", {0, 0}, 1, false},
	{LW_SETTING_TORUS_ALLREDUCE, "HOROVOD_TORUS_ALLREDUCE", {0, 0}, 1, false},
	{LW_SETTING_DISABLE_GROUP_FUSION, "HOROVOD_DISABLE_GROUP_FUSION", {0, 0}, 1, false},
	{LW_SETTING_BATCH_D2D_MEMCOPIES, "HOROVOD_BATCH_D2D_MEMCOPIES", {0, 1}, 1, false},
	{LW_SETTING_TIMELINE, "HOROVOD_TIMELINE", {0, 0}, 1, true},
};

void lw_hvd_settings_start(struct lw_hvd_extension *extension)
{
	int version = extension->call.start_timeline ? SINCE_0_21 : BEFORE_0_21;

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const struct variable *variable = &variables[i];
		const char *text = getenv(variable->name);
		double value = variable->defaults[version];

		if (text && *text)
			value = variable->is_text ? 1 : strtod(text, NULL);
		value *= variable->unit;
		lw_setting(variable->setting, value,
			text && *text ? LW_SOURCE_ENV : LW_SOURCE_DEFAULT);
		if (variable->setting == LW_SETTING_FUSION_BYTES)
			extension->fusion_bytes = (uint64_t)value;
	}
}

static void live(struct lw_hvd_extension *extension, enum lw_setting setting, double value)
{
	if (extension->settings[setting] == value) /* never true of the NaN it starts as */
		return;
	extension->settings[setting] = value;
	lw_setting(setting, value, LW_SOURCE_LIVE);
}

void lw_hvd_settings_check(struct lw_hvd_extension *extension, void *controller)
{
	const struct lw_hvd_calls *call = &extension->call;
	const void *manager = extension->parameter_manager;
	double fusion_bytes = -1, effective_bytes = -1;

	if (controller && call->fusion_effective_bytes)
		effective_bytes = (double)call->fusion_effective_bytes(controller);
	if (manager) {
		if (call->fusion_bytes)
			fusion_bytes = (double)call->fusion_bytes(manager);
		if (call->cycle_ms)
			live(extension, LW_SETTING_CYCLE_NS, call->cycle_ms(manager) * 1e6);
		if (call->cache_enabled)
			live(extension, LW_SETTING_CACHE_ENABLED, call->cache_enabled(manager));
		if (call->hierarchical_allreduce)
			live(extension, LW_SETTING_HIERARCHICAL_ALLREDUCE,
				call->hierarchical_allreduce(manager));
		if (call->torus_allreduce)
			live(extension, LW_SETTING_TORUS_ALLREDUCE, call->torus_allreduce(manager));
	}
	if (fusion_bytes >= 0)
		live(extension, LW_SETTING_FUSION_BYTES, fusion_bytes);
	if (effective_bytes >= 0) {
		live(extension, LW_SETTING_FUSION_EFFECTIVE_BYTES, effective_bytes);
		extension->fusion_bytes = (uint64_t)effective_bytes;
	} else if (fusion_bytes >= 0 && !call->fusion_effective_bytes) {
		extension->fusion_bytes = (uint64_t)fusion_bytes;
	}
}

/* bool HorovodOp::Enabled(const ParameterManager &manager, entries, response) const */
uint64_t lw_hvd_on_enabled(const struct lw_hvd_slot *slot, void *self, void *manager, void *entries,
	void *response, void *e)
{
	struct lw_hvd_extension *extension = slot->extension;

	/* It is a member of Horovod's global state, so it lies in the extension's own data. */
	if (lw_is_live() && (uintptr_t)manager >= extension->start &&
		(uintptr_t)manager < extension->end) {
		extension->parameter_manager = manager;
		lw_hvd_settings_check(extension, NULL);
	}
	return slot->real(self, manager, entries, response, e);
}
