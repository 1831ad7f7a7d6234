/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_horovod.h - between the hook_horovod*.c files and hook_wait.c only.
 *
 * Horovod's extension exports its C++ classes but binds its own calls, so nothing can be interposed by
 * name. What can be: the slots of its exported vtables. hook_horovod_find.c finds an extension and puts
 * trampolines into the slots; the other files say what to do when one is called.
 */
#ifndef LAPWING_TRACER_HOOK_HOROVOD_H
#define LAPWING_TRACER_HOOK_HOROVOD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracer/tracer.h"

/* The first three words of every std::vector that libstdc++ and libc++ make. */
struct lw_hvd_vector {
	const char *begin, *end, *capacity;
};

/* Accessors that an extension exports, called with the object they belong to; NULL = not exported. */
struct lw_hvd_calls {
	const struct lw_hvd_vector *(*tensor_names)(const void *response);
	const struct lw_hvd_vector *(*tensor_sizes)(const void *response);
	int (*tensor_type)(const void *response);
	int (*response_type)(const void *response);
	const struct lw_hvd_vector *(*responses)(const void *response_list);
	bool (*is_ok)(const void *status);
	bool (*is_in_progress)(const void *status);
	int64_t (*fusion_bytes)(const void *parameter_manager);
	double (*cycle_ms)(const void *parameter_manager);
	bool (*cache_enabled)(const void *parameter_manager);
	bool (*hierarchical_allreduce)(const void *parameter_manager);
	bool (*torus_allreduce)(const void *parameter_manager);
	int64_t (*fusion_effective_bytes)(void *controller);
	int (*rank)(void);
	int (*size)(void);
	int (*process_set_rank)(int id);
	int (*process_set_size)(int id);
	void *start_timeline, *cross_rank, *reduce_op_min; /* exported since 0.21, 0.22, 0.26 */
};

struct lw_hvd_process_set {
	int32_t id, rank, size; /* rank within the set */
	uint64_t comm;          /* key of its Gloo collectives, 0 = COMM not recorded yet */
};

enum { LW_HVD_MAX_SETTINGS = 16, LW_HVD_MAX_PROCESS_SETS = 64, LW_HVD_MAX_TENSOR_CLASSES = 4 };

/* One loaded extension (torch, TensorFlow and MXNet have one each, with a whole Horovod inside). */
struct lw_hvd_extension {
	const char *path;     /* lives as long as the object is loaded */
	uintptr_t start, end; /* where it is mapped */
	uintptr_t text_start, text_end;
	uint32_t string_bytes; /* std::string: 32 = C++11 ABI, 8 = the old one, 0 = not known */
	int32_t set_offset; /* of an entry's process_set_id from the end of its output; -1 = none */
	struct lw_hvd_calls call;

	/* Tensor classes whose size and type may be asked: what their objects' first word points at. */
	struct {
		const void *vtable;
		int64_t (*size)(const void *tensor);
		int (*dtype)(const void *tensor);
	} tensor_classes[LW_HVD_MAX_TENSOR_CLASSES];
	uint32_t n_tensor_classes;
	bool has_shape; /* shape() is watched, so a dtype() call alone is not yet an enqueue */

	uint32_t n_slots[8]; /* in place, by enum lw_hvd_group */

	/* Below: the background thread's alone. */
	const void *parameter_manager;
	bool is_reported, is_placed, is_layout_refused;
	uint16_t transport;    /* enum lw_transport of the last batch */
	uint64_t fusion_bytes; /* in force, UINT64_MAX = not known */
	double settings
		[LW_HVD_MAX_SETTINGS]; /* last recorded, by enum lw_setting; NaN = never live */
	struct lw_hvd_process_set process_sets[LW_HVD_MAX_PROCESS_SETS];
	uint32_t n_process_sets;
};

