/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_verbs_memory.c - how much memory is registered for RDMA, and the time that took: RDMA_MEMORY records.
 *
 * Counted from the first registration on, for memory is registered before there is a queue pair. The counts
 * lie in a page that the kernel wipes in a forked child, which begins anew.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tracer/hook_verbs.h"

/* Of rdma-core's private header; it begins with an ibv_mr, and of that only the length is used. */
struct verbs_mr;
int ibv_cmd_reg_mr(struct ibv_pd *pd, void *address, size_t n, uint64_t device_address, int access,
	struct verbs_mr *mr, void *command, size_t command_bytes, void *response,
	size_t response_bytes);
int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t n, uint64_t device_address,
	int fd, int access, struct verbs_mr *mr, void *more);
int ibv_cmd_rereg_mr(struct verbs_mr *mr, uint32_t flags, void *address, size_t n,
	uint64_t device_address, int access, struct ibv_pd *pd, void *command, size_t command_bytes,
	void *response, size_t response_bytes);
int ibv_cmd_dereg_mr(struct verbs_mr *mr);

static const int64_t period_ns = 100000000;
/* A registration of everything (on-demand paging) has no size. */
static const uint64_t max_region_bytes = UINT64_C(1) << 47;

struct counts {
	_Atomic uint64_t bytes, register_ns;
	_Atomic uint32_t n, n_registrations, n_deregistrations, n_dmabufs;
	_Atomic int64_t told_ns;
};
static struct counts *_Atomic counts;

/* Return: NULL = no memory for them; what is registered is then not known. */
static struct counts *get_counts(void)
{
	int saved_errno = errno;
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	struct counts *none = NULL;
	void *page;

	if (atomic_load(&counts))
		return atomic_load(&counts);
	page = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page != MAP_FAILED && (madvise(page, page_bytes, MADV_WIPEONFORK) < 0 ||
					  !atomic_compare_exchange_strong(&counts, &none, page)))
		munmap(page, page_bytes);
	errno = saved_errno;
	return atomic_load(&counts);
}

void lw_verbs_memory_record(void)
{
	struct lw_event event = {.kind = LW_EV_RDMA_MEMORY};
	struct counts *of = atomic_load(&counts);

	if (!of || !atomic_load(&of->n_registrations))
		return;
	event.t0_ns = event.t1_ns = lw_now_ns();
	event.rdma_memory.registered_bytes = atomic_load(&of->bytes);
	event.rdma_memory.n_registered = atomic_load(&of->n);
	event.rdma_memory.n_registrations = atomic_load(&of->n_registrations);
	event.rdma_memory.n_deregistrations = atomic_load(&of->n_deregistrations);
	event.rdma_memory.n_dmabufs = atomic_load(&of->n_dmabufs);
	event.rdma_memory.register_ns = atomic_load(&of->register_ns);
	lw_record(&event);
}

static void tell(struct counts *of, int64_t now_ns)
{
	int64_t told_ns = atomic_load(&of->told_ns);

	if (lw_verbs_is_on() && now_ns - told_ns >= period_ns &&
		atomic_compare_exchange_strong(&of->told_ns, &told_ns, now_ns))
		lw_verbs_memory_record();
}

static uint64_t region_bytes(uint64_t bytes)
{
	return bytes > max_region_bytes ? 0 : bytes;
}

/*
 * libibverbs sets the length of what the job registers, and nobody that of what a provider registers for
 * itself (irdma's rings): it is set here too, or the end of such a region would take nothing away.
 */
static void note_registered(struct verbs_mr *mr, size_t n, bool is_dmabuf, int64_t start_ns)
{
	struct counts *of = get_counts();
	int64_t now_ns = lw_now_ns();

	((struct ibv_mr *)(void *)mr)->length = n;
	if (!of)
		return;
	atomic_fetch_add(&of->bytes, region_bytes(n));
	atomic_fetch_add(&of->n, 1);
	atomic_fetch_add(&of->n_registrations, 1);
	atomic_fetch_add(&of->n_dmabufs, is_dmabuf);
	atomic_fetch_add(&of->register_ns, (uint64_t)(now_ns - start_ns));
	tell(of, now_ns);
}

LW_EXPORT int ibv_cmd_reg_mr(struct ibv_pd *pd, void *address, size_t n, uint64_t device_address,
	int access, struct verbs_mr *mr, void *command, size_t command_bytes, void *response,
	size_t response_bytes)
{
	int64_t start_ns = lw_now_ns();
	int result = REAL_FOR_CALLER(ibv_cmd_reg_mr)(pd, address, n, device_address, access, mr,
		command, command_bytes, response, response_bytes);

	if (!result)
		note_registered(mr, n, false, start_ns);
	return result;
}

/* @more: an argument of later releases; where the caller gave none, a word of its stack is handed on. */
LW_EXPORT int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t n,
	uint64_t device_address, int fd, int access, struct verbs_mr *mr, void *more)
{
	int64_t start_ns = lw_now_ns();
	int result = REAL_FOR_CALLER(ibv_cmd_reg_dmabuf_mr)(
		pd, offset, n, device_address, fd, access, mr, more);

	if (!result)
		note_registered(mr, n, true, start_ns);
	return result;
}

static void take_away(_Atomic uint64_t *from, uint64_t n)
{
	uint64_t there = atomic_load(from);

	/* regions that were not seen to begin (device memory, imported ones) end here too */
	while (!atomic_compare_exchange_weak(from, &there, there > n ? there - n : 0))
		;
}

/* A region may become another one, of another size. */
LW_EXPORT int ibv_cmd_rereg_mr(struct verbs_mr *mr, uint32_t flags, void *address, size_t n,
	uint64_t device_address, int access, struct ibv_pd *pd, void *command, size_t command_bytes,
	void *response, size_t response_bytes)
{
	uint64_t before_bytes = region_bytes(((const struct ibv_mr *)(const void *)mr)->length);
	int result = REAL_FOR_CALLER(ibv_cmd_rereg_mr)(mr, flags, address, n, device_address,
		access, pd, command, command_bytes, response, response_bytes);
	struct counts *of = get_counts();

	if (result || !(flags & IBV_REREG_MR_CHANGE_TRANSLATION) || !of)
		return result;
	take_away(&of->bytes, before_bytes);
	atomic_fetch_add(&of->bytes, region_bytes(n));
	tell(of, lw_now_ns());
	return result;
}

LW_EXPORT int ibv_cmd_dereg_mr(struct verbs_mr *mr)
{
	uint64_t bytes = region_bytes(((const struct ibv_mr *)(const void *)mr)->length);
	int result = REAL_FOR_CALLER(ibv_cmd_dereg_mr)(mr);
	struct counts *of = get_counts();
	uint32_t n;

	if (result || !of)
		return result;
	take_away(&of->bytes, bytes);
	n = atomic_load(&of->n);
	while (n && !atomic_compare_exchange_weak(&of->n, &n, n - 1))
		;
	atomic_fetch_add(&of->n_deregistrations, 1);
	tell(of, lw_now_ns());
	return result;
}
