/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_nvtx.c - NVTX ranges and marks of the job, through NVTX_INJECTION64_PATH=.../liblapwing.so.
 *
 * Writes: MARK records (NVTX_RANGE, NVTX_POINT) named "domain/message", in a process that something else
 * made live: a library that merely uses NVTX is no reason to trace its process.
 *
 * The ABI is that of nvtx3 (CUDA 10 to 13), taken over as numbers because its headers are not needed to
 * build: export table 1 is {size_t size; int (*get)(int module, void ***table[], unsigned *n)}
 * (nvtxTypes.h, NvtxExportTableCallbacks); modules CORE 1 and CORE2 5, the function numbers below
 * (NvtxCallbackIdCore, NvtxCallbackIdCore2); event attributes as in nvToolsExt.h,
 * nvtxEventAttributes_v2, 48 bytes. The wide-character calls are left alone.
 */
#include <string.h>
#include <wchar.h>

#include "tracer/mark.h"

enum { EXPORT_CALLBACKS = 1, MODULE_CORE = 1, MODULE_CORE2 = 5 };
enum { PAYLOAD_UINT64 = 1, PAYLOAD_INT64 = 2, PAYLOAD_UINT32 = 4, PAYLOAD_INT32 = 5 };
enum { MESSAGE_ASCII = 1, MESSAGE_WIDE = 2, MESSAGE_REGISTERED = 3 };

struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	union {
		uint64_t u64;
		int64_t i64;
		uint32_t u32;
		int32_t i32;
	} payload;
	int32_t message_type;
	const void *message; /* char *, wchar_t *, or what register_string() gave */
};
static_assert(sizeof(struct attributes) == 48, "nvtxEventAttributes_v2");

struct callbacks {
	size_t size;
	int (*get)(int module, void ***ret_table, unsigned *ret_n);
};

/* ---- names: domains and registered strings live as long as the process -------------------------- */

static char names[1 << 16];
static _Atomic size_t names_used = 1;

/* Return: a copy of @text that serves as its handle; NULL when there is no more room (counted). */
static const char *keep_name(const char *text)
{
	size_t n = text ? strlen(text) + 1 : 1, at;

	if (n > LW_STRING_MAX_BYTES)
		n = LW_STRING_MAX_BYTES;
	at = atomic_fetch_add(&names_used, n);
	if (at > sizeof(names) - n) {
		atomic_store(&names_used, sizeof(names));
		lw_loss(LW_LOSS_TABLE_FULL, 1, "nvtx names");
		return NULL;
	}
	if (text)
		memcpy(names + at, text, n - 1);
	return names + at;
}

static bool is_kept_name(const char *text)
{
	return text >= names && text < names + sizeof(names);
}

/* String id of "domain/message"; what is not plain ASCII in a wide message becomes '?'. */
static uint64_t full_name(const char *domain, int type, const void *message)
{
	char text[LW_STRING_MAX_BYTES];
	size_t n = 0;

	if (domain && is_kept_name(domain)) {
		n = strnlen(domain, sizeof(text) / 2);
		memcpy(text, domain, n);
		text[n++] = '/';
	}
	if (!message || (type == MESSAGE_REGISTERED && !is_kept_name(message)))
		return lw_string(text, n);
	if (type == MESSAGE_WIDE) {
		for (const wchar_t *at = message; *at && n < sizeof(text); at++)
			text[n++] = *at > 0 && *at < 128 ? (char)*at : '?';
	} else if (type == MESSAGE_ASCII || type == MESSAGE_REGISTERED) {
		size_t part = strnlen(message, sizeof(text) - n);

		memcpy(text + n, message, part);
		n += part;
	}
	return lw_string(text, n);
}

static uint64_t name_of(const char *domain, const struct attributes *attributes)
{
	if (!attributes || attributes->size < sizeof(*attributes))
		return full_name(domain, 0, NULL);
	return full_name(domain, attributes->message_type, attributes->message);
}

static int64_t value_of(const struct attributes *attributes)
{
	if (!attributes || attributes->size < sizeof(*attributes))
		return 0;
	switch (attributes->payload_type) {
	case PAYLOAD_UINT64:
	case PAYLOAD_INT64:
		return attributes->payload.i64;
	case PAYLOAD_UINT32:
		return attributes->payload.u32;
	case PAYLOAD_INT32:
		return attributes->payload.i32;
	}
	return 0;
}

/* ---- ranges that begin on one thread and end on another ------------------------------------------ */

enum { STARTED_MAX = 256 };
static struct {
	_Atomic uint64_t id; /* 0 = free; the low byte is the place in this table */
	struct lw_range range;
} started[STARTED_MAX];

