/* SPDX-License-Identifier: Apache-2.0 */
/* nics.c - devices of the hosts and how their counters grew. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzer/load/load.h"

bool lw_load_is_time(int64_t ns)
{
	return ns >= 0 && ns <= LW_LOAD_TIME_MAX_NS;
}

int32_t lw_load_rank_index(struct lw_loader *loader, int64_t process_id)
{
	const struct lw_rank *rank = lw_load_rank_of_process(loader, process_id);

	return rank ? (int32_t)(rank - loader->run->ranks.at) : LW_NONE;
}

static char *copy_text(sqlite3_stmt *row, int column)
{
	return strdup(lw_store_column_text(row, column));
}

static uint64_t count(sqlite3_stmt *row, int column)
{
	int64_t value = sqlite3_column_int64(row, column);

	return value > 0 && value <= LW_LOAD_BYTES_MAX ? (uint64_t)value : 0;
}

static int add_nic(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_nic nic = {.store = loader->store_index,
		.id = sqlite3_column_int64(row, 0),
		.host_id = sqlite3_column_int64(row, 1),
		.kind = copy_text(row, 2),
		.name = copy_text(row, 3),
		.driver = copy_text(row, 4),
		.addresses = copy_text(row, 5),
		.namespace_key = sqlite3_column_int64(row, 6),
		.mtu_bytes = count(row, 7),
		.speed_bytes_per_s = count(row, 8),
		.is_loopback = sqlite3_column_int(row, 9) != 0,
		.is_gone = sqlite3_column_type(row, 10) != SQLITE_NULL,
		.on_name = copy_text(row, 11),
		.host = copy_text(row, 14),
		.clock = lw_load_clock(loader->store, lw_store_column_text(row, 12),
			lw_store_column_text(row, 13)),
		.same_as = (int32_t)loader->run->nics.n};

	if (nic.kind && nic.name && nic.driver && nic.addresses && nic.on_name && nic.host &&
		lw_vec_push(&loader->run->nics, nic) == LW_OK)
		return LW_OK;
	free(nic.kind);
	free(nic.name);
	free(nic.driver);
	free(nic.addresses);
	free(nic.on_name);
	free(nic.host);
	return lw_fail(LW_ERR_NOMEM, "no memory");
}

int32_t lw_load_nic_index(const struct lw_loader *loader, int64_t id)
{
	const struct lw_nic *nics = loader->run->nics.at;
	size_t low = 0, high = loader->run->nics.n;

	while (low < high) { /* by store, id */
		size_t middle = low + (high - low) / 2;

		if (nics[middle].store < loader->store_index ||
			(nics[middle].store == loader->store_index && nics[middle].id < id))
			low = middle + 1;
		else
			high = middle;
	}
	return low < loader->run->nics.n && nics[low].store == loader->store_index &&
			       nics[low].id == id
		       ? (int32_t)low
		       : LW_NONE;
}

/* Rows come by device, counter, time. */
static int add_reading(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_reading reading = {sqlite3_column_int64(row, 2), sqlite3_column_int64(row, 3)};
	const char *name = lw_store_column_text(row, 1);
	int64_t id = sqlite3_column_int64(row, 0);
	struct lw_nic_series series = {0};
	struct lw_nic *nic;

	if (loader->last_nic < 0 || loader->run->nics.at[loader->last_nic].id != id)
		loader->last_nic = lw_load_nic_index(loader, id);
	if (loader->last_nic < 0 || !lw_load_is_time(reading.at_ns) || reading.value < 0) {
		loader->n_bad_traffic++;
		return LW_OK;
	}
	nic = &loader->run->nics.at[loader->last_nic];
	if (!nic->series.n || strcmp(nic->series.at[nic->series.n - 1].name, name)) {
		series.name = strdup(name);
		if (!series.name || lw_vec_push(&nic->series, series) < 0) {
			free(series.name);
			return lw_fail(LW_ERR_NOMEM, "no memory");
		}
	}
	return lw_vec_push(&nic->series.at[nic->series.n - 1].readings, reading);
}

/* A driver that was loaded anew, or a device that was reset. */
static int add_break(struct lw_loader *loader, sqlite3_stmt *row)
{
	int64_t n = sqlite3_column_int64(row, 2);

	return lw_run_diag(loader->run, "load", "counter that was reset", (uint64_t)n,
		"%.64s of %.64s fell: what it counted around then is not certain",
		lw_store_column_text(row, 1), lw_store_column_text(row, 0));
}

int lw_load_nics(struct lw_loader *loader)
{
	int status = lw_load_each(loader,
		"SELECT d.id, d.host_id, d.kind, d.name, coalesce(d.driver, ''), d.addresses,"
		" coalesce(d.namespace_key, 0), coalesce(d.mtu_bytes, 0), coalesce(d.speed_bytes_per_s, 0),"
		" d.is_loopback, d.gone_ns, coalesce(d.on_name, ''), h.boot_id, h.clock,"
		" coalesce(h.name, '') FROM device d"
		" LEFT JOIN host h ON h.id = d.host_id ORDER BY d.id",
		add_nic);

	loader->last_nic = LW_NONE;
	if (status == LW_OK)
		status = lw_load_each(loader,
			"SELECT s.device_id, c.name, s.at_ns, s.value FROM counter_sample s"
			" JOIN counter c ON c.id = s.counter_id"
			" ORDER BY s.device_id, s.counter_id, s.at_ns, s.rowid",
			add_reading);
	if (status == LW_OK)
		status = lw_load_each(loader,
			"SELECT d.name, c.name, count(*) FROM counter_break b JOIN device d ON d.id = b.device_id"
			" JOIN counter c ON c.id = b.counter_id WHERE b.kind = 'reset'"
			" GROUP BY d.id, c.id ORDER BY d.id, c.id LIMIT 1000",
			add_break);
	return status;
}

