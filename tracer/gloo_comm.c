/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloo_comm.c - which gloo::Context is which communicator, with a key that all its ranks agree on.
 *
 * Writes: COMM records; confirms rank and size. The key comes from the store: a context's ranks find
 * each other under keys with a common prefix, unique in the job ("default_pg/0//..."), which
 * c10d::PrefixStore builds while connectFullMesh() runs. Where that is not seen (another store, an old
 * string ABI) the k-th context of a size takes its place, right as long as all ranks make the same ones.
 */
#include <stdio.h>
#include <string.h>

#include "schema/launcher.h"
#include "tracer/hook_gloo.h"

enum { COMMS_MAX = 256 };
static struct lw_gloo_comm comms[COMMS_MAX];

/* C++11 std::string: what is read of it. */
struct cxx_string {
	const char *text;
	uint64_t n;
};

/* The chain of joined keys of this thread while it is inside connectFullMesh(). */
static _Thread_local struct {
	bool is_inside;
	uint64_t last_id;      /* of the key joined last: nested stores join it again */
	uint64_t suffix_bytes; /* what Gloo itself asked for, at the end of the whole key */
	uint64_t prefix_bytes; /* longest so far */
	uint64_t prefix;       /* its hash */
} mesh;

const struct lw_gloo_comm *lw_gloo_comm(const void *context)
{
	for (size_t i = 0; context && i < COMMS_MAX; i++)
		if (atomic_load_explicit(&comms[i].context, memory_order_acquire) == context)
			return &comms[i];
	return NULL;
}

static struct lw_gloo_comm *take_entry(const void *context)
{
	for (size_t i = 0; i < COMMS_MAX; i++) { /* the same address again: the old one is gone */
		if (atomic_load(&comms[i].context) == context)
			return &comms[i];
	}
	for (size_t i = 0; i < COMMS_MAX; i++) {
		const void *none = NULL;

		if (atomic_compare_exchange_strong(&comms[i].context, &none, context))
			return &comms[i];
	}
	lw_loss(LW_LOSS_TABLE_FULL, 1, "gloo contexts");
	return NULL;
}

/* The first context is usually the job; a launcher that says otherwise is believed. */
static void confirm_place(int32_t rank, int32_t size)
{
	static _Atomic bool is_done;
	struct lw_place place = lw_place_from_environment();

	if (atomic_exchange(&is_done, true) || (place.rank >= 0 && place.rank != rank) ||
		(place.size >= 0 && place.size != size))
		return;
	lw_place_confirmed(rank, size);
}

static void connected(struct lw_gloo_comm *comm)
{
	struct lw_event event = {.kind = LW_EV_COMM};
	struct lw_place place = lw_place_from_environment();
	uint32_t serial = 0;
	char text[96];
	int n;

	comm->prefix = mesh.prefix;
	for (size_t i = 0; i < COMMS_MAX; i++)
		serial += &comms[i] != comm && comms[i].key && comms[i].size == comm->size &&
			  comms[i].prefix == comm->prefix;
	n = snprintf(text, sizeof(text), "gloo %016llx of %d, %u", (unsigned long long)comm->prefix,
		comm->size, serial);
	comm->key = lw_string_id(text, (uint64_t)n);
	event.op = place.size < 0 || place.size == comm->size ? LW_COMM_WORLD : LW_COMM_CREATE;
	event.comm.comm = comm->key;
	event.comm.size = comm->size;
	event.comm.rank = comm->rank;
	event.comm.serial = serial;
	event.comm.transport = LW_TRANSPORT_GLOO;
	event.t0_ns = event.t1_ns = lw_now_ns();
	lw_record(&event);
}

/* ---- gloo::rendezvous::Context::Context(int rank, int size, int base) ------------------------------ */

void _ZN4gloo10rendezvous7ContextC1Eiii(void *self, int rank, int size, int base);

LW_EXPORT void _ZN4gloo10rendezvous7ContextC1Eiii(void *self, int rank, int size, int base)
{
	static struct lw_real_sites sites;
	void *real = lw_real_for(
		"_ZN4gloo10rendezvous7ContextC1Eiii", __builtin_return_address(0), &sites);
	struct lw_gloo_comm *comm;

	((void (*)(void *, int, int, int))real)(self, rank, size, base);
	if (!lw_hook_wanted("gloo") || !lw_activate(LW_FRAMEWORK_NONE, LW_TRANSPORT_GLOO))
		return;
	confirm_place(rank, size);
	comm = take_entry(self);
	if (!comm)
		return;
	comm->key = 0;
	comm->rank = rank;
	comm->size = size;
}

/* ---- gloo::rendezvous::Context::connectFullMesh(Store &, std::shared_ptr<transport::Device> &) ------ */

#define CONNECT_FULL_MESH                                                                          \
	_ZN4gloo10rendezvous7Context15connectFullMeshERNS0_5StoreERSt10shared_ptrINS_9transport6DeviceEE
#define NAME_OF(symbol)  NAME_OF_(symbol)
#define NAME_OF_(symbol) #symbol

void CONNECT_FULL_MESH(void *self, void *store, void *device);

LW_EXPORT void CONNECT_FULL_MESH(void *self, void *store, void *device)
{
	static struct lw_real_sites sites;
	void *real = lw_real_for(NAME_OF(CONNECT_FULL_MESH), __builtin_return_address(0), &sites);
	struct lw_gloo_comm *comm = (struct lw_gloo_comm *)(uintptr_t)lw_gloo_comm(self);

	memset(&mesh, 0, sizeof(mesh));
	mesh.is_inside = comm != NULL;
	((void (*)(void *, void *, void *))real)(self, store, device);
	mesh.is_inside = false; /* when it throws, the next one sets it right */
	if (comm)
		connected(comm);
}

/* ---- std::string c10d::PrefixStore::joinKey(const std::string &key) -------------------------------- */

#if defined(__x86_64__) /* elsewhere the place for the result is not passed as a first argument */

#define JOIN_KEY                                                                                   \
	_ZN4c10d11PrefixStore7joinKeyERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE

void *JOIN_KEY(struct cxx_string *result, void *self, const struct cxx_string *key);

LW_EXPORT void *JOIN_KEY(struct cxx_string *result, void *self, const struct cxx_string *key)
{
	static struct lw_real_sites sites;
	void *real = lw_real_for(NAME_OF(JOIN_KEY), __builtin_return_address(0), &sites);
	void *returned = ((void *(*)(void *, void *, const void *))real)(result, self, key);

	if (!mesh.is_inside || key->n > LW_STRING_MAX_BYTES || result->n < key->n)
		return returned;
	if (lw_string_id(key->text, key->n) != mesh.last_id)
		mesh.suffix_bytes = key->n;
	mesh.last_id = lw_string_id(result->text, result->n);
	if (result->n - mesh.suffix_bytes > mesh.prefix_bytes) {
		mesh.prefix_bytes = result->n - mesh.suffix_bytes;
		mesh.prefix = lw_string_id(result->text, mesh.prefix_bytes);
	}
	return returned;
}

#endif
