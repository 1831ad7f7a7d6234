/* SPDX-License-Identifier: Apache-2.0 */
/* sample_device.c - devices that come, go and change their names, and what their counters moved by. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collector/counter.h"
#include "collector/sampler.h"

static bool is_there(const struct lw_device *device, enum lw_device_kind kind,
	uint64_t namespace_key, uint32_t number)
{
	return !device->gone_ns && device->kind == kind && device->namespace_key == namespace_key &&
	       device->number == number;
}

struct lw_device *lw_device_number(struct lw_samplers *samplers, enum lw_device_kind kind,
	uint64_t namespace_key, uint32_t number)
{
	for (size_t i = 0; i < samplers->devices.n; i++)
		if (is_there(samplers->devices.at[i], kind, namespace_key, number))
			return samplers->devices.at[i];
	return NULL;
}

static struct lw_device *add_device(struct lw_samplers *samplers, enum lw_device_kind kind,
	uint64_t namespace_key, uint32_t number, const char *name)
{
	struct lw_device *device = NULL;
	size_t n = 0;

	for (size_t i = 0; i < samplers->devices.n; i++)
		n += samplers->devices.at[i]->kind == kind;
	if (n < LW_DEVICES_MAX)
		device = calloc(1, sizeof(*device));
	if (!device || lw_vec_push(&samplers->devices, device) < 0) {
		free(device);
		samplers->has_refused = true;
		return NULL;
	}
	device->id = lw_readings_next_device(samplers->rows);
	device->kind = kind;
	device->namespace_key = namespace_key;
	device->number = number;
	snprintf(device->name, sizeof(device->name), "%s", name);
	device->mtu_bytes = device->speed_bytes_per_s = -1;
	device->first_ns = samplers->now_ns;
	device->dir_fd = -1;
	device->is_dirty = true;
	return device;
}

static void end(struct lw_samplers *samplers, struct lw_device *device)
{
	lw_device_last(samplers, device);
	if (device->gone_ns)
		return;
	device->gone_ns = samplers->now_ns;
	device->is_dirty = true;
	if (device->dir_fd >= 0)
		close(device->dir_fd);
	device->dir_fd = -1;
}

struct lw_device *lw_device_find(struct lw_samplers *samplers, enum lw_device_kind kind,
	uint64_t namespace_key, uint32_t number, const char *name)
{
	struct lw_device *device = NULL;

	for (size_t i = 0; i < samplers->devices.n && !device; i++) {
		struct lw_device *one = samplers->devices.at[i];

		/* ports have numbers of their device, fixtures none: their names tell them apart */
		if (is_there(one, kind, namespace_key, number) &&
			((kind == LW_DEVICE_NIC && number) || !strcmp(one->name, name)))
			device = one;
	}
	if (device && strcmp(device->name, name) != 0) {
		end(samplers, device);
		device = NULL;
	}
	if (!device)
		device = add_device(samplers, kind, namespace_key, number, name);
	if (device)
		device->pass = samplers->pass;
	return device;
}

void lw_device_set(struct lw_device *device, char *field, size_t field_bytes, const char *value)
{
	if (!strncmp(field, value, field_bytes - 1))
		return;
	snprintf(field, field_bytes, "%s", value);
	device->is_dirty = true;
}

void lw_device_set_number(struct lw_device *device, int64_t *field, int64_t value)
{
	device->is_dirty |= *field != value;
	*field = value;
}

/* ---- readings -------------------------------------------------------------------------------------- */

/* By its key, else by its name: then it is new, or its reader has new keys. */
static struct lw_series *find_series(
	struct lw_samplers *samplers, struct lw_device *device, const struct lw_counter *counter)
{
	struct lw_series added = {.key = counter->key,
		.bits = (uint8_t)counter->bits,
		.scale = (uint16_t)counter->scale,
		.is_gauge = counter->is_gauge};
	struct lw_series *series;

	if (device->next_series < device->series.n &&
		device->series.at[device->next_series].key == counter->key)
		return &device->series.at[device->next_series];
	lw_vec_foreach (series, &device->series)
		if (series->key == counter->key)
			return series;
	added.counter = lw_readings_counter(samplers->rows, counter);
	if (added.counter < 0)
		return NULL;
	lw_vec_foreach (series, &device->series) {
		if (series->counter != added.counter)
			continue;
		if (series->key)
			return NULL; /* two sources of one name: the first counts */
		series->key = counter->key;
		return series;
	}
	return lw_vec_push(&device->series, added) < 0 ? NULL
						       : &device->series.at[device->series.n - 1];
}

