/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracer.h - what a hook may call. Everything here runs inside somebody else's training job.
 *
 * Rules of every hook: call the real function exactly once with unchanged arguments; never change its
 * result or errno; never block, lock, print or allocate after the thread's first record. A hook whose
 * fast path is not taken costs one load and a branch (lw_is_live()).
 */
#ifndef LAPWING_TRACER_TRACER_H
#define LAPWING_TRACER_TRACER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "schema/event.h"
#include "schema/ring.h"

#define LW_EXPORT      __attribute__((visibility("default")))
#define LW_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- is this process traced? ---------------------------------------------------------------- */

/*
 * Points at a zero until the process is activated, then at a page that the kernel wipes in a forked
 * child: so a child is inert again without being told, even after a raw clone().
 */
extern const volatile uint32_t *lw_live;

static inline bool lw_is_live(void)
{
	return *lw_live != 0;
}

/**
 * lw_activate() - a call of interest happened: from now on this process records.
 * Makes the first ring, says who this process is, and (job started with the variables alone) sees to
 * it that a collector runs. Cheap when already active; does nothing when no output was configured.
 * @framework, @transport: what was seen (0 = says nothing new); kept for the PROCESS record
 * Return: lw_is_live().
 */
bool lw_activate(enum lw_framework framework, enum lw_transport transport);

/** lw_place_confirmed() - the framework itself says which rank this is; -1 = leaves it as known. */
void lw_place_confirmed(int32_t rank, int32_t size);

/** lw_rank_known() - the rank as known now, -1 = not known. */
int32_t lw_rank_known(void);

/**
 * lw_has_traced_ancestor() - is a process that this one descends from traced? Then its launcher's variables may
 * have been meant for that one: a helper has them too. Not for hot paths.
 */
bool lw_has_traced_ancestor(void);

/**
 * lw_hook_wanted() - does LAPWING_HOOKS allow the hook @name? "mpi", "horovod", "gloo", "ddp", "socket",
 * "wait", "mark", "nvtx", "verbs", "cupti", "nccl".
 */
bool lw_hook_wanted(const char *name);

/** lw_hook_named() - does LAPWING_HOOKS name @name itself? For what is off unless asked for: "gloo_preamble". */
bool lw_hook_named(const char *name);

enum { LW_SENT_STRINGS = 4096, LW_RANGES_MAX = 32 };

struct lw_range {           /* open, of this thread */
	const void *domain; /* ranges of one domain nest among themselves only */
	int64_t t0_ns;      /* 0: the process was not live then, so the end is not recorded */
	uint64_t name;      /* string id */
	int64_t value;
};

struct lw_nccl_thread {        /* where in NCCL's API this thread is: nccl.h */
	uint64_t call;         /* handle of the call that it is in, 0 = none */
	uint64_t first_serial; /* operations of its group are not older */
	uint64_t launch;       /* handle of the kernel launch that it is in, 0 = none */
	uint32_t depth, group; /* ncclGroupStart()s without an end; serial of the outermost */
	bool is_launching;     /* inside of the outermost ncclGroupEnd() */
};

struct lw_nccl_range {     /* the function of NCCL's whose NVTX range is open on this thread */
	uint64_t call;     /* of lw_nccl_call_begin() */
	uint64_t comm;     /* as its payload names it, 0 = not known */
	int32_t level;     /* so many ranges of NCCL's domain are around it */
	uint16_t function; /* which, from 1; 0 = none is open */
};

enum { LW_NCCL_AWAITED_MAX = 16 };

struct lw_nccl_awaited { /* communicators whose handles NCCL gives at the end of a group */
	uint32_t n;
	struct {
		void **handle;
		struct lw_nccl_comm *comm;
	} at[LW_NCCL_AWAITED_MAX];
};

/** lw_probe_budget_ns - how long a probe may take, from LAPWING_PROBE; 0 = none is asked for. */
extern int64_t lw_probe_budget_ns;

/* What a recording thread needs besides its ring. Mapped, not in TLS: this library must also load by
 * dlopen (injection interfaces), where room for static TLS is scarce. Gone when the thread ends. */
