/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler.h - for those who write a sampler: the table's row, devices, counters, where readings go.
 *
 * A pass over a device is lw_device_find(), lw_device_read() for each counter, lw_device_commit(). Devices of
 * a sampler that a listing did not find again are ended by lw_devices_sweep().
 */
#ifndef LAPWING_COLLECTOR_SAMPLER_H
#define LAPWING_COLLECTOR_SAMPLER_H

#include "base/clock.h"
#include "base/vec.h"
#include "collector/cpu.h"
#include "collector/drain.h"
#include "collector/netlink.h"
#include "collector/sample.h"
#include "collector/writer.h"

enum {
	LW_DEVICES_MAX = 256,  /* of a kind at once; hosts of containers have thousands of veths */
	LW_COUNTERS_MAX = 512, /* names */
	LW_ROWS_MAX = 1 << 16, /* that wait for a transaction */
	LW_TROUBLES_MAX = 64,  /* different ones that are remembered */
};

enum lw_device_kind { LW_DEVICE_NIC, LW_DEVICE_RDMA_PORT, LW_DEVICE_SOFTNET, LW_DEVICE_GPU };

/* One counter of one device. */
struct lw_series {
	const void *key; /* of the reader's: found without looking at names */
	int counter;     /* index in the registry */
	uint8_t bits;    /* it wraps at */
	uint16_t scale;  /* units a count stands for */
	bool is_gauge;
	bool has_reading; /* of this pass */
	uint64_t reading, last_reading;
	int64_t total;  /* the store's value */
	int64_t row_ns; /* of its last row; 0 = none yet */
	int64_t at_ns;  /* last seen with this total */
};

struct lw_device {
	int64_t id; /* its row */
	enum lw_device_kind kind;
	uint64_t namespace_key; /* 0 = none */
	uint32_t number;        /* interface index, port; 0 = none */
	char name[64], on_name[64], driver[32], addresses[512];
	int64_t mtu_bytes, speed_bytes_per_s; /* -1 = not known */
	bool is_loopback;
	int64_t first_ns, gone_ns;
	/* of its samplers */
	unsigned pass;          /* listing that found it last */
	bool is_dirty;          /* its row is not as it is now */
	int dir_fd;             /* its folder in sysfs, -1 = none */
	lw_vec(uint16_t) files; /* rows of the sampler's table that exist there */
	void *ethtool;          /* struct ethtool_map, or NULL = not asked yet */
	lw_vec(struct lw_series) series;
	size_t next_series; /* likely the next to be read */
};

/* What is read, as its reader declares it. */
struct lw_counter {
	const void *key; /* the same for every reading of it, no other counter's of this device */
	const char *name, *unit;
	unsigned bits, scale;
	bool is_gauge; /* what is at the moment: it also falls */
};

struct lw_counter_row {
	int64_t device_id, at_ns, value;
	int counter;
};

/* One network namespace: the collector's own, or one of the job's. */
struct lw_netns {
	uint64_t key;
	bool is_own, must_list;
	bool is_full; /* it has more interfaces than are sampled: one that is not known is no news */
	struct lw_netns_sockets sockets;
};

/* A process of the job. */
struct lw_job_process {
	int32_t pid;
	int64_t start_ticks, process_id;
	uint64_t namespace_key;
	bool is_told; /* that it cannot be seen */
};

struct lw_cpu_known;
struct lw_nvml;
struct lw_nvml_look;
struct lw_readings;
struct lw_tcp;

struct lw_samplers {
	struct lw_sample_options options;
	const struct lw_drain *drain; /* whose rings have the job's processes and threads */
	struct lw_readings *rows;
	struct lw_tcp *tcp;
	int64_t now_ns;
	unsigned pass, n_rdma_looks;
	bool has_refused; /* this listing found more devices than are sampled */
	lw_vec(struct lw_netns *) namespaces;
	lw_vec(struct lw_job_process) processes;
	lw_vec(struct lw_device *) devices;
	lw_vec(struct lw_cpu_known *) cpu; /* processes with rings */
	uint64_t n_failed;                 /* readings, of the sampler that runs */
	int64_t elsewhere_ns;              /* CPU time that it took in another thread */
	int64_t once_ns;                /* of that: what took place once, and no look takes again */
	struct lw_nvml *nvml;           /* NULL = not begun, or cannot be */
	struct lw_nvml_look *nvml_look; /* the last one taken */
	bool is_nvml_slow;              /* has been said */
	bool has_nvml_begun;            /* a look was taken */
	struct lw_schedule *schedule;
	double row_ns;     /* what storing one row takes, averaged */
	int64_t stored_ns; /* rows were stored */
	char *buffer;      /* LW_NETLINK_BUFFER_BYTES */
};

/* One kind of source. */
struct lw_sampler_ops {
	const char *name;
	unsigned n_periods; /* looks every so many periods of the options */
	int64_t period_ns;  /* or has its own, whatever they say; 0 = none */
	double cpu_frac;    /* of one core that it may take */
	void (*sample)(struct lw_samplers *samplers);
};

void lw_sample_cpu(struct lw_samplers *samplers);
void lw_sample_nic(struct lw_samplers *samplers);
void lw_sample_rdma(struct lw_samplers *samplers);
void lw_sample_softnet(struct lw_samplers *samplers);
void lw_sample_ethtool(struct lw_samplers *samplers);
void lw_sample_nvml(struct lw_samplers *samplers);
void lw_sample_tcp(struct lw_samplers *samplers);
void lw_sample_tcp_list(struct lw_samplers *samplers);

/* ---- devices and readings (sample_device.c) ----------------------------------------------------- */

