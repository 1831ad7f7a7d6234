/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_marks.c - steps that a program marks on the host begin on the device with the first kernel launched after the mark.
 *
 * Where records of kernels are missing, the first that is there may be of the middle of the step: its mark stays where the
 * host set it. What lacks its kernel then belongs to the step that the host launched it in.
 */
#include <stdlib.h>

#include "analyzer/load/load.h"

struct first { /* kernels by their launch */
	int64_t launched_ns;
	int64_t start_ns; /* the least of this one and all that were launched later */
	int64_t end_ns;   /* the greatest of this one and all that were launched earlier */
};

static int compare_first(const void *a, const void *b)
{
	const struct first *x = a, *y = b;

	if (x->launched_ns != y->launched_ns)
		return x->launched_ns < y->launched_ns ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* The launches that the host made from mark to mark begin no later there than the next one's on the device. */
static void keep_between(
	struct lw_gpu_rank *gpu, size_t first, size_t end, int64_t from_ns, int64_t to_ns)
{
	for (size_t i = first; i < end; i++) {
		struct lw_gpu_launch *launch = &gpu->launches.at[i];

		if (!launch->lacks_kernel)
			continue;
		if (launch->device_ns >= to_ns)
			launch->device_ns = to_ns - 1;
		if (launch->device_ns < from_ns)
			launch->device_ns = from_ns;
	}
}

/* From launch @first on, those before the mark at @until_ns. Return: the next one. */
static size_t sum_until(const struct lw_gpu_rank *gpu, size_t first, int64_t until_ns,
	struct lw_gpu_launched *ret_sum)
{
	*ret_sum = (struct lw_gpu_launched){0};
	for (; first < gpu->launches.n && gpu->launches.at[first].start_ns < until_ns; first++)
		lw_gpu_launched_add(ret_sum, &gpu->launches.at[first]);
	return first;
}

/* In a trace of which records are lost, nothing of the beginning of a step may be left: its next kernel is no first one. */
static bool is_torn_at(const struct lw_run *run, const struct first *next, const int64_t *mark,
	const int64_t *next_mark)
{
	enum { PART_DIVISOR = 5 };

	return run->is_profile && run->n_torn && next && next_mark &&
	       next->launched_ns - *mark > (*next_mark - *mark) / PART_DIVISOR;
}

static void move_marks(const struct lw_run *run, struct lw_rank *rank, const struct first *list,
	size_t n, int64_t last_end_ns)
{
	struct lw_gpu_rank *gpu = &rank->gpu;
	struct lw_gpu_launched launched;
	int64_t before_ns = LW_NS_UNKNOWN; /* the mark before, where it is now */
	size_t at = 0, end,
	       first = sum_until(
		       gpu, 0, rank->step_marks.n ? rank->step_marks.at[0] : 0, &launched);

	for (size_t i = 0; i < rank->step_marks.n; i++, first = end) {
		int64_t *mark = &rank->step_marks.at[i];
		bool is_last = i + 1 == rank->step_marks.n, is_end = rank->step_values.at[i] < 0;

		end = sum_until(gpu, first, is_last ? INT64_MAX : mark[1], &launched);
		while (at < n && list[at].launched_ns < *mark)
			at++;
		if (is_end && at < n) { /* what comes next is launched after a pause */
			if (at && list[at - 1].end_ns > *mark)
				*mark = list[at - 1].end_ns;
		} else if ((launched.is_first_lacking && lw_gpu_launched_is_part(&launched)) ||
			   is_torn_at(run, at < n ? &list[at] : NULL, mark,
				   is_last ? NULL : mark + 1)) {
			if (*mark < before_ns) /* the host ran ahead */
				*mark = before_ns;
		} else if (at < n && list[at].start_ns > *mark) {
			*mark = list[at].start_ns;
		} else if (at == n && last_end_ns > *mark) {
			*mark = last_end_ns;
		}
		before_ns = *mark;
	}
}

int lw_load_gpu_marks(const struct lw_run *run, struct lw_rank *rank)
{
	struct lw_gpu_rank *gpu = &rank->gpu;
	struct first *list = malloc((gpu->kernels.n + 1) * sizeof(*list));
	size_t *first = malloc((rank->step_marks.n + 1) * sizeof(*first)), n = 0;
	struct lw_gpu_launched launched;
	const struct lw_kernel *kernel;
	int64_t last_end_ns = LW_NS_UNKNOWN;

	if (!list || !first) {
		free(list);
		free(first);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	lw_vec_foreach (kernel, &gpu->kernels) {
		if (kernel->end_ns > last_end_ns)
			last_end_ns = kernel->end_ns;
		if (kernel->launch != LW_NONE)
			list[n++] = (struct first){gpu->launches.at[kernel->launch].start_ns,
				kernel->start_ns, kernel->end_ns};
	}
	for (size_t i = 0; i < rank->step_marks.n; i++)
		first[i] = sum_until(gpu, i ? first[i - 1] : 0, rank->step_marks.at[i], &launched);
	if (n * 2 > gpu->kernels.n) { /* else too few launches are known: the host's marks stay */
		qsort(list, n, sizeof(*list), compare_first);
		for (size_t i = n - 1; i > 0; i--)
			if (list[i].start_ns < list[i - 1].start_ns)
				list[i - 1].start_ns = list[i].start_ns;
		for (size_t i = 1; i < n; i++)
			if (list[i].end_ns < list[i - 1].end_ns)
				list[i].end_ns = list[i - 1].end_ns;
		move_marks(run, rank, list, n, last_end_ns);
	}
	for (size_t i = 0; i + 1 < rank->step_marks.n; i++)
		keep_between(gpu, first[i], first[i + 1], rank->step_marks.at[i],
			rank->step_marks.at[i + 1]);
	free(list);
	free(first);
	return LW_OK;
}
