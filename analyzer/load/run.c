/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - life of struct lw_run: findings, tensor names, freeing. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "analyzer/load/kernel_name.h"
#include "analyzer/load/load.h"
#include "analyzer/run.h"

struct lw_name {
	char *text;
	int32_t index;
	UT_hash_handle hh;
};

/* Takes @text. */
static int add_diag(struct lw_run *run, const char *stage, const char *kind, uint64_t n, char *text)
{
	struct lw_diag diag = {.stage = stage, .kind = kind, .n = n}, *old, *more = NULL;
	size_t n_texts = 0;

	lw_vec_foreach (old, &run->diags) {
		if (strcmp(old->stage, stage) || strcmp(old->kind, kind))
			continue;
		if (!old->n_more && !strcmp(old->text, text)) {
			old->n += n;
			free(text);
			return LW_OK;
		}
		n_texts++;
		more = old->n_more ? old : more;
	}
	diag.text = text;
	if (n_texts >= LW_DIAG_MAX_TEXTS) {
		diag.n_more = more ? more->n_more + 1 : 1;
		free(text);
		if (asprintf(&diag.text, "and %llu more", (unsigned long long)diag.n_more) < 0)
			return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	if (more) {
		diag.n += more->n;
		free(more->text);
		*more = diag;
		return LW_OK;
	}
	if (lw_vec_push(&run->diags, diag) < 0) {
		free(diag.text);
		return LW_ERR_NOMEM;
	}
	return LW_OK;
}

int lw_run_diag(struct lw_run *run, const char *stage, const char *kind, uint64_t n,
	const char *format, ...)
{
	va_list arguments;
	char *text;
	int n_text;

	va_start(arguments, format);
	n_text = vasprintf(&text, format, arguments);
	va_end(arguments);
	return n_text < 0 ? lw_fail(LW_ERR_NOMEM, "no memory")
			  : add_diag(run, stage, kind, n, text);
}

void lw_run_diag_reset(struct lw_run *run, const char *stage)
{
	size_t n = 0;

	for (size_t i = 0; i < run->diags.n; i++) {
		if (strcmp(run->diags.at[i].stage, stage))
			run->diags.at[n++] = run->diags.at[i];
		else
			free(run->diags.at[i].text);
	}
	run->diags.n = n;
}

/* Index of @text in *@names, @n when it is new. Return: >= 0 or an error. */
static int32_t find_name(struct lw_name **names, const char *text, size_t n, const char **ret_text)
{
	struct lw_name *entry;

	HASH_FIND_STR(*names, text, entry);
	if (!entry) {
		if (n >= INT32_MAX)
			return lw_fail(LW_ERR_LIMIT, "too many names");
		entry = calloc(1, sizeof(*entry));
		if (!entry || !(entry->text = strdup(text))) {
			free(entry);
			return lw_fail(LW_ERR_NOMEM, "no memory");
		}
		entry->index = (int32_t)n;
		HASH_ADD_KEYPTR(hh, *names, entry->text, strlen(entry->text), entry);
	}
	*ret_text = entry->text;
	return entry->index;
}

int32_t lw_load_tensor(struct lw_run *run, const char *name)
{
	struct lw_tensor tensor = {0};
	int32_t index = find_name(&run->names, name, run->tensors.n, &tensor.name);

	if (index < 0 || (size_t)index < run->tensors.n)
		return index;
	return lw_vec_push(&run->tensors, tensor) < 0 ? LW_ERR_NOMEM : index;
}

int32_t lw_load_gpu_name(struct lw_run *run, const char *name)
{
	struct lw_kernel_kind kind = lw_kernel_kind(name);
	struct lw_gpu_name added = {.gpu_class = (uint8_t)kind.gpu_class,
		.algorithm = (uint8_t)kind.algorithm,
		.nccl_op = kind.nccl_op};
	int32_t index = find_name(&run->gpu.by_name, name, run->gpu.names.n, &added.name);

	if (index < 0 || (size_t)index < run->gpu.names.n)
		return index;
	return lw_vec_push(&run->gpu.names, added) < 0 ? LW_ERR_NOMEM : index;
}

static void free_names(struct lw_name *names)
{
	struct lw_name *name, *next;

	HASH_ITER(hh, names, name, next)
	{
		HASH_DEL(names, name);
		free(name->text);
		free(name);
	}
}

static void free_rank(struct lw_rank *rank)
{
	lw_vec_free(&rank->batches);
	lw_vec_free(&rank->members);
	lw_vec_free(&rank->readies);
	lw_vec_free(&rank->parameters);
	lw_vec_free(&rank->gradients);
	lw_vec_free(&rank->waits);
	lw_vec_free(&rank->cycles);
	lw_vec_free(&rank->collectives);
	lw_vec_free(&rank->steps);
	lw_vec_free(&rank->step_marks);
	lw_vec_free(&rank->step_values);
	lw_vec_free(&rank->traffic);
	lw_vec_free(&rank->cpu);
	lw_vec_free(&rank->training_cpu);
	lw_load_gpu_free(&rank->gpu);
	free(rank->cpus);
	free(rank->host);
}

static void free_traffic(struct lw_run *run)
{
	struct lw_net_account *account;
	struct lw_packet_flow *flow;
	struct lw_nic_series *series;
	struct lw_tcp_end *end;
	struct lw_nic *nic;

	lw_vec_foreach (nic, &run->nics) {
		lw_vec_foreach (series, &nic->series) {
			lw_vec_free(&series->readings);
			free(series->name);
		}
		lw_vec_free(&nic->series);
		free(nic->kind);
		free(nic->name);
		free(nic->driver);
		free(nic->addresses);
		free(nic->on_name);
		free(nic->host);
		lw_vec_free(&nic->ranks);
	}
	lw_vec_foreach (end, &run->ends) {
		lw_vec_free(&end->curve);
		lw_vec_free(&end->tcp);
	}
	lw_vec_foreach (flow, &run->flows) {
		lw_vec_free(&flow->bins);
		free(flow->protocol);
		free(flow->source);
		free(flow->destination);
	}
	lw_vec_foreach (account, &run->network.accounts)
		lw_vec_free(&account->candidates);
	lw_vec_free(&run->nics);
	lw_vec_free(&run->ends);
	lw_vec_free(&run->flows);
	lw_vec_free(&run->capture_gaps);
	lw_vec_free(&run->network.links);
	lw_vec_free(&run->network.ranks);
	lw_vec_free(&run->network.accounts);
	lw_vec_free(&run->network.troubles);
	lw_vec_free(&run->network.ops);
}

static void free_told(struct lw_run *run)
{
	struct lw_told *told;

	lw_vec_foreach (told, &run->told) {
		free(told->name);
		free(told->detail);
	}
	lw_vec_free(&run->told);
}

void lw_run_free(struct lw_run *run)
{
	struct lw_store **store;
	struct lw_rank *rank;
	struct lw_diag *diag;

	if (!run)
		return;
	lw_vec_foreach (rank, &run->ranks)
		free_rank(rank);
	lw_vec_foreach (diag, &run->diags)
		free(diag->text);
	free_names(run->names);
	free_names(run->gpu.by_name);
	lw_vec_free(&run->gpu.nccl_comm_ranks);
	lw_vec_free(&run->gpu.names);
	lw_vec_free(&run->gpu.lost);
	lw_vec_foreach (store, &run->stores)
		lw_store_close(*store);
	free_traffic(run);
	free_told(run);
	lw_load_marks_free(run);
	lw_vec_free(&run->stores);
	lw_vec_free(&run->ranks);
	lw_vec_free(&run->tensors);
	lw_vec_free(&run->groups);
	lw_vec_free(&run->probes);
	lw_vec_free(&run->cores);
	lw_vec_free(&run->diags);
	free(run->batch_slots);
	free(run);
}

const char *lw_rank_step_text(
	const struct lw_rank *rank, int32_t step, char text[LW_STEP_TEXT_BYTES])
{
	int64_t mark = rank->steps.at[step].mark;

	if (mark >= 0 && mark != step)
		snprintf(text, LW_STEP_TEXT_BYTES, "%d (#%lld)", step, (long long)mark);
	else
		snprintf(text, LW_STEP_TEXT_BYTES, "%d", step);
	return text;
}

static int64_t begin_of_clock_ns(const struct lw_run *run, int64_t clock)
{
	const struct lw_rank *rank;
	int64_t begin_ns = INT64_MAX;

	lw_vec_foreach (rank, &run->ranks)
		if (rank->clock == clock && rank->start_ns < begin_ns)
			begin_ns = rank->start_ns;
	return begin_ns;
}

int64_t lw_run_since_ns(const struct lw_run *run, const struct lw_rank *rank, int64_t at_ns)
{
	const struct lw_rank *zero = run->ranks.at, *own = run->ranks.at;

	while (own->clock != rank->clock)
		own++; /* the first rank on its clock */
	if (own == zero || !zero->steps.n || !own->steps.n)
		return at_ns - begin_of_clock_ns(run, rank->clock);
	return at_ns - own->steps.at[0].start_ns + zero->steps.at[0].start_ns -
	       begin_of_clock_ns(run, zero->clock);
}
