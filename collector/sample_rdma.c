/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_rdma.c - ports of RDMA devices: /sys/class/infiniband/DEV/ports/N/{counters,hw_counters}.
 *
 * Which files there are depends on the driver (rxe has no counters/ at all): those of the table that exist
 * are found once. Ports are listed again every LIST_PERIODS looks.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collector/sampler.h"

static const struct rdma_counter {
	struct lw_counter counter;
	const char *file;
} counters[] = {
#define LW_RDMA(name, unit, bits, scale, file) {{file, name, unit, bits, scale, false}, file},
#include "schema/counters.def"
};
enum { N_COUNTERS = sizeof(counters) / sizeof(counters[0]), LIST_PERIODS = 10, PORTS_MAX = 256 };

#define ROOT "class/infiniband"

static void describe(struct lw_device *device, const char *rdma_name, int root_fd)
{
	char line[256], driver[sizeof(device->driver)];
	int64_t speed_bytes_per_s = -1;

	if (lw_sysfs_line(device->dir_fd, "rate", line, sizeof(line)))
		lw_sysfs_rate(line, strlen(line), &speed_bytes_per_s);
	lw_device_set_number(device, &device->speed_bytes_per_s, speed_bytes_per_s);
	if (lw_sysfs_line(device->dir_fd, "gid_attrs/ndevs/0", line, sizeof(line)))
		lw_device_set(device, device->on_name, sizeof(device->on_name), line);
	snprintf(line, sizeof(line), "%.200s/device/driver", rdma_name);
	if (lw_sysfs_driver(root_fd, line, driver, sizeof(driver)))
		lw_device_set(device, device->driver, sizeof(device->driver), driver);
}

static void find_files(struct lw_samplers *samplers, struct lw_device *device)
{
	device->files.n = 0;
	for (size_t i = 0; i < N_COUNTERS; i++) {
		char text[64];
		int n = lw_sysfs_read(device->dir_fd, counters[i].file, text, sizeof(text));

		if (n == -ENOENT || n == -ENOTDIR)
			continue;
		if (n > 0 && !strncmp(text, "N/A", 3))
			continue; /* "N/A (no PMA)": mlx4, virtual functions */
		if (n == -EACCES || n == -EPERM)
			lw_samplers_trouble(samplers, "%s: %s: %s", device->name, counters[i].file,
				strerror(-n));
		else if (lw_vec_push(&device->files, (uint16_t)i) < 0)
			return;
	}
	if (!device->files.n)
		lw_samplers_trouble(samplers, "%s: has no counters that are known", device->name);
}

/* A device or a port that went away just now is no trouble, and many hosts have none. */
static void cannot_list(struct lw_samplers *samplers, const char *path, int error)
{
	if (error < 0 && error != -ENOENT && error != -ENODEV)
		lw_samplers_trouble(samplers, "%.150s: %s", path, strerror(-error));
}

static void list_port(struct lw_samplers *samplers, const char *rdma_name, const char *port)
{
	char path[600], name[64];
	struct lw_device *device;
	uint64_t number = 0;
	int fd, root_fd;

	if (lw_sysfs_number(port, strlen(port), &number) < 0 || number > PORTS_MAX)
		return;
	snprintf(path, sizeof(path), ROOT "/%.255s/ports/%.255s", rdma_name, port);
	fd = lw_sysfs_open(samplers, path);
	if (fd < 0) {
		cannot_list(samplers, path, fd);
		return;
	}
	snprintf(name, sizeof(name), "%.55s/%d", rdma_name, (int)number);
	device = lw_device_find(samplers, LW_DEVICE_RDMA_PORT, 0, (uint32_t)number, name);
	if (!device) {
		close(fd);
		return;
	}
	/* The folder of a device that was taken out and put back is another one. */
	if (device->dir_fd >= 0)
		close(device->dir_fd);
	device->dir_fd = fd;
	root_fd = lw_sysfs_open(samplers, ROOT);
	describe(device, rdma_name, root_fd);
	if (root_fd >= 0)
		close(root_fd);
	find_files(samplers, device);
}

static void list_device(struct lw_samplers *samplers, const char *rdma_name)
{
	char path[300];
	struct dirent *entry;
	DIR *listing;
	int fd;

	snprintf(path, sizeof(path), ROOT "/%.255s/ports", rdma_name);
	fd = lw_sysfs_open(samplers, path);
	if (fd < 0)
		cannot_list(samplers, path, fd);
	listing = fd < 0 ? NULL : fdopendir(fd);
	for (int n = 0; listing && n < PORTS_MAX && (entry = readdir(listing)); n++)
		if (entry->d_name[0] != '.')
			list_port(samplers, rdma_name, entry->d_name);
	if (listing)
		closedir(listing);
}

static void read_port(struct lw_samplers *samplers, struct lw_device *device)
{
	for (size_t i = 0; i < device->files.n; i++) {
		const struct rdma_counter *counter = &counters[device->files.at[i]];
		char text[64];
		uint64_t reading;
		int n = lw_sysfs_read(device->dir_fd, counter->file, text, sizeof(text));

		if (n >= 0 && lw_sysfs_number(text, (size_t)n, &reading) == LW_OK)
			lw_device_read(samplers, device, &counter->counter, reading);
		else if (n != -ENOENT && n != -ENODEV) /* gone: the next listing says so */
			lw_samplers_trouble(samplers, "%s: %s: %s", device->name, counter->file,
				n < 0 ? strerror(-n) : "not a number");
	}
	lw_device_commit(samplers, device, lw_clock_ns());
}

void lw_sample_rdma(struct lw_samplers *samplers)
{
	unsigned *n_looks = &samplers->n_rdma_looks;

	if ((*n_looks)++ % LIST_PERIODS == 0) {
		samplers->pass++;
		cannot_list(samplers, ROOT, lw_sysfs_list(samplers, ROOT, list_device));
		lw_devices_sweep(samplers, LW_DEVICE_RDMA_PORT, 0, samplers->pass);
	}
	for (size_t i = 0; i < samplers->devices.n; i++)
		if (samplers->devices.at[i]->kind == LW_DEVICE_RDMA_PORT &&
			!samplers->devices.at[i]->gone_ns)
			read_port(samplers, samplers->devices.at[i]);
}