/**
 * lw_device_find() - the device of that kind, namespace, number and name that is there; a new one if none is.
 * One of the same number with another name was renamed: it ends here.
 * Return: it, found by this pass now; NULL: there are too many of that kind (the sweep says so).
 */
struct lw_device *lw_device_find(struct lw_samplers *samplers, enum lw_device_kind kind,
	uint64_t namespace_key, uint32_t number, const char *name);

/** lw_device_number() - the device with that number that is there, or NULL. */
struct lw_device *lw_device_number(struct lw_samplers *samplers, enum lw_device_kind kind,
	uint64_t namespace_key, uint32_t number);

/** lw_device_set() - copy @value into @field (of @field_bytes) of @device; its row follows when it differs. */
void lw_device_set(struct lw_device *device, char *field, size_t field_bytes, const char *value);
void lw_device_set_number(struct lw_device *device, int64_t *field, int64_t value);

/** lw_device_read() - @reading of @counter, in this pass. */
void lw_device_read(struct lw_samplers *samplers, struct lw_device *device,
	const struct lw_counter *counter, uint64_t reading);

/** lw_device_rekey() - the keys of its counters mean others from now on. */
void lw_device_rekey(struct lw_device *device);

/** lw_device_commit() - the readings of this pass were made at @at_ns. */
void lw_device_commit(struct lw_samplers *samplers, struct lw_device *device, int64_t at_ns);

/** lw_devices_sweep() - after a listing: those of @kind and @namespace_key that pass @pass did not find are gone. */
void lw_devices_sweep(struct lw_samplers *samplers, enum lw_device_kind kind,
	uint64_t namespace_key, unsigned pass);

/** lw_device_last() - the last reading of each of its counters has a row. */
void lw_device_last(struct lw_samplers *samplers, struct lw_device *device);

void lw_device_free(struct lw_device *device);

/** lw_samplers_trouble() - something cannot be read: a loss row, and n_failed. */
void lw_samplers_trouble(struct lw_samplers *samplers, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- files of sysfs and procfs (sample_sysfs.c) --------------------------------------------------- */

/**
 * lw_sysfs_number() - the decimal number that @n_bytes at @text are, with space around it at most.
 * Return: LW_OK, LW_ERR_FORMAT: not a number, more than 64 bits, or more than that.
 */
int lw_sysfs_number(const char *text, size_t n_bytes, uint64_t *ret_value);

/** lw_sysfs_rate() - "100 Gb/sec (4X EDR)" in bytes/s. Return: LW_OK or LW_ERR_FORMAT. */
int lw_sysfs_rate(const char *text, size_t n_bytes, int64_t *ret_bytes_per_s);

/** lw_softnet_sum() - column @column of /proc/net/softnet_stat summed over CPUs, modulo 2^32. */
int lw_softnet_sum(const char *text, size_t n_bytes, unsigned column, uint32_t *ret_sum);

/**
 * lw_sysfs_read() - a small regular file below @dir_fd, terminated.
 * Return: bytes; -errno; -EFBIG: does not fit; -EINVAL: not a regular file.
 */
int lw_sysfs_read(int dir_fd, const char *path, char *text, size_t text_bytes);

/** lw_sysfs_line() - the same up to its first line end, control characters as '?'. Return: it is there. */
bool lw_sysfs_line(int dir_fd, const char *path, char *line, size_t line_bytes);

/** lw_sysfs_driver() - the last part of what the link @path leads to. Return: there is one. */
bool lw_sysfs_driver(int dir_fd, const char *path, char *name, size_t name_bytes);

/** lw_sysfs_list() - call @each for every entry of @path below the root but those with a dot in front. */
int lw_sysfs_list(struct lw_samplers *samplers, const char *path,
	void (*each)(struct lw_samplers *samplers, const char *name));

/** lw_sysfs_open() - the folder @path below the root. Return: a descriptor or -errno. */
int lw_sysfs_open(const struct lw_samplers *samplers, const char *path);

/* ---- rows (sample_rows.c) ----------------------------------------------------------------------------- */

/* As table sampler; its counts and its CPU time are those since the row before it. */
struct lw_sampler_row {
	const char *name;
	int64_t period_ns, actual_period_ns, cpu_ns, longest_ns;
	uint64_t n_samples, n_late, n_failed;
};

int lw_readings_open(struct lw_writer *writer, struct lw_readings **ret_rows);
void lw_readings_close(struct lw_readings *rows);
int lw_readings_counter(
	struct lw_readings *rows, const struct lw_counter *counter); /* index; -1 = full */
int64_t lw_readings_next_device(struct lw_readings *rows);
int64_t lw_readings_next_connection(struct lw_readings *rows);
void lw_readings_add_counter(struct lw_readings *rows, const struct lw_counter_row *row);
void lw_readings_add_break(
	struct lw_readings *rows, const struct lw_counter_row *row, bool is_wrap);
void lw_readings_add_cpu(struct lw_readings *rows, const struct lw_cpu_row *row);
void lw_readings_add_cores(struct lw_readings *rows, const struct lw_cores_row *row);
void lw_readings_add_trouble(struct lw_readings *rows, const char *text);

/** lw_readings_waiting() - rows that wait for a transaction. */
size_t lw_readings_waiting(const struct lw_readings *rows);

/** lw_readings_store() - all that waits, and the row of every device that changed. Return: LW_OK or the store's error. */
int lw_readings_store(struct lw_readings *rows, struct lw_device **devices, size_t n_devices);

/** lw_readings_store_sampler() - what a sampler did so far. Return: LW_OK or the store's error. */
int lw_readings_store_sampler(struct lw_readings *rows, const struct lw_sampler_row *row);

#endif /* LAPWING_COLLECTOR_SAMPLER_H */
