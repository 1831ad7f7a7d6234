/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx_payload.c - extended payloads of NVTX: which field of a blob is a communicator, a size, a peer.
 *
 * A client describes its blobs once, by schemas; here only the entries that mean something to lapwing are kept, by
 * their names (lw_nvtx_fields), so versions of NCCL that lay them out otherwise are read as well. What a schema says
 * of places and lengths is checked against the blob each time. Nested schemas, arrays, unions and texts are passed
 * over.
 */
#include <string.h>

#include "tracer/nvtx.h"

enum {
	SCHEMAS_MAX = 256, /* of a process; NCCL has about 24 a copy */
	PROBES = 16,
	ENTRIES_MAX = 64, /* of a schema that are looked at */
	PAYLOADS_MAX = 8, /* of an event */
	TYPES_PREDEFINED = 128,
	TYPE_STATIC = 1, /* of schemas: every entry has its place */
	FIELD_TYPE = 1 << 2,
	FIELD_ENTRIES = 1 << 4,
	FIELD_N_ENTRIES = 1 << 5,
	FIELD_N_BYTES = 1 << 6,
	FIELD_SCHEMA_ID = 1 << 8,
	ENUM_FIELD_N_BYTES = 1 << 4,
	ENUM_FIELD_SCHEMA_ID = 1 << 5,
	FLAGS_NOT_PLAIN = 0x7e, /* pointers, offsets, arrays */
};
#define STATIC_ID_START  (UINT64_C(1) << 24)
#define DYNAMIC_ID_START (UINT64_C(1) << 32)

struct place {
	uint16_t offset;
	uint8_t n_bytes; /* 0 = the schema has no such field */
	bool is_signed;
};

struct schema {
	_Atomic uint64_t id; /* 0 = free, 1 = being filled in */
	const void *domain;
	uint16_t n_bytes; /* of a blob; 0 = not said */
	bool is_enum;     /* its values are n_bytes long */
	struct place places[LW_NVTX_N_FIELDS];
};

static struct schema schemas[SCHEMAS_MAX];
static _Atomic uint64_t n_dynamic;

/* Sizes of the predefined types that are whole numbers, by number; negative: they have a sign. */
static int type_bytes(uint64_t type)
{
	static const int8_t bytes[TYPES_PREDEFINED] = {
		[1] = -1,
		[2] = 1,
		[3] = -2,
		[4] = 2,
		[5] = -4,
		[6] = 4, /* char to unsigned */
		[7] = -8,
		[8] = 8,
		[9] = -8,
		[10] = 8, /* long, long long */
		[11] = -1,
		[12] = 1,
		[13] = -2,
		[14] = 2,
		[15] = -4,
		[16] = 4,
		[17] = -8,
		[18] = 8,
		[22] = 8, /* size_t */
		[71] = 4,
		[72] = 8,
		[73] = 4,
		[74] = 8, /* pid, tid */
	};

	return type < TYPES_PREDEFINED ? bytes[type] : 0;
}

/* Of those that are not whole numbers: only their length matters, for what follows them. */
static int other_bytes(uint64_t type)
{
	static const int8_t bytes[TYPES_PREDEFINED] = {
		[19] = 4,
		[20] = 8,
		[21] = 16,
		[23] = 8,
		[24] = 4,
		[25] = 1,
		[26] = 2,
		[27] = 4,
		[32] = 1,
		[33] = 16,
		[34] = 16,
		[42] = 2,
		[43] = 4,
		[44] = 8,
		[45] = 16,
		[50] = 2,
		[52] = 4,
		[68] = 4,
		[69] = 4,
		[70] = 8,
		[75] = 8,
		[76] = 8,
		[77] = 8,
		[78] = 8,
		[80] = 8,
	};

	return type < TYPES_PREDEFINED ? bytes[type] : 0;
}

static uint32_t start_of(const void *domain, uint64_t id)
{
	uint64_t hash = ((uintptr_t)domain ^ id * UINT64_C(0x9e3779b97f4a7c15)) *
			UINT64_C(0xd6e8feb86659fd93);

	return (uint32_t)(hash >> 40);
}

static struct schema *find(const void *domain, uint64_t id)
{
	uint32_t start = start_of(domain, id);

