/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_nvtx.c - NVTX ranges and marks of the job, through NVTX_INJECTION64_PATH=.../liblapwing.so.
 *
 * Writes: MARK records (NVTX_RANGE, NVTX_POINT) named "domain/message" with their payload as value, in a process that
 * something else made live: a library that merely uses NVTX is no reason to trace its process. NCCL is: see
 * nvtx_nccl.c. A value is the bytes that a payload speaks of, else its first whole number.
 *
 * Each call goes on to the other tool that there may be (nvtx_chain.c), whose results the client then gets. It is
 * called outside the range: a push before ours begins, a pop after ours has ended.
 */
#include <stdlib.h>
#include <string.h>

#include "tracer/mark.h"
#include "tracer/mpi_table.h"
#include "tracer/nvtx.h"

/* ---- what an event says ----------------------------------------------------------------------------- */

struct said {
	uint64_t name;
	int64_t value;
	const char *text; /* of the message, where it is plain text; NULL elsewhere */
	struct lw_nvtx_values values;
};

static int64_t scalar_of(const struct lw_nvtx_attributes *attributes)
{
	switch (attributes->payload_type) {
	case LW_NVTX_PAYLOAD_UINT64:
	case LW_NVTX_PAYLOAD_INT64:
		return attributes->payload.i64;
	case LW_NVTX_PAYLOAD_UINT32:
		return attributes->payload.u32;
	case LW_NVTX_PAYLOAD_INT32:
		return attributes->payload.i32;
	}
	return 0;
}

static void read_message(const void *domain, int type, const void *message, struct said *said)
{
	if (type == LW_NVTX_ASCII)
		said->text = message;
	else if (type == LW_NVTX_REGISTERED)
		said->text = lw_nvtx_text(LW_NVTX_STRINGS, message);
	said->name = lw_nvtx_name(domain, type, message, &said->values, &said->value);
}

static struct said read_payload(
	const void *domain, const struct lw_nvtx_payload *payloads, size_t n)
{
	struct said said = {0};

	lw_nvtx_read(domain, payloads, n, &said.values);
	said.value =
		said.values
			.at[lw_nvtx_has(&said.values, LW_NVTX_FIELD_BYTES) ? LW_NVTX_FIELD_BYTES
									   : LW_NVTX_FIELD_FIRST];
	read_message(domain, 0, NULL, &said);
	return said;
}

static struct said read_event(const void *domain, const struct lw_nvtx_attributes *attributes)
{
	struct said said = {0};

	if (!attributes || attributes->size < sizeof(*attributes))
		return read_payload(domain, NULL, 0);
	if (attributes->payload_type == LW_NVTX_PAYLOAD_EXTENDED)
		/* the address travels as a number; a count of 0 is what older clients leave there */
		said = read_payload(domain,
			(const struct lw_nvtx_payload *)(uintptr_t)attributes->payload.u64,
			attributes->n_payloads > 0 ? (size_t)attributes->n_payloads : 1);
	else
		said.value = scalar_of(attributes);
	read_message(domain, attributes->message_type, attributes->message, &said);
	return said;
}

static struct said read_text(int type, const void *text)
{
	struct said said = {0};

	read_message(NULL, type, text, &said);
	return said;
}

/* ---- ranges that begin on one thread and end on another ------------------------------------------ */

enum {
	START_BUCKETS = 512
}; /* of LW_TABLE_WAYS: Horovod has one open for each tensor that waits */
static struct {
	_Alignas(64) _Atomic uintptr_t keys[START_BUCKETS * LW_TABLE_WAYS];
	struct lw_range ranges[START_BUCKETS * LW_TABLE_WAYS];
} started;

static const uint64_t NO_RANGE = UINT64_MAX; /* what Horovod takes for none, too */

static uintptr_t key_of(uint64_t id)
{
	return (uintptr_t)id + 2; /* other tools may count from 0 */
}

/* @id: the other tool's, NULL = there is none, and ours is made. Return: the id that the client is given. */
static uint64_t start_range(const struct said *said, const uint64_t *id)
{
	static _Atomic uint64_t n_started;
	const struct lw_table table = {started.keys, START_BUCKETS};
	uint64_t own = id ? *id : atomic_fetch_add(&n_started, 1) + 1;
	uint32_t probe = 0;
	int32_t slot = -1;

	/* one that repeats ids of open ranges, or has no ids, cannot be followed */
	if (key_of(own) > LW_TABLE_CLAIMED && lw_table_find(&table, key_of(own), &probe) < 0)
		slot = lw_table_claim(&table, key_of(own));
	if (slot < 0) {
		lw_loss(LW_LOSS_TABLE_FULL, 1, "nvtx ranges");
		return id ? *id : NO_RANGE;
	}
	started.ranges[slot] = (struct lw_range){
		.t0_ns = lw_is_live() ? lw_now_ns() : 0, .name = said->name, .value = said->value};
	lw_table_publish(&table, slot, key_of(own));
	return own;
}