struct lw_thread_memory {
	uint64_t sent_strings[LW_SENT_STRINGS]; /* direct-mapped: ids that this ring has defined */
	uint32_t n_open;                        /* of ranges[] */
	uint32_t n_overflow; /* pushed on top of a full stack: counted as lost, popped in silence */
	struct lw_range ranges[LW_RANGES_MAX];
	struct lw_nccl_thread nccl;
	struct lw_nccl_range nccl_range;
	uint32_t in_nccl; /* > 0: inside a wrapper of hook_nccl.c, which tells of the call itself */
	uint64_t nccl_named; /* inside of it: the communicator that NVTX spoke of last, 0 = none */
	struct lw_nccl_awaited nccl_awaited;
};

/** lw_thread_memory() - this thread's, mapped at the first call. Return: NULL = no memory. */
struct lw_thread_memory *lw_thread_memory(void);

/* ---- recording ------------------------------------------------------------------------------- */

struct lw_tls {
	struct lw_ring_header *ring; /* NULL until the first record of this thread */
	uint32_t epoch;              /* of the process that ring belongs to; see core.c */
	uint16_t busy;               /* > 0: inside the tracer; records are refused and counted */
	uint16_t mpi_depth;          /* > 0: inside an MPI call (Fortran -> C, MPI inside MPI) */
	struct lw_thread_memory *memory; /* NULL until needed; see lw_thread_memory() */
};
extern _Thread_local struct lw_tls lw_tls __attribute__((tls_model("initial-exec")));

static inline int64_t lw_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/** lw_record() - append *@event to this thread's ring; counts what cannot be recorded. errno is kept. */
void lw_record(const struct lw_event *event);

/**
 * lw_string() - id of @n bytes at @text (not terminated; cut to LW_STRING_MAX_BYTES); defines it in
 * this thread's ring before its first use. Return: id, 0 for NULL.
 */
uint64_t lw_string(const char *text, size_t n);
uint64_t lw_string_z(const char *text); /* of a terminated text */

/** lw_string_known() - lw_string() of a text whose @id = lw_string_id(text, n) is known; n fits. Return: @id. */
uint64_t lw_string_known(uint64_t id, const char *text, size_t n);

/**
 * lw_record_room() - for a thread of the tracer's own: wait until its ring has room for @n records.
 * Return: what is left of @patience_ns; 0 = none, and the ring may be full still.
 */
int64_t lw_record_room(uint32_t n, int64_t patience_ns);

/** lw_loss() - count something that this tracer knows it did not record. @where: static text or NULL. */
void lw_loss(enum lw_loss_reason reason, uint64_t n, const char *where);

/** lw_hook_report() - record that a hook is in place, absent or refused, and why. */
void lw_hook_report(
	const char *name, enum lw_hook_status status, uint32_t n_slots, const char *detail);

/** lw_setting() - record a framework setting in force from now on. */
void lw_setting(enum lw_setting setting, double value, enum lw_setting_source source);

/** lw_thread_role() - say what this thread is (training, background). */
void lw_thread_role(enum lw_thread_role role);

/**
 * lw_image_ends() - the process is about to exec: its rings end in order. errno is kept.
 * Return: to be given to lw_image_stays() should exec fail; false in the child of a vfork.
 */
bool lw_image_ends(void);
void lw_image_stays(bool is_told);

/* ---- the real functions ------------------------------------------------------------------------ */

/**
 * lw_real() - the next definition of @name after this library: RTLD_NEXT, else any loaded object
 * that defines it (libraries that came by dlopen(RTLD_LOCAL) are not in RTLD_NEXT's scope).
 * Return: NULL when nobody defines it. Not for hot paths: cache the result (LW_REAL).
 */
void *lw_real(const char *name);