	for (uint32_t i = 0; i < PROBES && id > 1; i++) {
		struct schema *schema = &schemas[(start + i) % SCHEMAS_MAX];

		/* pairs with the release in publish() */
		if (atomic_load_explicit(&schema->id, memory_order_acquire) == id &&
			schema->domain == domain)
			return schema;
	}
	return NULL;
}

/* A free place for @id of @domain. Return: NULL = none (counted). */
static struct schema *claim(const void *domain, uint64_t id)
{
	uint32_t start = start_of(domain, id);

	for (uint32_t i = 0; i < PROBES; i++) {
		struct schema *schema = &schemas[(start + i) % SCHEMAS_MAX];
		uint64_t is_free = 0;

		if (atomic_compare_exchange_strong(&schema->id, &is_free, 1)) {
			schema->domain = domain;
			return schema;
		}
	}
	lw_loss(LW_LOSS_TABLE_FULL, 1, "nvtx schemas");
	return NULL;
}

static uint64_t publish(struct schema *schema, uint64_t id)
{
	atomic_store_explicit(&schema->id, id, memory_order_release);
	return id;
}

static uint64_t id_or_new(bool is_given, uint64_t id)
{
	if (is_given && id >= STATIC_ID_START && id < DYNAMIC_ID_START)
		return id;
	return DYNAMIC_ID_START + atomic_fetch_add(&n_dynamic, 1);
}

/* Return: enum lw_nvtx_field, LW_NVTX_N_FIELDS = it means nothing here. */
static enum lw_nvtx_field field_of(const char *name)
{
	static const struct {
		enum lw_nvtx_field field;
		const char *name;
	} fields[] = {
#define X(field, name) {LW_NVTX_FIELD_##field, name},
		LW_NVTX_FIELDS(X)
#undef X
	};

	for (size_t i = 0; name && i < sizeof(fields) / sizeof(fields[0]); i++)
		if (strcmp(name, fields[i].name) == 0)
			return fields[i].field;
	return LW_NVTX_N_FIELDS;
}

/* Size of @type of @domain, negative: a whole number with a sign; *ret_is_whole: a whole number at all. */
static int bytes_of(const void *domain, uint64_t type, bool *ret_is_whole)
{
	int n = type_bytes(type);
	const struct schema *nested;

	*ret_is_whole = n != 0;
	if (n)
		return n;
	if (type < TYPES_PREDEFINED)
		return other_bytes(type);
	nested = find(domain, type);
	*ret_is_whole = !nested || nested->is_enum;
	/* an enumeration that was registered before we came: that of a C compiler */
	return nested ? nested->n_bytes : 4;
}

static void add_entry(struct schema *schema, const struct lw_nvtx_schema_entry *entry,
	uint64_t *end, uint64_t pack_bytes)
{
	enum lw_nvtx_field field = field_of(entry->name);
	bool is_plain = !(entry->flags & FLAGS_NOT_PLAIN), is_whole;
	int size = bytes_of(schema->domain, entry->type, &is_whole);
	uint64_t n_bytes = (uint64_t)(size < 0 ? -size : size), align = n_bytes, offset;
	struct place place;

	if (pack_bytes && pack_bytes < align)
		align = pack_bytes;
	offset = entry->offset || !align ? entry->offset : (*end + align - 1) / align * align;
	*end = offset + n_bytes;
	if (!is_plain || !is_whole || n_bytes > 8 || offset > UINT16_MAX - 8)
		return;
	place = (struct place){(uint16_t)offset, (uint8_t)n_bytes, size < 0};
	if (field < LW_NVTX_N_FIELDS && !schema->places[field].n_bytes)
		schema->places[field] = place;
	/* names of communicators are hashes: they count nothing */
	if (!schema->places[LW_NVTX_FIELD_FIRST].n_bytes && field != LW_NVTX_FIELD_COMM &&
		field != LW_NVTX_FIELD_PARENT)
		schema->places[LW_NVTX_FIELD_FIRST] = place;
}