static uint64_t start_range(uint64_t name, int64_t value)
{
	static _Atomic uint64_t n_started;
	uint64_t serial = atomic_fetch_add(&n_started, 1) + 1;

	for (uint64_t tried = 0; tried < STARTED_MAX; tried++) {
		uint64_t at = (serial + tried) % STARTED_MAX, none = 0;
		uint64_t id = serial * STARTED_MAX + at;

		if (!atomic_compare_exchange_strong(&started[at].id, &none, UINT64_MAX))
			continue;
		started[at].range = (struct lw_range){
			.t0_ns = lw_is_live() ? lw_now_ns() : 0, .name = name, .value = value};
		/* pairs with the exchange in end_range: the range is whole when its id shows */
		atomic_store(&started[at].id, id);
		return id;
	}
	lw_loss(LW_LOSS_TABLE_FULL, 1, "nvtx ranges");
	return UINT64_MAX;
}

static void end_range(uint64_t id)
{
	struct lw_range range = started[id % STARTED_MAX].range;
	uint64_t expected = id;

	if (id == UINT64_MAX ||
		!atomic_compare_exchange_strong(&started[id % STARTED_MAX].id, &expected, 0))
		return;
	if (range.t0_ns)
		lw_mark_record(
			LW_MARK_NVTX_RANGE, range.t0_ns, lw_now_ns(), range.name, range.value);
}

/* ---- what NVTX calls ------------------------------------------------------------------------------ */

static void record_point(uint64_t name, int64_t value)
{
	int64_t now_ns = lw_now_ns();

	if (lw_is_live())
		lw_mark_record(LW_MARK_NVTX_POINT, now_ns, now_ns, name, value);
}

static void mark_text(const char *text)
{
	record_point(full_name(NULL, MESSAGE_ASCII, text), 0);
}

static void domain_mark(const char *domain, const struct attributes *attributes)
{
	record_point(name_of(domain, attributes), value_of(attributes));
}

static void mark(const struct attributes *attributes)
{
	domain_mark(NULL, attributes);
}

static int push_text(const char *text)
{
	return lw_ranges_push(NULL, full_name(NULL, MESSAGE_ASCII, text), 0);
}

static int domain_push(const char *domain, const struct attributes *attributes)
{
	return lw_ranges_push(domain, name_of(domain, attributes), value_of(attributes));
}

static int push(const struct attributes *attributes)
{
	return domain_push(NULL, attributes);
}

static int domain_pop(const char *domain)
{
	return lw_ranges_pop(domain, LW_MARK_NVTX_RANGE);
}

static int pop(void)
{
	return domain_pop(NULL);
}

static uint64_t start_text(const char *text)
{
	return start_range(full_name(NULL, MESSAGE_ASCII, text), 0);
}

static uint64_t domain_start(const char *domain, const struct attributes *attributes)
{
	return start_range(name_of(domain, attributes), value_of(attributes));
}

static uint64_t start(const struct attributes *attributes)
{
	return domain_start(NULL, attributes);
}

static void domain_end(const char *domain, uint64_t id)
{
	(void)domain;
	end_range(id);
}

static const char *register_string(const char *domain, const char *text)
{
	(void)domain;
	return keep_name(text);
}

typedef void (*any_fn)(void);

static const struct {
	int module;
	unsigned number;
	any_fn function;
} handlers[] = {
	{MODULE_CORE, 1, (any_fn)mark}, {MODULE_CORE, 2, (any_fn)mark_text},
	{MODULE_CORE, 4, (any_fn)start}, {MODULE_CORE, 5, (any_fn)start_text},
	{MODULE_CORE, 7, (any_fn)end_range}, {MODULE_CORE, 8, (any_fn)push},
	{MODULE_CORE, 9, (any_fn)push_text}, {MODULE_CORE, 11, (any_fn)pop},
	{MODULE_CORE2, 1, (any_fn)domain_mark}, {MODULE_CORE2, 2, (any_fn)domain_start},
	{MODULE_CORE2, 3, (any_fn)domain_end}, {MODULE_CORE2, 4, (any_fn)domain_push},
	{MODULE_CORE2, 5, (any_fn)domain_pop}, {MODULE_CORE2, 10, (any_fn)register_string},
	{MODULE_CORE2, 12, (any_fn)keep_name}, /* DomainCreateA */
};

int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t id));

/* NVTX calls this once per copy of itself in the process, at its first use. Return: 1 = attached. */
LW_EXPORT int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t id))
{
	const struct callbacks *callbacks = get_export_table(EXPORT_CALLBACKS);

	if (!lw_hook_wanted("nvtx") || !callbacks || callbacks->size < sizeof(*callbacks))
		return 0;
	for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
		void **table; /* of pointers to the client's function pointers */
		unsigned n = 0;

		if (!callbacks->get(handlers[i].module, &table, &n))
			return 0;
		if (handlers[i].number < n && table[handlers[i].number])
			*(any_fn *)table[handlers[i].number] = handlers[i].function;
	}
	return 1;
}
