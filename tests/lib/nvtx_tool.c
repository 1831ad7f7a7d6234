/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx_tool.c - another tool that NVTX_INJECTION64_PATH may name, to stand beside lapwing: prints every call that it is
 * given to NVTX_TOOL_LOG, with handles, ids and levels of its own making, and aborts on a handle that is not its own.
 *
 * NVTX_TOOL=narrow: takes push and pop alone, as a tool that makes no handles; nothing: attaches, and takes no call, as CUPTI does; null: takes all calls, and gives NULL for a
 * handle; refuse: gives up half-way; per_copy: gives each copy of NVTX in the process another function for marks.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct handle {
	uint64_t magic;
	char text[100];
};
enum { MAGIC = 0x71A7E5 };
static int level = 100;
static uint64_t next_range; /* from 0 on: a tool may */
static uint64_t next_schema = UINT64_C(7) << 32;
static FILE *log_file;

static const char *own(const void *any)
{
	const struct handle *handle = any;

	if (!handle)
		return "-";
	if (handle->magic != MAGIC)
		abort();
	return handle->text;
}

static const void *make(const char *text)
{
	const char *how = getenv("NVTX_TOOL");
	struct handle *handle;

	if (how && strcmp(how, "null") == 0)
		return NULL;
	handle = calloc(1, sizeof(*handle));
	handle->magic = MAGIC;
	snprintf(handle->text, sizeof(handle->text), "%s", text);
	return handle;
}

#define SAY(...) (fprintf(log_file, __VA_ARGS__), fflush(log_file))

struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, n_payloads;
	int64_t payload;
	int32_t message_type;
	const void *message;
};

static const char *message(const struct attributes *attributes)
{
	if (attributes->size < sizeof(*attributes))
		return "?";
	return attributes->message_type == 3   ? own(attributes->message)
	       : attributes->message_type == 1 ? attributes->message
					       : "wide";
}

static void mark(const char *text)
{
	SAY("mark %s\n", text);
}

static void mark_elsewhere(const char *text)
{
	SAY("elsewhere mark %s\n", text);
}

static int push(const char *text)
{
	SAY("push %s\n", text);
	return level++;
}

static int pop(void)
{
	SAY("pop\n");
	return --level;
}

static int push_event(const struct attributes *attributes)
{
	return push(message(attributes));
}

static void domain_mark(const void *domain, const struct attributes *attributes)
{
	SAY("%s mark %s\n", own(domain), message(attributes));
}

static int domain_push(const void *domain, const struct attributes *attributes)
{
	SAY("%s push %s\n", own(domain), message(attributes));
	return level++;
}

static int domain_pop(const void *domain)
{
	SAY("%s pop\n", own(domain));
	return --level;
}

static uint64_t domain_start(const void *domain, const struct attributes *attributes)
{
	SAY("%s start %s\n", own(domain), message(attributes));
	return next_range++;
}

static void domain_end(const void *domain, uint64_t id)
{
	SAY("%s end %lu\n", own(domain), (unsigned long)id);
}

static uint64_t start(const char *text)
{
	SAY("start %s\n", text);
	return next_range++;
}

static void end(uint64_t id)
{
	SAY("end %lu\n", (unsigned long)id);
}

static const void *register_string(const void *domain, const char *text)
{
	SAY("%s string %s\n", own(domain), text);
	return make(text);
}

static const void *create(const char *text)
{
	SAY("domain %s\n", text);
	return make(text);
}

static void name_category(const void *domain, uint32_t category, const char *text)
{
	SAY("%s category %u %s\n", own(domain), category, text);
}

static uint64_t schema(const void *domain, const void *attributes)
{
	(void)attributes;
	SAY("%s schema\n", own(domain));
	return next_schema++; /* its own, even where the client proposed one */
}

static int pop_payload(const void *domain, const void *payloads, size_t n)
{
	(void)payloads;
	SAY("%s pop with %zu\n", own(domain), n);
	return --level;
}

typedef void (*any_fn)(void);

#define EXPORT __attribute__((visibility("default")))
EXPORT int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t id));
EXPORT int InitializeInjectionNvtxExtension(void *module);

int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t id))
{
	const struct {
		size_t size;
		int (*get)(int module, any_fn ***ret_table, unsigned *ret_n);
	} *callbacks = get_export_table(1);
	const char *path = getenv("NVTX_TOOL_LOG"), *how = getenv("NVTX_TOOL");
	static int n_copies;
	any_fn **core, **core2;
	unsigned n;

	log_file = path ? fopen(path, "a") : NULL;
	if (!log_file || !callbacks->get(1, &core, &n) || !callbacks->get(5, &core2, &n))
		return 0;
	SAY("attached\n");
	if (how && strcmp(how, "nothing") == 0)
		return 1;
	*core[9] = (any_fn)push;
	*core[11] = (any_fn)pop;
	if (how && strcmp(how, "refuse") == 0)
		return 0;
	*core2[4] = (any_fn)domain_push;
	*core2[5] = (any_fn)domain_pop;
	if (how && strcmp(how, "narrow") == 0)
		return 1;
	*core[2] =
		(any_fn)(how && strcmp(how, "per_copy") == 0 && n_copies++ ? mark_elsewhere : mark);
	*core[5] = (any_fn)start;
	*core[7] = (any_fn)end;
	*core[8] = (any_fn)push_event;
	*core2[1] = (any_fn)domain_mark;
	*core2[2] = (any_fn)domain_start;
	*core2[3] = (any_fn)domain_end;
	*core2[8] = (any_fn)name_category;
	*core2[10] = (any_fn)register_string;
	*core2[12] = (any_fn)create;
	return 1;
}

int InitializeInjectionNvtxExtension(void *any_module)
{
	struct {
		uint16_t version, size, module, compatibility;
		size_t n_segments;
		struct {
			size_t id, n_slots;
			intptr_t *slots;
		} * segments;
	} *module = any_module;

	if (getenv("NVTX_TOOL"))
		return 0;
	SAY("extension %d\n", module->module);
	module->segments[0].slots[0] = (intptr_t)schema;
	module->segments[0].slots[4] = (intptr_t)pop_payload;
	return 1;
}
