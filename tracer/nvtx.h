/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx.h - what the files of the NVTX injection share: hook_nvtx.c takes the calls, nvtx_names.c keeps domains and
 * registered strings, nvtx_payload.c reads extended payloads, nvtx_nccl.c knows NCCL's ranges, nvtx_chain.c hands
 * every call on to another tool that wanted them too.
 *
 * The ABI is that of nvtx3 (CUDA 10 to 13), taken over as numbers because its headers are not needed to build:
 * event attributes as in nvToolsExt.h (nvtxEventAttributes_v2), payloads and schemas as in nvToolsExtPayload.h
 * (extension module 2, compatibility 0x0103 and 0x0104: the same layouts in every NCCL from 2.16 to 2.30).
 */
#ifndef LAPWING_TRACER_NVTX_H
#define LAPWING_TRACER_NVTX_H

#include <assert.h>

#include "tracer/tracer.h"

/* ---- the ABI ------------------------------------------------------------------------------------ */

enum { LW_NVTX_ASCII = 1, LW_NVTX_WIDE = 2, LW_NVTX_REGISTERED = 3 };
enum {
	LW_NVTX_PAYLOAD_UINT64 = 1,
	LW_NVTX_PAYLOAD_INT64 = 2,
	LW_NVTX_PAYLOAD_DOUBLE = 3,
	LW_NVTX_PAYLOAD_UINT32 = 4,
	LW_NVTX_PAYLOAD_INT32 = 5,
	LW_NVTX_PAYLOAD_FLOAT = 6,
};
#define LW_NVTX_PAYLOAD_EXTENDED ((int32_t)0xDFBD0009)

struct lw_nvtx_attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type;
	int32_t n_payloads; /* of an extended one; else reserved */
	union {
		uint64_t u64;
		int64_t i64;
		double f64;
		uint32_t u32;
		int32_t i32;
		float f32;
	} payload;
	int32_t message_type;
	const void *message; /* char *, wchar_t *, or what the registration of a string gave */
};
static_assert(sizeof(struct lw_nvtx_attributes) == 48, "nvtxEventAttributes_v2");

struct lw_nvtx_payload { /* nvtxPayloadData_v1 */
	uint64_t schema;
	size_t n_bytes; /* SIZE_MAX: not said */
	const void *data;
};
static_assert(sizeof(struct lw_nvtx_payload) == 24, "nvtxPayloadData_v1");

struct lw_nvtx_schema_entry { /* nvtxPayloadSchemaEntry_v1 */
	uint64_t flags, type;
	const char *name, *description;
	uint64_t detail; /* of an array or a union */
	uint64_t offset;
	const void *semantics, *reserved;
};
static_assert(sizeof(struct lw_nvtx_schema_entry) == 64, "nvtxPayloadSchemaEntry_v1");

struct lw_nvtx_schema {  /* nvtxPayloadSchemaAttr_v1; newer ones are longer */
	uint64_t fields; /* which of the following are valid */
	const char *name;
	uint64_t type, flags;
	const struct lw_nvtx_schema_entry *entries;
	size_t n_entries, n_bytes, pack_bytes;
	uint64_t id;
};
static_assert(sizeof(struct lw_nvtx_schema) == 72, "nvtxPayloadSchemaAttr_v1");

struct lw_nvtx_enum { /* nvtxPayloadEnumAttr_v1 */
	uint64_t fields;
	const char *name;
	const void *entries;
	size_t n_entries, n_bytes;
	uint64_t id;
};
static_assert(sizeof(struct lw_nvtx_enum) == 48, "nvtxPayloadEnumAttr_v1");

struct lw_nvtx_module { /* nvtxExtModuleInfo_t */
	uint16_t version, size, module, compatibility;
	size_t n_segments;
	struct lw_nvtx_segment {
		size_t id, n_slots;
		intptr_t *slots;
	} * segments;
	intptr_t (*get_export)(uint32_t id);
	const void *extension;
};
static_assert(sizeof(struct lw_nvtx_module) == 40, "nvtxExtModuleInfo_t");

typedef const void *(*lw_nvtx_export_fn)(uint32_t id);
typedef void (*lw_nvtx_fn)(void);

/* ---- the calls that are taken ------------------------------------------------------------------- */

