/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_horovod_find.c - find Horovod's extensions among the loaded objects, patch their vtables.
 *
 * Reads:  the dynamic symbol table of every object that exports Horovod's classes.
 * Writes: slots of its vtables, once, before the background thread exists: its creation is what
 *         makes us look (pthread_create). dlopen is never wrapped: it resolves paths of its caller.
 *
 * Versions differ in what they export; what is missing is reported and done without. A class that an
 * extension does not export (anonymous namespace) cannot be watched.
 */
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "tracer/hook_horovod.h"
#include "tracer/object.h"

#define COMMON "_ZN7horovod6common"
#define CONST  "_ZNK7horovod6common"

struct lw_hvd_extension lw_hvd_extensions[LW_HVD_MAX_EXTENSIONS];
_Atomic uint32_t lw_hvd_n_extensions;

/* ---- trampolines: each knows its slot, since a vtable's word can hold nothing but an address -------- */

enum { MAX_SLOTS = 512 };
static struct lw_hvd_slot slots[MAX_SLOTS];
static uint32_t n_slots;

/* clang-format off */ /* it never agrees with itself on these two */
#define X16(X, p)                                                                                  \
	X(p##0) X(p##1) X(p##2) X(p##3) X(p##4) X(p##5) X(p##6) X(p##7)                            \
	X(p##8) X(p##9) X(p##a) X(p##b) X(p##c) X(p##d) X(p##e) X(p##f)
#define X256(X, p)                                                                                 \
	X16(X, p##0) X16(X, p##1) X16(X, p##2) X16(X, p##3) X16(X, p##4) X16(X, p##5)              \
	X16(X, p##6) X16(X, p##7) X16(X, p##8) X16(X, p##9) X16(X, p##a) X16(X, p##b)              \
	X16(X, p##c) X16(X, p##d) X16(X, p##e) X16(X, p##f)
/* clang-format on */

#define TRAMPOLINE(n)                                                                              \
	static uint64_t trampoline_##n(void *a, void *b, void *c, void *d, void *e)                \
	{                                                                                          \
		return slots[n].handle(&slots[n], a, b, c, d, e);                                  \
	}
X256(TRAMPOLINE, 0x0)
X256(TRAMPOLINE, 0x1)

typedef uint64_t trampoline_fn(void *, void *, void *, void *, void *);
#define ADDRESS(n) trampoline_##n,
static trampoline_fn *const trampolines[MAX_SLOTS] = {X256(ADDRESS, 0x0) X256(ADDRESS, 0x1)};

/* ---- which virtual functions ----------------------------------------------------------------------- */

static const struct method {
	const char *prefix, *part; /* the mangled name begins with, contains */
	lw_hvd_handler *handle;
	uint16_t group, detail;
} methods[] = {
	{COMMON, "19CrossRankBitwiseAndE", lw_hvd_on_bitwise, LW_HVD_CONTROLLER, LW_CYCLE_AND},
	{COMMON, "18CrossRankBitwiseOrE", lw_hvd_on_bitwise, LW_HVD_CONTROLLER, LW_CYCLE_OR},
	{COMMON, "16SendFinalTensorsERNS0_12ResponseList", lw_hvd_on_final, LW_HVD_CONTROLLER, 0},
	{COMMON, "16RecvFinalTensorsERNS0_12ResponseList", lw_hvd_on_final, LW_HVD_CONTROLLER, 0},
	{COMMON, "7ExecuteERSt6vectorINS0_16TensorTableEntry", lw_hvd_on_execute, LW_HVD_EXECUTE,
		0},
	{CONST, "7EnabledERKNS0_16ParameterManager", lw_hvd_on_enabled, LW_HVD_ENABLED, 0},
	{"_ZNK7horovod", "Tensor5dtypeEv", lw_hvd_on_dtype, LW_HVD_READY, 0},
	{"_ZNK7horovod", "Tensor5shapeEv", lw_hvd_on_shape, LW_HVD_READY, 1},
	{COMMON "14GlooAlgorithmsI", "9AllreduceEPvi", lw_hvd_on_gloo_allreduce, LW_HVD_GLOO, 0},
	{COMMON "14GlooAlgorithmsI", "9AllgatherEPv", lw_hvd_on_gloo_allgather, LW_HVD_GLOO, 0},
	{COMMON "14GlooAlgorithmsI", "9BroadcastEPvii", lw_hvd_on_gloo_broadcast, LW_HVD_GLOO, 0},
	/* sizes as 64-bit (l); versions with other vectors are not read */
	{COMMON "14GlooAlgorithmsI", "RSt6vectorIlSaIlEES", lw_hvd_on_gloo_alltoall, LW_HVD_GLOO,
		0},
	{COMMON "14GlooAlgorithmsI", "13ReducescatterEPvRSt6vectorIiSaIiEE",
		lw_hvd_on_gloo_reducescatter, LW_HVD_GLOO, 0},
	/* std::thread's state of the background thread, and of Horovod's other threads */
	{"_ZNSt6thread11_State_impl", "7horovod6common18HorovodGlobalState", lw_hvd_on_thread,
		LW_HVD_THREAD, LW_HVD_ROLE_BACKGROUND},
	{"_ZNSt6thread11_State_impl", "7horovod", lw_hvd_on_thread, LW_HVD_THREAD,
		LW_HVD_ROLE_OTHER},
};
enum { N_METHODS = sizeof(methods) / sizeof(methods[0]) };

/* Accessors, by prefix of the mangled name: what follows differs with the string ABI and the version. */
static const struct {
	const char *name;
	size_t offset; /* in struct lw_hvd_calls */
} accessors[] = {
#define CALL(member, name)                                                                         \
	{                                                                                          \
		name, offsetof(struct lw_hvd_calls, member)                                        \
	}
	CALL(tensor_names, CONST "8Response12tensor_namesB5cxx11Ev"),
	CALL(tensor_names, CONST "8Response12tensor_namesEv"),
	CALL(tensor_sizes, CONST "8Response12tensor_sizesEv"),
	CALL(tensor_type, CONST "8Response11tensor_typeEv"),
	CALL(response_type, CONST "8Response13response_typeEv"),
	CALL(responses, CONST "12ResponseList9responsesEv"),
	CALL(is_ok, CONST "6Status2okEv"),
	CALL(is_in_progress, CONST "6Status11in_progressEv"),
	CALL(fusion_bytes, CONST "16ParameterManager26TensorFusionThresholdBytesEv"),
	CALL(cycle_ms, CONST "16ParameterManager11CycleTimeMsEv"),
	CALL(cache_enabled, CONST "16ParameterManager12CacheEnabledEv"),
	CALL(hierarchical_allreduce, CONST "16ParameterManager21HierarchicalAllreduceEv"),
	CALL(torus_allreduce, CONST "16ParameterManager14TorusAllreduceEv"),
	CALL(fusion_effective_bytes, COMMON "10Controller26TensorFusionThresholdBytesEv"),
	CALL(rank, "horovod_rank"),
	CALL(size, "horovod_size"),
	CALL(process_set_rank, "horovod_process_set_rank"),
	CALL(process_set_size, "horovod_process_set_size"),
	CALL(start_timeline, "horovod_start_timeline"),
	CALL(cross_rank, "horovod_cross_rank"),
	CALL(reduce_op_min, "horovod_reduce_op_min"),
#undef CALL
};

static bool begins(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* ---- what an extension exports ---------------------------------------------------------------------- */

enum { MAX_VIRTUALS = 1024 };
struct virtual_function {
	uintptr_t address;
	const struct method *method;
	const char *name;
};
static struct virtual_function virtuals[MAX_VIRTUALS];
static uint32_t n_virtuals;

static void note_accessor(struct lw_hvd_extension *extension, const char *name, uintptr_t address)
{
	for (size_t i = 0; i < sizeof(accessors) / sizeof(accessors[0]); i++)
		if (strcmp(name, accessors[i].name) == 0)
			memcpy((char *)&extension->call + accessors[i].offset, &address,
				sizeof(address));
	/* Ss is std::string of the old ABI; a name with neither is of a library that is not read. */
	if (strcmp(name, CONST "8Response12tensor_namesB5cxx11Ev") == 0)
		extension->string_bytes = 32;
	else if (begins(name, COMMON "8Response17set_error_messageERKSs"))
		extension->string_bytes = 8;
}

/* Does the mangled @name begin with @prefix ("_Z...")? A thunk's (_ZThn<offset>_...) counts as its own. */
static bool is_of(const char *name, const char *prefix)
{
	if (!begins(name, "_ZThn"))
		return begins(name, prefix);
	name = strchr(name + strlen("_ZThn"), '_');
	return name && begins(name + 1, prefix + strlen("_Z"));
}

static void note_virtual(const char *name, uintptr_t address)
{
	for (size_t i = 0; i < N_METHODS; i++) {
		if (!is_of(name, methods[i].prefix) || !strstr(name, methods[i].part))
			continue;
		if (methods[i].group == LW_HVD_THREAD && !strstr(name, "6_M_runEv"))
			return;
		if (n_virtuals < MAX_VIRTUALS)
			virtuals[n_virtuals++] =
				(struct virtual_function){address, &methods[i], name};
		else
			lw_loss(LW_LOSS_TABLE_FULL, 1, "horovod virtual functions");
		return;
	}
}

/* Bytes of GlooAlgorithms' element, from its one template argument in the mangled name. */
static uint16_t gloo_element_bytes(const char *vtable_name)
{
	const char *argument = vtable_name + strlen("_ZTVN7horovod6common14GlooAlgorithmsI");
	static const char letters[][3] = {"ahb", "st", "ijf", "lmd"};

	for (uint16_t i = 0; i < 4; i++)
		if (memchr(letters[i], *argument, 3))
			return (uint16_t)(1u << i);
	return 2; /* gloo::float16 */
}

static uint16_t class_transport(const char *vtable_name)
{
	const char *name = vtable_name + strlen("_ZTVN7horovod6common");

	if (!begins(vtable_name, "_ZTVN7horovod6common"))
		return LW_TRANSPORT_NONE;
	while (*name >= '0' && *name <= '9')
		name++;
	if (begins(name, "MPI") || begins(name, "AdasumMPI"))
		return LW_TRANSPORT_MPI;
	if (begins(name, "Gloo"))
		return LW_TRANSPORT_GLOO;
	if (begins(name, "NCCL"))
		return LW_TRANSPORT_NCCL;
	return LW_TRANSPORT_NONE;
}

static bool put_in_slot(const struct lw_object *object, void **place, void *trampoline)
{
	uintptr_t at = (uintptr_t)place;

	if (at >= object->relro_start && at + sizeof(*place) <= object->relro_end)
		return lw_patch_slot(place, trampoline);
	/* Not protected after relocation: then it is writable, and must stay so for its neighbours. */
	__atomic_store_n(place, trampoline, __ATOMIC_RELEASE);
	return true;
}

static void patch_slot(struct lw_hvd_extension *extension, const struct lw_object *object,
	void **place, const struct virtual_function *virtual, const char *vtable_name)
{
	struct lw_hvd_slot *slot = &slots[n_slots];

	if (n_slots == MAX_SLOTS) {
		lw_loss(LW_LOSS_TABLE_FULL, 1, "horovod vtable slots");
		return;
	}
	slot->handle = virtual->method->handle;
	slot->real = (uint64_t(*)(void *, void *, void *, void *, void *)) virtual->address;
	slot->extension = extension;
	slot->place = place;
	slot->trampoline = (void *)(uintptr_t)trampolines[n_slots];
	slot->transport = class_transport(vtable_name);
	slot->group = virtual->method->group;
	slot->detail = virtual->method->detail;
	if (slot->group == LW_HVD_GLOO)
		slot->detail = gloo_element_bytes(vtable_name);
	else if (slot->group == LW_HVD_EXECUTE && strstr(vtable_name, "7ErrorOpE"))
		slot->detail = LW_COLL_ERROR;
	if (!put_in_slot(object, place, slot->trampoline))
		return;
	n_slots++;
	extension->n_slots[slot->group]++;
}

/* Search every word of one vtable: a derived class has its base's function in its own table too. */
static void patch_vtable(struct lw_hvd_extension *extension, const struct lw_object *object,
	const char *vtable_name, uintptr_t vtable, size_t n_bytes)
{
	for (size_t i = 2; i < n_bytes / sizeof(void *); i++) {
		void **place = (void **)vtable + i;

		for (uint32_t k = 0; k < n_virtuals; k++)
			if ((uintptr_t)*place == virtuals[k].address) {
				patch_slot(extension, object, place, &virtuals[k], vtable_name);
				break;
			}
	}
}

/* A class whose size() and dtype() are exported can be asked for an object's type and size. */
static void note_tensor_class(struct lw_hvd_extension *extension, const struct lw_object *object,
	const char *vtable_name, uintptr_t vtable, uint32_t n_symbols)
{
	const char *scope = vtable_name + strlen("_ZTVN"); /* 7horovod5torch11TorchTensorE */
	size_t n = strlen(scope) - 1;
	uint32_t k = extension->n_tensor_classes;

	if (n < 6 || strcmp(scope + n - 6, "TensorE") || k == LW_HVD_MAX_TENSOR_CLASSES)
		return;
	for (uint32_t i = 0; i < n_symbols; i++) {
		const ElfW(Sym) *symbol = &object->symbols[i];
		const char *name = object->names + symbol->st_name;
		uintptr_t address = object->base + symbol->st_value;

		if (symbol->st_shndx == SHN_UNDEF || !begins(name, "_ZNK") ||
			strncmp(name + strlen("_ZNK"), scope, n))
			continue;
		name += strlen("_ZNK") + n;
		if (strcmp(name, "4sizeEv") == 0)
			memcpy(&extension->tensor_classes[k].size, &address, sizeof(address));
		else if (strcmp(name, "5dtypeEv") == 0)
			memcpy(&extension->tensor_classes[k].dtype, &address, sizeof(address));
		else if (strcmp(name, "5shapeEv") == 0)
			extension->has_shape = true;
	}
	if (!extension->tensor_classes[k].size || !extension->tensor_classes[k].dtype)
		return;
	extension->tensor_classes[k].vtable = (const void **)vtable + 2;
	extension->n_tensor_classes++;
}

/* Return: false when the object is not relocated yet (another thread is loading it): look again later. */
static bool patch_extension(struct lw_hvd_extension *extension, const struct lw_object *object)
{
	uint32_t n_symbols = lw_object_count_symbols(object), n_before = n_slots;

	n_virtuals = 0;
	for (uint32_t i = 0; i < n_symbols; i++) {
		const ElfW(Sym) *symbol = &object->symbols[i];
		const char *name = object->names + symbol->st_name;
		uintptr_t address = object->base + symbol->st_value;

		if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
			continue;
		note_accessor(extension, name, address);
		note_virtual(name, address);
	}
	for (uint32_t i = 0; i < n_symbols; i++) {
		const ElfW(Sym) *symbol = &object->symbols[i];
		const char *name = object->names + symbol->st_name;
		uintptr_t vtable = object->base + symbol->st_value;

		if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT ||
			(!begins(name, "_ZTVN7horovod") &&
				!begins(name, "_ZTVNSt6thread11_State_impl")))
			continue;
		note_tensor_class(extension, object, name, vtable, n_symbols);
		patch_vtable(extension, object, name, vtable, symbol->st_size);
	}
	/* Where process_set_id lies in an entry: after output since 0.23, one word later since 0.26. */
	extension->set_offset = !extension->call.process_set_size ? -1
				: extension->call.reduce_op_min   ? 4
								  : 0;
	return n_slots > n_before;
}

/* ---- which objects ---------------------------------------------------------------------------------- */

static struct {
	unsigned long long
		n_loaded;          /* dlpi_adds of the last look that left nothing open; 0 = none */
	unsigned long long n_seen; /* of the look going on */
	bool is_hook_wanted, is_open;
} look;
static _Atomic bool is_looking;

static bool is_known(uintptr_t address)
{
	uint32_t n = atomic_load(&lw_hvd_n_extensions);

	for (uint32_t i = 0; i < n; i++)
		if (address >= lw_hvd_extensions[i].start && address < lw_hvd_extensions[i].end)
			return true;
	return false;
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *data)
{
	uint32_t n = atomic_load(&lw_hvd_n_extensions);
	struct lw_hvd_extension *extension = &lw_hvd_extensions[n];
	struct lw_object object;

	(void)size;
	(void)data;
	look.n_seen = info->dlpi_adds;
	if (look.n_seen == look.n_loaded)
		return 1; /* nothing came since the last look */
	if (n == LW_HVD_MAX_EXTENSIONS)
		return 1;
	lw_object_read(info, &object);
	if (!object.symbols || !object.names || (!object.gnu_hash && !object.old_hash) ||
		!lw_object_defines(&object, "_ZTVN7horovod6common9HorovodOpE"))
		return 0;
	memset(extension, 0, sizeof(*extension));
	extension->path = info->dlpi_name;
	extension->start = UINTPTR_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;

		if (part->p_type != PT_LOAD)
			continue;
		extension->start = start < extension->start ? start : extension->start;
		extension->end = end > extension->end ? end : extension->end;
		if (part->p_flags & PF_X) {
			extension->text_start = start;
			extension->text_end = end;
		}
	}
	if (is_known(extension->start))
		return 0;
	if (look.is_hook_wanted && !patch_extension(extension, &object)) {
		look.is_open = true;
		return 0;
	}
	for (int i = 0; i < LW_HVD_MAX_SETTINGS; i++)
		extension->settings[i] = __builtin_nan("");
	extension->fusion_bytes = UINT64_MAX;
	atomic_store_explicit(&lw_hvd_n_extensions, n + 1, memory_order_release);
	return 0;
}

void lw_hvd_look(void)
{
	bool idle = false;
	int saved_errno = errno;

	if (!atomic_compare_exchange_strong(&is_looking, &idle, true))
		return;
#if defined(__x86_64__) /* elsewhere results return through a register that no handler passes on */
	look.is_hook_wanted = lw_hook_wanted("horovod");
#endif
	if (look.is_hook_wanted || lw_hook_wanted("wait")) {
		look.is_open = false;
		dl_iterate_phdr(look_at_object, NULL);
		look.n_loaded = look.is_open ? 0 : look.n_seen;
	}
	atomic_store(&is_looking, false);
	errno = saved_errno;
}

uint32_t lw_hvd_slots_in_place(const struct lw_hvd_extension *extension, enum lw_hvd_group group)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_slots; i++)
		n += slots[i].extension == extension && slots[i].group == group &&
		     *slots[i].place == slots[i].trampoline;
	return n;
}

bool lw_horovod_is_hooked(void)
{
	uint32_t n = atomic_load_explicit(&lw_hvd_n_extensions, memory_order_acquire);

	for (uint32_t i = 0; i < n; i++)
		if (lw_hvd_extensions[i].n_slots[LW_HVD_CONTROLLER])
			return true;
	return false;
}

static __typeof__(&pthread_create) real_pthread_create;

/* At load time, not at the first call; see hook_socket.c. */
__attribute__((constructor)) static void resolve(void)
{
	real_pthread_create = (__typeof__(&pthread_create))lw_real("pthread_create");
}

LW_EXPORT int pthread_create(
	pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
	lw_hvd_look();
	if (LW_UNLIKELY(!real_pthread_create)) /* another library's constructor, before ours */
		resolve();
	return real_pthread_create(thread, attributes, start, argument);
}