void lw_device_read(struct lw_samplers *samplers, struct lw_device *device,
	const struct lw_counter *counter, uint64_t reading)
{
	struct lw_series *series = find_series(samplers, device, counter);

	if (!series)
		return;
	series->has_reading = true;
	series->reading = reading;
	device->next_series = (size_t)(series - device->series.at) + 1;
}

void lw_device_rekey(struct lw_device *device)
{
	struct lw_series *series;

	lw_vec_foreach (series, &device->series)
		series->key = NULL;
}

static void add_row(struct lw_samplers *samplers, const struct lw_device *device,
	struct lw_series *series, int64_t at_ns)
{
	const struct lw_counter_row row = {device->id, at_ns, series->total, series->counter};

	lw_readings_add_counter(samplers->rows, &row);
	series->row_ns = at_ns;
}

static void follow_gauge(struct lw_samplers *samplers, struct lw_device *device,
	struct lw_series *series, int64_t at_ns)
{
	int64_t value = lw_counter_first(series->reading, series->scale);

	if (value == series->total)
		return;
	if (series->at_ns > series->row_ns)
		add_row(samplers, device, series, series->at_ns); /* unchanged until here */
	series->total = value;
	add_row(samplers, device, series, at_ns);
}

/* Return: the reading is what the next one is compared with. */
static bool follow(struct lw_samplers *samplers, struct lw_device *device, struct lw_series *series,
	bool is_alone, int64_t at_ns)
{
	enum lw_counter_change change;
	uint64_t delta;

	if (!series->row_ns) {
		series->total = lw_counter_first(series->reading, series->scale);
		add_row(samplers, device, series, at_ns);
		return true;
	}
	if (series->is_gauge) {
		follow_gauge(samplers, device, series, at_ns);
		return true;
	}
	change = lw_counter_step(
		series->bits, series->last_reading, series->reading, is_alone, &delta);
	if (change == LW_COUNTER_SAME)
		return true;
	/* A sum over CPUs falls when one goes offline, and has its part again when that comes back. */
	if (change == LW_COUNTER_RESET && device->kind == LW_DEVICE_SOFTNET)
		return false;
	if (series->at_ns > series->row_ns)
		add_row(samplers, device, series, series->at_ns); /* unchanged until here */
	series->total = lw_counter_add(series->total, delta, series->scale);
	add_row(samplers, device, series, at_ns);
	if (change != LW_COUNTER_GREW) {
		const struct lw_counter_row row = {
			device->id, at_ns, series->total, series->counter};

		lw_readings_add_break(samplers->rows, &row, change == LW_COUNTER_WRAPPED);
	}
	return true;
}

void lw_device_commit(struct lw_samplers *samplers, struct lw_device *device, int64_t at_ns)
{
	struct lw_series *series;
	unsigned n_fell = 0;

	device->next_series = 0;
	lw_vec_foreach (series, &device->series)
		n_fell += series->has_reading && series->row_ns && !series->is_gauge &&
			  series->reading < series->last_reading;
	lw_vec_foreach (series, &device->series) {
		if (!series->has_reading)
			continue;
		if (follow(samplers, device, series, n_fell <= 1, at_ns))
			series->last_reading = series->reading;
		series->at_ns = at_ns;
		series->has_reading = false;
	}
}

/* ---- ends -------------------------------------------------------------------------------------------- */

void lw_device_last(struct lw_samplers *samplers, struct lw_device *device)
{
	struct lw_series *series;

	lw_vec_foreach (series, &device->series)
		if (series->at_ns > series->row_ns)
			add_row(samplers, device, series, series->at_ns);
}

void lw_devices_sweep(struct lw_samplers *samplers, enum lw_device_kind kind,
	uint64_t namespace_key, unsigned pass)
{
	for (size_t i = 0; i < samplers->devices.n; i++) {
		struct lw_device *device = samplers->devices.at[i];

		if (device->kind == kind && device->namespace_key == namespace_key &&
			device->pass != pass && !device->gone_ns)
			end(samplers, device);
	}
	if (samplers->has_refused)
		lw_samplers_trouble(samplers, "more than %d %s: the others are not sampled",
			LW_DEVICES_MAX,
			kind == LW_DEVICE_NIC   ? "network interfaces"
			: kind == LW_DEVICE_GPU ? "GPUs"
						: "RDMA ports");
	samplers->has_refused = false;
}

void lw_device_free(struct lw_device *device)
{
	if (device->dir_fd >= 0)
		close(device->dir_fd);
	lw_vec_free(&device->series);
	lw_vec_free(&device->files);
	free(device->ethtool);
	free(device);
}