enum lw_hvd_group {
	LW_HVD_CONTROLLER, /* rounds of coordination */
	LW_HVD_EXECUTE,    /* batches */
	LW_HVD_ENABLED,    /* settings in force */
	LW_HVD_READY,      /* enqueues */
	LW_HVD_GLOO,       /* the wire, when Gloo is inside the extension */
	LW_HVD_THREAD,     /* starts of Horovod's own threads */
	LW_HVD_N_GROUPS
};

struct lw_hvd_slot;
/* What a trampoline does: @a .. @e are the five register arguments; it calls slot->real itself. */
typedef uint64_t lw_hvd_handler(
	const struct lw_hvd_slot *slot, void *a, void *b, void *c, void *d, void *e);

struct lw_hvd_slot {
	lw_hvd_handler *handle;
	uint64_t (*real)(void *a, void *b, void *c, void *d, void *e);
	struct lw_hvd_extension *extension;
	void **place; /* the patched word */
	void *trampoline;
	uint16_t transport; /* of the class, enum lw_transport */
	uint16_t detail;    /* the handler's own: element size, cycle op, thread role */
	uint16_t group;     /* enum lw_hvd_group */
	uint16_t reserved;
};

/* ---- per thread ------------------------------------------------------------------------------ */

enum lw_hvd_role {
	LW_HVD_ROLE_UNKNOWN,
	LW_HVD_ROLE_TRAINING,   /* it enqueued a tensor */
	LW_HVD_ROLE_BACKGROUND, /* it runs the cycles */
	LW_HVD_ROLE_OTHER,      /* another thread of Horovod's own */
};

/*
 * What a background thread has begun or counted and not told yet. It is not in its TLS because at the
 * process's end another thread tells it.
 */
enum { LW_HVD_OPEN_BATCH, LW_HVD_OPEN_WIRE, LW_HVD_N_OPEN };
struct lw_hvd_thread {
	_Atomic bool is_taken;
	struct {
		_Atomic bool is_open;
		uintptr_t frame; /* of the hook that opened it */
		struct lw_event event;
	} open[LW_HVD_N_OPEN];
	/* hook_horovod_cycle.c's */
	bool is_work_done; /* since its last round */
	struct {
		const void *controller; /* NULL for rounds seen on the wire */
		uint32_t op;
		uint64_t hash;
	} last[64];
	uint32_t n_last;
	_Atomic uint32_t n_unchanged;
	int64_t unchanged_ns, first_ns;
	struct lw_event newest; /* the last round counted */
};

struct lw_hvd_tls {
	uint8_t role;        /* enum lw_hvd_role */
	uint16_t wait_op;    /* enum lw_wait_op of the wait below, 0 = none */
	int32_t process_set; /* of the batch being executed, -1 = not known */
	const void *asked;   /* tensor whose dtype() was called last; see lw_hvd_on_dtype */
	int64_t asked_ns;
	int64_t wait_start_ns, wait_end_ns;
	bool may_ask_probe;           /* background thread, seen from its start: no round yet */
	bool has_probe;               /* it is the one that asked */
	struct lw_hvd_thread *thread; /* background thread: what it has not told yet */
};
extern _Thread_local struct lw_hvd_tls lw_hvd_tls __attribute__((tls_model("initial-exec")));

/* ---- hook_horovod_find.c --------------------------------------------------------------------- */

/** lw_hvd_look() - look for extensions that came since the last look; cheap when nothing was loaded. */
void lw_hvd_look(void);

/** lw_hvd_slots_in_place() - how many slots of @group in @extension still hold our trampoline. */
uint32_t lw_hvd_slots_in_place(const struct lw_hvd_extension *extension, enum lw_hvd_group group);

/** lw_hvd_n_extensions - found so far; set after the extension itself is filled in. */
enum { LW_HVD_MAX_EXTENSIONS = 4 };
extern struct lw_hvd_extension lw_hvd_extensions[LW_HVD_MAX_EXTENSIONS];
extern _Atomic uint32_t lw_hvd_n_extensions;

