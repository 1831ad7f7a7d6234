/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_horovod.c - a shared library with the exported names of a Horovod extension, laid out by hand.
 *
 * For what no installable Horovod shows here: the old string ABI (STRINGS=8), strings of an unknown kind
 * (STRINGS=0), entries that are not what the tracer supposes. Built in several variants. With FAKE_CUDA=the
 * double of a CUDA runtime, operations launch kernels.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT   __attribute__((visibility("default")))
#define AS(name) __asm__(name) EXPORT
#define COMMON   "_ZN7horovod6common"
#define CONST    "_ZNK7horovod6common"
#define ENTRIES  "7ExecuteERSt6vectorINS0_16TensorTableEntryESaIS3_EERKNS0_8ResponseE"
#define STATE    "NSt6thread11_State_implIPFvRN7horovod6common18HorovodGlobalStateEEE"
enum { ENTRY_BYTES = 208, STRING_BYTES = STRINGS == 8 ? 8 : 32, MAX_NAMES = 4 };

struct vector {
	char *begin, *end, *capacity;
};
struct response {
	struct vector names, sizes;
	int type;
};

/* ---- what the accessors of the real one do ---------------------------------------------------------- */

#if STRINGS == 8
const struct vector *names_of(const struct response *response)
	AS(CONST "8Response12tensor_namesEv");
void old_string_marker(void) AS(COMMON "8Response17set_error_messageERKSs");
void old_string_marker(void)
{
}
#elif STRINGS == 32
const struct vector *names_of(const struct response *response)
	AS(CONST "8Response12tensor_namesB5cxx11Ev");
#else
const struct vector *names_of(const struct response *response)
	AS(CONST "8Response12tensor_namesB9strangeEv");
#endif
const struct vector *names_of(const struct response *response)
{
	return &response->names;
}

const struct vector *sizes_of(const struct response *response)
	AS(CONST "8Response12tensor_sizesEv");
const struct vector *sizes_of(const struct response *response)
{
	return &response->sizes;
}

int type_of(const struct response *response) AS(CONST "8Response13response_typeEv");
int type_of(const struct response *response)
{
	return response->type;
}

int dtype_of(const struct response *response) AS(CONST "8Response11tensor_typeEv");
int dtype_of(const struct response *response)
{
	(void)response;
	return 7; /* float32 */
}

EXPORT int horovod_rank(void);
int horovod_rank(void)
{
	return 0;
}

EXPORT int horovod_size(void);
int horovod_size(void)
{
	return 1;
}

/* ---- virtual functions and their tables --------------------------------------------------------------- */

void *execute(void *status, void *self, struct vector *entries, struct response *response)
	AS(COMMON "12MPIAllreduce" ENTRIES);
void bitwise_and(void *self, struct vector *words, int n)
	AS(COMMON "13MPIController19CrossRankBitwiseAndERSt6vectorIxSaIxEEi");
void run(void *self) AS("_Z" STATE "6_M_runEv");

extern void *const operation_table[3] AS("_ZTVN7horovod6common9HorovodOpE");
void *const operation_table[3] = {0};
extern void *const allreduce_table[3] AS("_ZTVN7horovod6common12MPIAllreduceE");
void *const allreduce_table[3] = {NULL, NULL, (void *)execute};
extern void *const controller_table[3] AS("_ZTVN7horovod6common13MPIControllerE");
void *const controller_table[3] = {NULL, NULL, (void *)bitwise_and};
extern void *const state_table[3] AS("_ZTV" STATE);
void *const state_table[3] = {NULL, NULL, (void *)run};

/* Through the table, as a virtual call: the compiler must not know what is in it. */
static void *virtual_of(void *const *table)
{
	return *(void *const volatile *)(table + 2);
}

typedef void *execute_fn(void *, void *, struct vector *, struct response *);
typedef void bitwise_fn(void *, struct vector *, int);
typedef void run_fn(void *);

static struct response *nested; /* one more operation inside the next one */
static long long next_bits;

static void launch(const char *kernel)
{
	struct dim3 {
		unsigned x, y, z;
	} grid = {1, 2, 3}, block = {4, 5, 6};
	const char *runtime = getenv("FAKE_CUDA");
	int (*call)(const void *, struct dim3, struct dim3, void **, size_t, void *);

	if (!runtime || !dlopen(runtime, RTLD_NOW | RTLD_GLOBAL))
		return;
	call = (__typeof__(call))dlsym(RTLD_DEFAULT, "cudaLaunchKernel");
	if (!call || call(kernel, grid, block, NULL, 7, NULL))
		abort();
}