/* Cached pointer to the real @name, of the type of the wrapper itself. Never NULL for libc names. */
#define LW_REAL(name)                                                                              \
	({                                                                                         \
		static _Atomic(void *) cached_;                                                    \
		void *real_ = atomic_load_explicit(&cached_, memory_order_relaxed);                \
		if (LW_UNLIKELY(!real_)) {                                                         \
			real_ = lw_real(#name);                                                    \
			atomic_store_explicit(&cached_, real_, memory_order_relaxed);              \
		}                                                                                  \
		(__typeof__(&name))real_;                                                          \
	})

/* Real functions of one hook, by the object that calls it; all zero = none known yet. */
struct lw_real_sites {
	struct {
		_Atomic(void *) real;    /* NULL = not known yet */
		_Atomic uintptr_t start; /* where the calling object is mapped; 0 = free */
		uintptr_t end;
	} at[8];
	_Atomic(void *) other; /* for callers in no object, and those without room above */
};

/**
 * lw_real_for() - the @name that @caller's own library would have bound to without us. For C++ names of
 * which a process may hold two (a framework that brings its own copy of a library). From the second
 * call of an object on a few loads; callers from more objects than @sites holds get lw_real()'s.
 * @caller: __builtin_return_address(0) of the hook; @sites: static, of that hook
 * Return: as lw_real().
 */
void *lw_real_for(const char *name, void *caller, struct lw_real_sites *sites);

/* The last answer of lw_real_now() for one hook; all zero = none yet. */
struct lw_real_site {
	_Atomic uint32_t version; /* odd: being written */
	_Atomic(void *) real;
	_Atomic uintptr_t start, n_bytes; /* where the calling object is mapped */
	_Atomic uint64_t n_unloads;       /* libraries that had been unloaded then */
};

/**
 * lw_real_now() - as lw_real_for(), and right also when the libraries have been unloaded and loaded
 * again meanwhile, for which it asks the loader each time (not for hot paths).
 */
void *lw_real_now(const char *name, void *caller, struct lw_real_site *site);

/** lw_patch_slot() - overwrite one pointer in a read-only table (mprotect, store, mprotect back). */
bool lw_patch_slot(void **slot, void *replacement);

/* ---- Horovod, for the hooks of its transports ------------------------------------------------------ */

/** lw_horovod_is_present() - is a Horovod loaded in this process? Any program may AND over its ranks. */
bool lw_horovod_is_present(void);

/**
 * lw_horovod_in_control() - is this thread Horovod's background thread, and not executing a batch? Then
 * what it sends is coordination, not payload. False where that cannot be told.
 */
bool lw_horovod_in_control(void);

/**
 * lw_horovod_is_hooked() - are the controllers of a Horovod in this process watched through their
 * vtables? Then its rounds and names are recorded there, and the transports need not guess them.
 */
bool lw_horovod_is_hooked(void);

/**
 * lw_horovod_band() - fallback: a bit-wise AND over all ranks was seen on the wire (MPI_BAND).
 * @in_bits, @out_bits: first 64-bit word before and after; @n_words: length of the vector
 * Does nothing when lw_horovod_is_hooked(). The thread that calls it is Horovod's background thread.
 */
void lw_horovod_band(
	uint64_t in_bits, uint64_t out_bits, uint32_t n_words, int64_t t0_ns, int64_t t1_ns);

/* ---- for a probe: hook_mpi.c ----------------------------------------------------------------------- */

/** lw_mpi_hide() - what this thread calls of MPI below @frame is not the job's, until lw_mpi_show(). */
void lw_mpi_hide(const void *frame);
void lw_mpi_show(void);

/* ---- called by core.c at the edges of life; each hook file implements what it needs -------------- */

void lw_sockets_flush(enum lw_sample_why why); /* hook_socket.c: totals of every connection */
void lw_gloo_flush(void);                      /* hook_gloo.c: collectives that never ended */
void lw_horovod_flush(void);                   /* hook_horovod_cycle.c: rounds not yet told */
void lw_verbs_flush(void);                     /* verbs_table.c: requests that never completed */
void lw_cupti_flush(void);     /* hook_cupti.c: what CUPTI has not handed over yet */
void lw_cupti_activated(void); /* this process is traced from now on */
void lw_cupti_forget(void);    /* a forked child is to be traced: CUPTI was its parent's */
void lw_nccl_flush(void);      /* hook_nccl_plugin.c: operations under way */
void lw_nvtx_started(void);    /* hook_nvtx.c: who has NVTX, when the process becomes live */

#endif /* LAPWING_TRACER_TRACER_H */