static void end_range(uint64_t id)
{
	const struct lw_table table = {started.keys, START_BUCKETS};
	uintptr_t expected = key_of(id);
	struct lw_range range;
	uint32_t probe = 0;
	int32_t slot;

	slot = expected > LW_TABLE_CLAIMED ? lw_table_find(&table, expected, &probe) : -1;
	if (slot < 0)
		return;
	range = started.ranges[slot];
	/* ended by two threads at once: one of them has it */
	if (!atomic_compare_exchange_strong(&started.keys[slot], &expected, 0))
		return;
	if (range.t0_ns && lw_is_live())
		lw_mark_record(
			LW_MARK_NVTX_RANGE, range.t0_ns, lw_now_ns(), range.name, range.value);
}

int64_t lw_nvtx_count_started(void)
{
	int64_t n = 0;

	for (size_t i = 0; i < sizeof(started.keys) / sizeof(started.keys[0]); i++)
		n += atomic_load_explicit(&started.keys[i], memory_order_relaxed) >
			     LW_TABLE_CLAIMED &&
		     started.ranges[i].t0_ns;
	return n;
}

/* ---- ranges of one thread ---------------------------------------------------------------------------- */

static void record_point(const struct said *said)
{
	int64_t now_ns = lw_now_ns();

	lw_nvtx_tell();
	if (lw_is_live())
		lw_mark_record(LW_MARK_NVTX_POINT, now_ns, now_ns, said->name, said->value);
}

/* @is_nccl: asked before *@said was read, as a text that is read before the process is live is lost */
static int push_range(const void *domain, bool is_nccl, const struct said *said)
{
	int level = lw_ranges_push(domain, said->name, said->value);

	lw_nvtx_tell();
	if (is_nccl && said->text)
		lw_nvtx_nccl_push(said->text, level, &said->values);
	return level;
}

static int pop_range(const void *domain, const struct said *said)
{
	int level = lw_ranges_pop(domain, LW_MARK_NVTX_RANGE);

	if (lw_nvtx_nccl_is(domain))
		lw_nvtx_nccl_pop(level, said ? &said->values : NULL);
	return level;
}

/* ---- what NVTX calls ------------------------------------------------------------------------------ */

/* The other tool's function behind @function, of its type; NULL = none. */
#define NEXT(function, CALL) ((__typeof__(&(function)))lw_nvtx_next(LW_NVTX_##CALL))

/*
 * One function for each call: X(function, CALL, domain, what it says, parameters, arguments). Which of them are
 * texts, events or payloads, in a domain or not, is all that tells those of a kind apart.
 */
#define LW_TEXT(type)  read_text(type, text), (const char *text), (text)
#define LW_WIDE        read_text(LW_NVTX_WIDE, text), (const wchar_t *text), (text)
#define LW_EVENT_PLAIN read_event(NULL, event), (const struct lw_nvtx_attributes *event), (event)
#define LW_EVENT_IN_DOMAIN                                                                         \
	read_event(domain, event), (const void *domain, const struct lw_nvtx_attributes *event),   \
		(domain, event)
#define LW_PAYLOAD                                                                                 \
	read_payload(domain, payloads, n),                                                         \
		(const void *domain, const struct lw_nvtx_payload *payloads, size_t n),            \
		(domain, payloads, n)

#define MARK(...) MARK_(__VA_ARGS__)
#define MARK_(function, CALL, domain, said_, parameters, arguments)                                \
	static void function parameters                                                            \
	{                                                                                          \
		const struct said said = said_;                                                    \
                                                                                                   \
		record_point(&said);                                                               \
		if (NEXT(function, CALL))                                                          \
			NEXT(function, CALL) arguments;                                            \
	}
MARK(mark_a, MARK_A, NULL, LW_TEXT(LW_NVTX_ASCII))
MARK(mark_w, MARK_W, NULL, LW_WIDE)
MARK(mark, MARK, NULL, LW_EVENT_PLAIN)
MARK(domain_mark, DOMAIN_MARK, domain, LW_EVENT_IN_DOMAIN)
MARK(mark_payload, MARK_PAYLOAD, domain, LW_PAYLOAD)