enum { LW_NVTX_CORE = 1, LW_NVTX_CORE2 = 5, LW_NVTX_EXTENSION_PAYLOAD = 2 };

/* X(NAME, module, number in its table of functions) */
#define LW_NVTX_CORE_CALLS(X)                                                                      \
	X(MARK, LW_NVTX_CORE, 1)                                                                   \
	X(MARK_A, LW_NVTX_CORE, 2)                                                                 \
	X(MARK_W, LW_NVTX_CORE, 3)                                                                 \
	X(START, LW_NVTX_CORE, 4)                                                                  \
	X(START_A, LW_NVTX_CORE, 5)                                                                \
	X(START_W, LW_NVTX_CORE, 6)                                                                \
	X(END, LW_NVTX_CORE, 7)                                                                    \
	X(PUSH, LW_NVTX_CORE, 8)                                                                   \
	X(PUSH_A, LW_NVTX_CORE, 9)                                                                 \
	X(PUSH_W, LW_NVTX_CORE, 10)                                                                \
	X(POP, LW_NVTX_CORE, 11)                                                                   \
	X(DOMAIN_MARK, LW_NVTX_CORE2, 1)                                                           \
	X(DOMAIN_START, LW_NVTX_CORE2, 2)                                                          \
	X(DOMAIN_END, LW_NVTX_CORE2, 3)                                                            \
	X(DOMAIN_PUSH, LW_NVTX_CORE2, 4)                                                           \
	X(DOMAIN_POP, LW_NVTX_CORE2, 5)                                                            \
	X(REGISTER_A, LW_NVTX_CORE2, 10)                                                           \
	X(REGISTER_W, LW_NVTX_CORE2, 11)                                                           \
	X(CREATE_A, LW_NVTX_CORE2, 12)                                                             \
	X(CREATE_W, LW_NVTX_CORE2, 13)

/* X(NAME, -, slot of the payload extension) */
#define LW_NVTX_PAYLOAD_CALLS(X)                                                                   \
	X(SCHEMA, -, 0)                                                                            \
	X(ENUM, -, 1)                                                                              \
	X(MARK_PAYLOAD, -, 2)                                                                      \
	X(PUSH_PAYLOAD, -, 3)                                                                      \
	X(POP_PAYLOAD, -, 4)                                                                       \
	X(START_PAYLOAD, -, 5)                                                                     \
	X(END_PAYLOAD, -, 6)

enum lw_nvtx_call {
#define X(name, module, number) LW_NVTX_##name,
	LW_NVTX_CORE_CALLS(X) LW_NVTX_PAYLOAD_CALLS(X)
#undef X
		LW_NVTX_N_CALLS
};

/* ---- nvtx_chain.c ---------------------------------------------------------------------------------- */

/** lw_nvtx_next() - the other tool's function for @call, to be called with unchanged arguments; NULL = none. */
lw_nvtx_fn lw_nvtx_next(enum lw_nvtx_call call);

/**
 * lw_nvtx_attach() - one copy of NVTX asks for its tool: give it @own functions, by enum lw_nvtx_call, and let the
 * other tool of LW_ENV_NVTX_NEXT attach before. @own: NULL = ours are not wanted
 * Return: 1 = a tool is attached.
 */
int lw_nvtx_attach(lw_nvtx_export_fn get_export_table, const lw_nvtx_fn *own);

/** lw_nvtx_attach_extension() - the same for one extension of one copy of NVTX. */
int lw_nvtx_attach_extension(struct lw_nvtx_module *module, const lw_nvtx_fn *own);

/** lw_nvtx_tell() - once, when this process is live: what became of the attachment. */
void lw_nvtx_tell(void);

/** lw_nvtx_is_withheld() - there is another tool, which does not take @call: the client is given no handle. */
bool lw_nvtx_is_withheld(enum lw_nvtx_call call);

/** lw_nvtx_no_handles() - the other tool gave NULL for one: said in the hook's row. */
void lw_nvtx_no_handles(void);

/* ---- nvtx_names.c ---------------------------------------------------------------------------------- */

enum lw_nvtx_names { LW_NVTX_DOMAINS, LW_NVTX_STRINGS, LW_NVTX_N_NAMES };