/* Of what all recordings of a host know a device by. */
static int compare_device(const struct lw_nic *a, const struct lw_nic *b)
{
	int by = (a->clock > b->clock) - (a->clock < b->clock);

	if (!by)
		by = (a->namespace_key > b->namespace_key) - (a->namespace_key < b->namespace_key);
	if (!by)
		by = strcmp(a->kind, b->kind);
	if (!by && !strcmp(a->kind, "gpu")) /* those of one make have one name */
		by = strcmp(a->on_name, b->on_name);
	return by ? by : strcmp(a->name, b->name);
}

static int compare_nic(const void *x, const void *y)
{
	const struct lw_nic *a = *(struct lw_nic *const *)x, *b = *(struct lw_nic *const *)y;
	int by = compare_device(a, b);

	return by ? by : (a > b) - (a < b);
}

static int64_t watched_ns(const struct lw_nic *nic)
{
	const struct lw_nic_series *series;
	int64_t longest_ns = 0;

	lw_vec_foreach (series, &nic->series) {
		int64_t ns = series->readings.at[series->readings.n - 1].at_ns -
			     series->readings.at[0].at_ns;

		longest_ns = ns > longest_ns ? ns : longest_ns;
	}
	return longest_ns;
}

/* Few ranks are on one NIC. */
static int note_rank(struct lw_nic *nic, int32_t rank)
{
	size_t at = 0;

	while (at < nic->ranks.n && nic->ranks.at[at] < rank)
		at++;
	if (at < nic->ranks.n && nic->ranks.at[at] == rank)
		return LW_OK;
	if (lw_vec_push(&nic->ranks, rank) < 0)
		return LW_ERR_NOMEM;
	for (size_t i = nic->ranks.n - 1; i > at; i--)
		nic->ranks.at[i] = nic->ranks.at[i - 1];
	nic->ranks.at[at] = rank;
	return LW_OK;
}

/* @of: of one device, in their order, so by store. In one store it may have gone and come again: those are several. */
static void join_nics(struct lw_nic *const *of, size_t n, struct lw_nic *nics)
{
	for (size_t i = 1; i < n; i++) {
		int32_t known = of[0]->same_as, own = (int32_t)(of[i] - nics);

		if (of[i]->store == of[0]->store)
			continue;
		of[i]->same_as = watched_ns(of[i]) > watched_ns(&nics[known]) ? own : known;
		for (size_t j = 0; j < i && of[i]->same_as == own; j++)
			if (of[j]->same_as == known)
				of[j]->same_as = own;
	}
}

/* CUDA tells a process where on the bus its GPUs are, NVML the host. */
static bool uses_gpu(const struct lw_rank *rank, const struct lw_nic *device)
{
	const struct lw_gpu_device *gpu;

	lw_vec_foreach (gpu, &rank->gpu.devices)
		if (*gpu->pci && !strcasecmp(gpu->pci, device->on_name))
			return rank->clock == device->clock;
	return false;
}

static int note_gpus(struct lw_run *run)
{
	struct lw_nic *nic;
	int status = LW_OK;

	lw_vec_foreach (nic, &run->nics)
		for (size_t r = 0; r < run->ranks.n && status == LW_OK; r++)
			if (!strcmp(nic->kind, "gpu") && uses_gpu(&run->ranks.at[r], nic))
				status = note_rank(&run->nics.at[nic->same_as], (int32_t)r);
	return status;
}

int lw_load_same_nics(struct lw_run *run)
{
	struct lw_nic *nics = run->nics.at;
	struct lw_nic **sorted = calloc(run->nics.n + 1, sizeof(struct lw_nic *));
	struct lw_tcp_end *end;
	int status = LW_OK;
	size_t first = 0;

	if (!sorted)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu devices", run->nics.n);
	for (size_t i = 0; i < run->nics.n; i++)
		sorted[i] = &nics[i];
	qsort(sorted, run->nics.n, sizeof(struct lw_nic *), compare_nic);
	for (size_t i = 1; i <= run->nics.n; i++)
		if (i == run->nics.n || compare_device(sorted[first], sorted[i])) {
			join_nics(sorted + first, i - first, nics);
			first = i;
		}
	free(sorted);
	lw_vec_foreach (end, &run->ends) {
		if (end->nic == LW_NONE)
			continue;
		end->nic = nics[end->nic].same_as;
		if (end->rank != LW_NONE && status == LW_OK)
			status = note_rank(&nics[end->nic], end->rank);
	}
	return status == LW_OK ? note_gpus(run) : status;
}