/* ---- hook_horovod_thread.c -------------------------------------------------------------------- */

lw_hvd_handler lw_hvd_on_thread;

/**
 * lw_hvd_open() - this thread began what *@event says; lw_hvd_close() tells it once it has ended.
 * What is never closed was left by an exception (no cleanup in C: that needs the unwinder's own library).
 * lw_hvd_close_thrown() tells such as failed: every hook of the background thread calls it first, so
 * its end is known to a cycle. @frame: of the caller; what was opened by a caller of it is still going on
 */
void lw_hvd_open(int what, const struct lw_event *event, uintptr_t frame);
void lw_hvd_close(int what, const struct lw_event *event);
void lw_hvd_close_thrown(uintptr_t frame);
bool lw_hvd_is_open(int what);

/** lw_hvd_thread() - the state of this thread; NULL when there are too many background threads. */
struct lw_hvd_thread *lw_hvd_thread(void);

/** lw_hvd_background_seen() - this is the background thread of @extension: activate, report, once. */
void lw_hvd_background_seen(struct lw_hvd_extension *extension);

/* ---- hook_horovod.c: batches, enqueues -------------------------------------------------- */

lw_hvd_handler lw_hvd_on_dtype, lw_hvd_on_shape, lw_hvd_on_execute;

/** lw_hvd_process_set() - rank and size of process set @id; NULL when there is no such set. */
struct lw_hvd_process_set *lw_hvd_process_set(struct lw_hvd_extension *extension, int32_t id);

/* ---- hook_horovod_cycle.c ----------------------------------------------------------------------- */

lw_hvd_handler lw_hvd_on_bitwise, lw_hvd_on_final;

/** lw_hvd_cycle_worked() - this thread's round led to work: the next one is told even if it looks alike. */
void lw_hvd_cycle_worked(void);

/** lw_hvd_cycle_flush() - tell what @thread has counted and not told. */
void lw_hvd_cycle_flush(struct lw_hvd_thread *thread);

/* ---- hook_horovod_probe.c ------------------------------------------------------------------------ */

/** lw_hvd_probe_ask() - before a round's AND: in the first one say that a probe is wanted. @words: not empty */
void lw_hvd_probe_ask(
	const struct lw_hvd_slot *slot, void *controller, const struct lw_hvd_vector *words);

/** lw_hvd_probe_answer() - after it: are all asked? Takes out again what was put into @words. */
void lw_hvd_probe_answer(const struct lw_hvd_vector *words);

/** lw_hvd_probe_at_responses() - all ranks have agreed on @list: the probe, when it is the first work. */
void lw_hvd_probe_at_responses(void *controller, const void *list);

void lw_hvd_probe_thread_ends(void);

/* ---- hook_horovod_settings.c --------------------------------------------------------------------- */

lw_hvd_handler lw_hvd_on_enabled;

/** lw_hvd_settings_start() - the settings as the environment and the documented defaults have them. */
void lw_hvd_settings_start(struct lw_hvd_extension *extension);

/** lw_hvd_settings_check() - ask for the settings in force, record what changed. @controller: or NULL */
void lw_hvd_settings_check(struct lw_hvd_extension *extension, void *controller);

/* ---- hook_horovod_gloo.c ------------------------------------------------------------------------- */

lw_hvd_handler lw_hvd_on_gloo_allreduce, lw_hvd_on_gloo_allgather, lw_hvd_on_gloo_broadcast,
	lw_hvd_on_gloo_alltoall, lw_hvd_on_gloo_reducescatter;

/* ---- hook_wait.c --------------------------------------------------------------------------------- */

/** lw_hvd_wait_ends() - record this thread's wait that is still open in lw_hvd_tls, if any. */
void lw_hvd_wait_ends(void);

#endif /* LAPWING_TRACER_HOOK_HOROVOD_H */