/** lw_nvtx_keep() - a copy of @text (ASCII or wide) that lives as long as the process. Return: NULL = no room (counted). */
const char *lw_nvtx_keep(int type, const void *text);

/** lw_nvtx_alias() - the other tool's @handle stands for @text, which was kept. */
void lw_nvtx_alias(enum lw_nvtx_names kind, const void *handle, const char *text);

/** lw_nvtx_text() - of a handle of either tool. Return: NULL = not known. */
const char *lw_nvtx_text(enum lw_nvtx_names kind, const void *handle);

struct lw_nvtx_values;

/**
 * lw_nvtx_name() - string id of "domain/message", "domain/message(Sum)" with a reduction in @values (NULL = nothing);
 * what is not ASCII in a wide message becomes '?'.
 * @value: set to the sequence number of autograd where PyTorch wrote one behind the message, which is then cut
 * there: a name with a number in it would be another one each time. Unchanged elsewhere.
 */
uint64_t lw_nvtx_name(const void *domain, int type, const void *message,
	const struct lw_nvtx_values *values, int64_t *value);

/* ---- nvtx_payload.c -------------------------------------------------------------------------------- */

/* Entries of payloads that mean something here. X(NAME, what NCCL calls it) */
#define LW_NVTX_FIELDS(X)                                                                          \
	X(COMM, "NCCL communicator ID")                                                            \
	X(PARENT, "Parent NCCL communicator ID")                                                   \
	X(BYTES, "Message size [bytes]")                                                           \
	X(BYTES, "Bytes")                                                                          \
	X(PEER, "Root")                                                                            \
	X(PEER, "Peer rank")                                                                       \
	X(RANK, "Rank")                                                                            \
	X(N_RANKS, "No. of ranks")                                                                 \
	X(REDUCTION, "Reduction operation")

enum lw_nvtx_field {
	LW_NVTX_FIELD_COMM,
	LW_NVTX_FIELD_PARENT,
	LW_NVTX_FIELD_BYTES,
	LW_NVTX_FIELD_PEER,
	LW_NVTX_FIELD_RANK,
	LW_NVTX_FIELD_N_RANKS,
	LW_NVTX_FIELD_REDUCTION,
	LW_NVTX_FIELD_FIRST, /* the first whole number that is no communicator */
	LW_NVTX_N_FIELDS
};

struct lw_nvtx_values {
	uint32_t known; /* bit i: at[i] was there */
	int64_t at[LW_NVTX_N_FIELDS];
};

static inline bool lw_nvtx_has(const struct lw_nvtx_values *values, enum lw_nvtx_field field)
{
	return values->known >> field & 1;
}

/**
 * lw_nvtx_schema_add() - remember where the fields of a schema of @domain lie. Return: its id, which is the
 * caller's own or a new one; 0 = it is none (counted), or there is no room (counted).
 */
uint64_t lw_nvtx_schema_add(const void *domain, const struct lw_nvtx_schema *schema);

/** lw_nvtx_schema_alias() - the other tool has given the id @other to what is @own here. */
void lw_nvtx_schema_alias(const void *domain, uint64_t own, uint64_t other);

/** lw_nvtx_enum_add() - how long an enumeration is. Return: as lw_nvtx_schema_add(). */
uint64_t lw_nvtx_enum_add(const void *domain, const struct lw_nvtx_enum *definition);

/** lw_nvtx_read() - add to *@values what @n payloads say by the schemas of @domain. */
void lw_nvtx_read(const void *domain, const struct lw_nvtx_payload *payloads, size_t n,
	struct lw_nvtx_values *values);

/* ---- nvtx_nccl.c ------------------------------------------------------------------------------------- */

/** lw_nvtx_nccl_is() - is @domain NCCL's, and NCCL wanted? Makes this process live, when it is. */
bool lw_nvtx_nccl_is(const void *domain);

/** lw_nvtx_nccl_push() - a function of NCCL called @name begins: so many ranges of its domain were open. */
void lw_nvtx_nccl_push(const char *name, int level, const struct lw_nvtx_values *values);

/** lw_nvtx_nccl_pop() - and ends, so many are open still. @values: what its end said */
void lw_nvtx_nccl_pop(int level, const struct lw_nvtx_values *values);

#endif /* LAPWING_TRACER_NVTX_H */