#define PUSH(...) PUSH_(__VA_ARGS__)
#define PUSH_(function, CALL, domain, said_, parameters, arguments)                                \
	static int function parameters                                                             \
	{                                                                                          \
		int(*next) parameters = NEXT(function, CALL);                                      \
		int theirs = next ? next arguments : 0, own;                                       \
		bool is_nccl = lw_nvtx_nccl_is(domain);                                            \
		const struct said said = said_;                                                    \
                                                                                                   \
		own = push_range(domain, is_nccl, &said);                                          \
		return next ? theirs : own;                                                        \
	}
PUSH(push_a, PUSH_A, NULL, LW_TEXT(LW_NVTX_ASCII))
PUSH(push_w, PUSH_W, NULL, LW_WIDE)
PUSH(push, PUSH, NULL, LW_EVENT_PLAIN)
PUSH(domain_push, DOMAIN_PUSH, domain, LW_EVENT_IN_DOMAIN)
PUSH(push_payload, PUSH_PAYLOAD, domain, LW_PAYLOAD)

#define START(...) START_(__VA_ARGS__)
#define START_(function, CALL, domain, said_, parameters, arguments)                               \
	static uint64_t function parameters                                                        \
	{                                                                                          \
		uint64_t(*next) parameters = NEXT(function, CALL);                                 \
		uint64_t theirs = next ? next arguments : 0;                                       \
		const struct said said = said_;                                                    \
                                                                                                   \
		lw_nvtx_tell();                                                                    \
		return start_range(&said, next ? &theirs : NULL);                                  \
	}
START(start_a, START_A, NULL, LW_TEXT(LW_NVTX_ASCII))
START(start_w, START_W, NULL, LW_WIDE)
START(start, START, NULL, LW_EVENT_PLAIN)
START(domain_start, DOMAIN_START, domain, LW_EVENT_IN_DOMAIN)
START(start_payload, START_PAYLOAD, domain, LW_PAYLOAD)

static int pop(void)
{
	int (*next)(void) = NEXT(pop, POP);
	int own = pop_range(NULL, NULL);

	return next ? next() : own;
}

static int domain_pop(const void *domain)
{
	int (*next)(const void *) = NEXT(domain_pop, DOMAIN_POP);
	int own = pop_range(domain, NULL);

	return next ? next(domain) : own;
}

static int pop_payload(const void *domain, const struct lw_nvtx_payload *payloads, size_t n)
{
	int (*next)(const void *, const struct lw_nvtx_payload *, size_t) =
		NEXT(pop_payload, POP_PAYLOAD);
	const struct said said = read_payload(domain, payloads, n);
	int own = pop_range(domain, &said);

	return next ? next(domain, payloads, n) : own;
}

static void end(uint64_t id)
{
	end_range(id);
	if (NEXT(end, END))
		NEXT(end, END)(id);
}

static void domain_end(const void *domain, uint64_t id)
{
	end_range(id);
	if (NEXT(domain_end, DOMAIN_END))
		NEXT(domain_end, DOMAIN_END)(domain, id);
}

static void end_payload(
	const void *domain, uint64_t id, const struct lw_nvtx_payload *payloads, size_t n)
{
	end_range(id);
	if (NEXT(end_payload, END_PAYLOAD))
		NEXT(end_payload, END_PAYLOAD)(domain, id, payloads, n);
}

/* ---- handles ------------------------------------------------------------------------------------------ */

/* The client is given @theirs where there is another tool, and its @text is known by that, too. */
static const void *give_handle(
	enum lw_nvtx_names kind, const char *text, bool is_next, const void *theirs)
{
	if (!is_next)
		return text;
	if (!theirs && text) {
		lw_nvtx_no_handles();
		/* of NCCL nothing else will be known, which somebody has to be told */
		if (kind == LW_NVTX_DOMAINS && lw_nvtx_nccl_is(text))
			lw_nvtx_tell();
	}
	lw_nvtx_alias(kind, theirs, text);
	return theirs;
}