void *execute(void *status, void *self, struct vector *entries, struct response *response)
{
	struct response *inner = nested;

	(void)response;
	launch("of a batch");
	nested = NULL;
	if (inner)
		((execute_fn *)virtual_of(allreduce_table))(status, self, entries, inner);
	return status;
}

void bitwise_and(void *self, struct vector *words, int n)
{
	(void)self;
	if (n)
		memcpy(words->begin, &next_bits, sizeof(next_bits));
}

/* ---- a job ------------------------------------------------------------------------------------------- */

static void put_string(char *at, const char *text)
{
	size_t n = strlen(text);
	char *store;

	if (STRING_BYTES == 8) { /* length, capacity, owners, text */
		store = calloc(1, 24 + n + 1);
		memcpy(store, &n, sizeof(n));
		memcpy(store + 24, text, n);
		store += 24;
	} else if (n < 16) {
		store = at + 16;
		memcpy(store, text, n);
		memcpy(at + 8, &n, sizeof(n));
	} else {
		store = strdup(text);
		memcpy(at + 8, &n, sizeof(n));
	}
	memcpy(at, &store, sizeof(store));
}

static void batch(int type, const char *const *names, size_t n_names, const char *const *entries,
	size_t n_entries, size_t n_bytes_more)
{
	static char texts[MAX_NAMES * STRING_BYTES], all[MAX_NAMES * ENTRY_BYTES + 64], status[64];
	static int64_t sizes[MAX_NAMES] = {3, 5, 7, 11};
	struct response response = {.type = type};
	struct vector vector = {all, all + n_entries * ENTRY_BYTES + n_bytes_more, NULL};
	static const char tensor[64];

	memset(texts, 0, sizeof(texts));
	memset(all, 0, sizeof(all));
	for (size_t i = 0; i < n_names; i++)
		put_string(texts + i * STRING_BYTES, names[i]);
	for (size_t i = 0; i < n_entries; i++) {
		const void *object = tensor + i;

		put_string(all + i * ENTRY_BYTES, entries[i]);
		memcpy(all + i * ENTRY_BYTES + STRING_BYTES + 16, &object, sizeof(object));
	}
	response.names = (struct vector){texts, texts + n_names * STRING_BYTES, NULL};
	response.sizes = (struct vector){(char *)sizes, (char *)(sizes + n_names), NULL};
	((execute_fn *)virtual_of(allreduce_table))(status, NULL, &vector, &response);
	launch("between batches");
}

static void rounds(unsigned seed, unsigned n)
{
	static const long long choices[] = {7, 7, 7, 7, 7, 15, 31};
	char words[3][8] = {{0}};
	static const char *const names[] = {"of_a_round"};

	for (unsigned i = 0; i < n; i++) {
		struct vector vector = {words[0], words[3], NULL};
		long long bits = choices[rand_r(&seed) % 7];

		memcpy(words[0], &bits, sizeof(bits));
		words[2][0] = (char)(rand_r(&seed) % 64 == 0); /* a later word counts too */
		next_bits = rand_r(&seed) % 16 ? 7 : bits;
		((bitwise_fn *)virtual_of(controller_table))(&vector, &vector, 3);
		if (next_bits != 7)
			batch(0, names, 1, names, 1, 0);
	}
}

void run(void *self)
{
	static const char *const names[] = {
		"alpha", "beta/with a name that is longer than fifteen"};
	static const char *const swapped[] = {
		"beta/with a name that is longer than fifteen", "alpha"};
	static const char *const join[] = {"join.noname"};
	static struct response inner;

	(void)self;
	launch("between batches");         /* CUDA is not used for the first time in a batch */
	batch(0, names, 2, names, 2, 0);   /* as it should be */
	batch(0, names, 2, names, 1, 0);   /* fewer entries than names */
	batch(0, names, 2, swapped, 2, 0); /* another order */
	batch(0, names, 2, names, 2, 12);  /* no whole number of entries */
	batch(3, join, 1, join, 0, 0);     /* no entries at all */
	nested = &inner;
	batch(4, names, 2, names, 2, 0); /* an operation that uses another: one batch */
	rounds((unsigned)strtoul(getenv("FAKE_SEED"), NULL, 10),
		(unsigned)strtoul(getenv("FAKE_ROUNDS"), NULL, 10));
}

EXPORT void *fake_thread(void *argument);
void *fake_thread(void *argument)
{
	((run_fn *)virtual_of(state_table))(NULL);
	return argument;
}