uint64_t lw_nvtx_schema_add(const void *domain, const struct lw_nvtx_schema *attributes)
{
	const uint64_t needed = FIELD_TYPE | FIELD_ENTRIES | FIELD_N_ENTRIES;
	uint64_t id, end = 0;
	struct schema *schema;
	size_t n;

	if (!attributes || (attributes->fields & needed) != needed || !attributes->entries) {
		lw_loss(LW_LOSS_LAYOUT, 1, "nvtx schema");
		return 0;
	}
	id = id_or_new(attributes->fields & FIELD_SCHEMA_ID, attributes->id);
	if (find(domain,
		    id)) /* static in a function: registered by each thread that came at once */
		return id;
	schema = claim(domain, id);
	if (!schema)
		return 0;
	if ((attributes->fields & FIELD_N_BYTES) && attributes->n_bytes <= UINT16_MAX)
		schema->n_bytes = (uint16_t)attributes->n_bytes;
	/* of other types the places depend on the blob */
	n = attributes->type == TYPE_STATIC ? attributes->n_entries : 0;
	if (n > ENTRIES_MAX) {
		lw_loss(LW_LOSS_LAYOUT, n - ENTRIES_MAX, "nvtx schema entries");
		n = ENTRIES_MAX;
	}
	for (size_t i = 0; i < n; i++)
		add_entry(schema, &attributes->entries[i], &end, attributes->pack_bytes);
	return publish(schema, id);
}

void lw_nvtx_schema_alias(const void *domain, uint64_t own, uint64_t other)
{
	const struct schema *original = find(domain, own);
	struct schema *copy;

	if (own == other || other <= 1 || !original || find(domain, other))
		return;
	copy = claim(domain, other);
	if (!copy)
		return;
	copy->n_bytes = original->n_bytes;
	copy->is_enum = original->is_enum;
	memcpy(copy->places, original->places, sizeof(copy->places));
	publish(copy, other);
}

uint64_t lw_nvtx_enum_add(const void *domain, const struct lw_nvtx_enum *definition)
{
	struct schema *schema;
	uint64_t id;

	if (!definition) {
		lw_loss(LW_LOSS_LAYOUT, 1, "nvtx enumeration");
		return 0;
	}
	id = id_or_new(definition->fields & ENUM_FIELD_SCHEMA_ID, definition->id);
	if (find(domain, id))
		return id;
	schema = claim(domain, id);
	if (!schema)
		return 0;
	schema->is_enum = true;
	schema->n_bytes = 4;
	if ((definition->fields & ENUM_FIELD_N_BYTES) && definition->n_bytes <= 8)
		schema->n_bytes = (uint16_t)definition->n_bytes;
	return publish(schema, id);
}

static bool read_place(
	const struct place *place, const unsigned char *data, size_t n_bytes, int64_t *ret_value)
{
	uint64_t value = 0;
	unsigned n_unused = 64 - 8u * place->n_bytes;

	if (!place->n_bytes || (size_t)place->offset + place->n_bytes > n_bytes)
		return false;
	memcpy(&value, data + place->offset, place->n_bytes); /* little-endian, as all of CUDA */
	value <<= n_unused;
	*ret_value = place->is_signed ? (int64_t)value >> n_unused : (int64_t)(value >> n_unused);
	return true;
}

static void read_places(const struct place places[LW_NVTX_N_FIELDS], const void *data,
	size_t n_bytes, struct lw_nvtx_values *values)
{
	for (int field = 0; field < LW_NVTX_N_FIELDS; field++)
		if (!lw_nvtx_has(values, (enum lw_nvtx_field)field) &&
			read_place(&places[field], data, n_bytes, &values->at[field]))
			values->known |= 1u << field;
}

void lw_nvtx_read(const void *domain, const struct lw_nvtx_payload *payloads, size_t n,
	struct lw_nvtx_values *values)
{
	for (size_t i = 0; payloads && i < n && i < PAYLOADS_MAX; i++) {
		const struct lw_nvtx_payload *one = &payloads[i];
		const struct schema *schema = find(domain, one->schema);
		int size = type_bytes(one->schema);

		if (!one->data)
			continue;
		/* another layout under the same number: of a second NCCL in a domain that the other tool has once */
		if (schema && schema->n_bytes && one->n_bytes != SIZE_MAX &&
			one->n_bytes != schema->n_bytes && !schema->is_enum)
			continue;
		if (schema && !schema->is_enum) {
			read_places(schema->places, one->data,
				one->n_bytes == SIZE_MAX ? schema->n_bytes : one->n_bytes, values);
		} else if (size) { /* one number, without a schema */
			const struct place places[LW_NVTX_N_FIELDS] = {
				[LW_NVTX_FIELD_FIRST] = {
					0, (uint8_t)(size < 0 ? -size : size), size < 0}};

			read_places(places, one->data, one->n_bytes, values);
		}
	}
}