#define CREATE(function, CALL, kind, type, parameters, arguments)                                  \
	static const void *function parameters                                                     \
	{                                                                                          \
		const void *(*next)parameters = NEXT(function, CALL);                              \
		const void *theirs = next ? next arguments : NULL;                                 \
                                                                                                   \
		return give_handle(kind, lw_nvtx_keep(type, text),                                 \
			next != NULL || lw_nvtx_is_withheld(LW_NVTX_##CALL), theirs);              \
	}
CREATE(create_a, CREATE_A, LW_NVTX_DOMAINS, LW_NVTX_ASCII, (const char *text), (text))
CREATE(create_w, CREATE_W, LW_NVTX_DOMAINS, LW_NVTX_WIDE, (const wchar_t *text), (text))
CREATE(register_a, REGISTER_A, LW_NVTX_STRINGS, LW_NVTX_ASCII,
	(const void *domain, const char *text), (domain, text))
CREATE(register_w, REGISTER_W, LW_NVTX_STRINGS, LW_NVTX_WIDE,
	(const void *domain, const wchar_t *text), (domain, text))

static uint64_t add_schema(const void *domain, const struct lw_nvtx_schema *schema)
{
	uint64_t (*next)(const void *, const struct lw_nvtx_schema *) = NEXT(add_schema, SCHEMA);
	uint64_t theirs = next ? next(domain, schema) : 0, own = lw_nvtx_schema_add(domain, schema);

	if (next)
		lw_nvtx_schema_alias(domain, own, theirs);
	return next ? theirs : own;
}

static uint64_t add_enum(const void *domain, const struct lw_nvtx_enum *definition)
{
	uint64_t (*next)(const void *, const struct lw_nvtx_enum *) = NEXT(add_enum, ENUM);
	uint64_t theirs = next ? next(domain, definition) : 0,
		 own = lw_nvtx_enum_add(domain, definition);

	if (next)
		lw_nvtx_schema_alias(domain, own, theirs);
	return next ? theirs : own;
}

/* ---- the ways in ---------------------------------------------------------------------------------------- */

static const lw_nvtx_fn functions[LW_NVTX_N_CALLS] = {
	[LW_NVTX_MARK] = (lw_nvtx_fn)mark,
	[LW_NVTX_MARK_A] = (lw_nvtx_fn)mark_a,
	[LW_NVTX_MARK_W] = (lw_nvtx_fn)mark_w,
	[LW_NVTX_START] = (lw_nvtx_fn)start,
	[LW_NVTX_START_A] = (lw_nvtx_fn)start_a,
	[LW_NVTX_START_W] = (lw_nvtx_fn)start_w,
	[LW_NVTX_END] = (lw_nvtx_fn)end,
	[LW_NVTX_PUSH] = (lw_nvtx_fn)push,
	[LW_NVTX_PUSH_A] = (lw_nvtx_fn)push_a,
	[LW_NVTX_PUSH_W] = (lw_nvtx_fn)push_w,
	[LW_NVTX_POP] = (lw_nvtx_fn)pop,
	[LW_NVTX_DOMAIN_MARK] = (lw_nvtx_fn)domain_mark,
	[LW_NVTX_DOMAIN_START] = (lw_nvtx_fn)domain_start,
	[LW_NVTX_DOMAIN_END] = (lw_nvtx_fn)domain_end,
	[LW_NVTX_DOMAIN_PUSH] = (lw_nvtx_fn)domain_push,
	[LW_NVTX_DOMAIN_POP] = (lw_nvtx_fn)domain_pop,
	[LW_NVTX_REGISTER_A] = (lw_nvtx_fn)register_a,
	[LW_NVTX_REGISTER_W] = (lw_nvtx_fn)register_w,
	[LW_NVTX_CREATE_A] = (lw_nvtx_fn)create_a,
	[LW_NVTX_CREATE_W] = (lw_nvtx_fn)create_w,
	[LW_NVTX_SCHEMA] = (lw_nvtx_fn)add_schema,
	[LW_NVTX_ENUM] = (lw_nvtx_fn)add_enum,
	[LW_NVTX_MARK_PAYLOAD] = (lw_nvtx_fn)mark_payload,
	[LW_NVTX_PUSH_PAYLOAD] = (lw_nvtx_fn)push_payload,
	[LW_NVTX_POP_PAYLOAD] = (lw_nvtx_fn)pop_payload,
	[LW_NVTX_START_PAYLOAD] = (lw_nvtx_fn)start_payload,
	[LW_NVTX_END_PAYLOAD] = (lw_nvtx_fn)end_payload,
};

int InitializeInjectionNvtx2(lw_nvtx_export_fn get_export_table);
int InitializeInjectionNvtxExtension(struct lw_nvtx_module *module);

/* NVTX calls this once per copy of itself in the process, at its first use. Return: 1 = attached. */
LW_EXPORT int InitializeInjectionNvtx2(lw_nvtx_export_fn get_export_table)
{
	return lw_nvtx_attach(get_export_table, lw_hook_wanted("nvtx") ? functions : NULL);
}

/* And this once per extension that is used, of each copy. */
LW_EXPORT int InitializeInjectionNvtxExtension(struct lw_nvtx_module *module)
{
	return lw_nvtx_attach_extension(module, lw_hook_wanted("nvtx") ? functions : NULL);
}

/* A launcher inside the job, a profiler, may have named another tool after `lapwing record` did. */
void lw_nvtx_started(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");

	if (path && *path && !strstr(path, "liblapwing") && lw_hook_wanted("nvtx"))
		lw_hook_report("nvtx", LW_HOOK_REFUSED, 0, path);
}
