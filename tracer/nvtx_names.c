/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx_names.c - texts of NVTX domains and registered strings, which live as long as the process, and the names
 * that ranges are recorded under.
 *
 * Our handle of a domain or string is the address of its text. When another tool is attached as well, the client
 * holds that tool's handles, and a table says which text each stands for.
 */
#include <string.h>
#include <wchar.h>

#include "tracer/mpi_table.h"
#include "tracer/nvtx.h"

static char names[1 << 16];
static _Atomic size_t names_used = 1;

static size_t from_wide(const wchar_t *wide, char *text, size_t n_max)
{
	size_t n = 0;

	for (; *wide && n < n_max; wide++)
		text[n++] = *wide > 0 && *wide < 128 ? (char)*wide : '?';
	return n;
}

const char *lw_nvtx_keep(int type, const void *text)
{
	char narrow[LW_STRING_MAX_BYTES];
	size_t n, at;

	if (text && type == LW_NVTX_WIDE) {
		n = from_wide(text, narrow, sizeof(narrow));
		text = narrow;
	} else {
		n = text ? strnlen(text, LW_STRING_MAX_BYTES) : 0;
	}
	at = atomic_fetch_add(&names_used, n + 1);
	if (at > sizeof(names) - (n + 1)) {
		atomic_store(&names_used, sizeof(names));
		lw_loss(LW_LOSS_TABLE_FULL, 1, "nvtx names");
		return NULL;
	}
	if (text)
		memcpy(names + at, text, n);
	return names + at;
}

static bool is_kept(const char *text)
{
	return text >= names && text < names + sizeof(names);
}

/* ---- handles of another tool ----------------------------------------------------------------------- */

enum { N_BUCKETS = 256 };
static struct {
	_Alignas(64) _Atomic uintptr_t keys[N_BUCKETS * LW_TABLE_WAYS];
	const char *texts[N_BUCKETS * LW_TABLE_WAYS];
} aliases[LW_NVTX_N_NAMES];

/* Not 0 and not LW_TABLE_CLAIMED for any handle that a tool may choose, but for two that none does. */
static uintptr_t key_of(const void *handle)
{
	return (uintptr_t)handle + 2;
}

static struct lw_table table_of(enum lw_nvtx_names kind)
{
	return (struct lw_table){aliases[kind].keys, N_BUCKETS};
}

void lw_nvtx_alias(enum lw_nvtx_names kind, const void *handle, const char *text)
{
	struct lw_table table = table_of(kind);
	uint32_t probe = 0;
	int32_t slot;

	if (!text || key_of(handle) <= LW_TABLE_CLAIMED ||
		lw_table_find(&table, key_of(handle), &probe) >= 0)
		return;
	slot = lw_table_claim(&table, key_of(handle));
	if (slot < 0) {
		lw_loss(LW_LOSS_TABLE_FULL, 1, "nvtx handles of another tool");
		return;
	}
	aliases[kind].texts[slot] = text;
	lw_table_publish(&table, slot, key_of(handle));
}

const char *lw_nvtx_text(enum lw_nvtx_names kind, const void *handle)
{
	struct lw_table table = table_of(kind);
	uint32_t probe = 0;
	int32_t slot;

	if (!handle)
		return NULL;
	if (is_kept(handle))
		return handle;
	slot = lw_table_find(&table, key_of(handle), &probe);
	return slot < 0 ? NULL : aliases[kind].texts[slot];
}

/* ---- names of ranges --------------------------------------------------------------------------------- */

/*
 * "aten::conv2d, seq = 12, op_id = 5, sizes = [...]" is how torch.autograd.profiler.emit_nvtx calls an operator
 * (getNvtxStr in torch/csrc/profiler/util.cpp). Return: length of the operator alone.
 */
static size_t cut_autograd(const char *text, size_t n, int64_t *ret_sequence)
{
	static const char *const keys[] = {", seq = ", ", op_id = ", ", sizes = "};
	size_t at = n;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *found = memmem(text, at, keys[i], strlen(keys[i]));

		if (!found)
			continue;
		at = (size_t)(found - text);
		if (i > 0)
			continue;
		*ret_sequence = 0;
		for (found += strlen(keys[0]); found < text + n && *found >= '0' && *found <= '9' &&
					       *ret_sequence < INT64_MAX / 10 - 1;
			found++)
			*ret_sequence = *ret_sequence * 10 + (*found - '0');
	}
	return at;
}

static size_t add_reduction(const struct lw_nvtx_values *values, char *text, size_t n_max)
{
	static const char *const texts[] = {"(Sum)", "(Product)", "(Max)", "(Min)", "(Avg)"};
	const uint64_t n_texts = sizeof(texts) / sizeof(texts[0]); /* as ncclRedOp_t numbers them */
	uint64_t reduction;
	size_t n;

	if (!values || !lw_nvtx_has(values, LW_NVTX_FIELD_REDUCTION))
		return 0;
	reduction = (uint64_t)values->at[LW_NVTX_FIELD_REDUCTION];
	n = reduction < n_texts ? strlen(texts[reduction]) : 0; /* else one that the user made */
	if (n > n_max)
		return 0;
	memcpy(text, n ? texts[reduction] : "", n);
	return n;
}

uint64_t lw_nvtx_name(const void *domain, int type, const void *message,
	const struct lw_nvtx_values *values, int64_t *value)
{
	const char *prefix = lw_nvtx_text(LW_NVTX_DOMAINS, domain);
	char text[LW_STRING_MAX_BYTES];
	size_t n = 0, n_prefix, part;

	if (prefix) {
		n = strnlen(prefix, sizeof(text) / 2);
		memcpy(text, prefix, n);
		text[n++] = '/';
	}
	n_prefix = n;
	if (type == LW_NVTX_REGISTERED)
		message = lw_nvtx_text(LW_NVTX_STRINGS, message);
	if (message && type == LW_NVTX_WIDE) {
		n += from_wide(message, text + n, sizeof(text) - n);
	} else if (message && (type == LW_NVTX_ASCII || type == LW_NVTX_REGISTERED)) {
		part = strnlen(message, sizeof(text) - n);
		memcpy(text + n, message, part);
		n += part;
	}
	if (!prefix && type == LW_NVTX_ASCII)
		n = n_prefix + cut_autograd(text + n_prefix, n - n_prefix, value);
	n += add_reduction(values, text + n, sizeof(text) - n);
	return lw_string(text, n);
}
