/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml.c - looks at the host's GPUs through NVML, in a thread of its own. A function, field or device that does not have
 * something is not asked again.
 *
 * Not used: nvmlDeviceGetPcieThroughput(), which measures over 20 ms while it is called. The counters of PCIe bytes are
 * fields of newer drivers.
 */
#include "collector/nvml.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "collector/nvml_abi.h"

enum { ALL_LINKS = UINT32_MAX, LINKS_MAX = 36, KIB = 1024 };

/* Fields that count bytes, the newest drivers' first: the first one that answers is kept. */
static const struct source {
	enum lw_nvml_value value;
	unsigned id;
	unsigned scale;    /* bytes a count stands for */
	bool is_all_links; /* its scope is a link, or all of them */
	bool is_by_link;   /* and it has no sum of its own */
} sources[] = {
	{LW_NVML_NVLINK_TX, 138, KIB, true, false}, /* NVLINK_THROUGHPUT_DATA_TX */
	{LW_NVML_NVLINK_TX, 202, 1, true, true},    /* NVLINK_COUNT_XMIT_BYTES */
	{LW_NVML_NVLINK_RX, 139, KIB, true, false},
	{LW_NVML_NVLINK_RX, 204, 1, true, true},
	{LW_NVML_PCIE_TX, 197, 1, false, false}, /* PCIE_COUNT_TX_BYTES */
	{LW_NVML_PCIE_RX, 198, 1, false, false},
};
enum { N_SOURCES = sizeof(sources) / sizeof(sources[0]) };

/* nvmlClocksEventReason* */
static const struct {
	enum lw_nvml_value value;
	uint64_t bit;
} reasons[] = {
	{LW_NVML_SW_POWER, 0x4},
	{LW_NVML_HW_SLOWDOWN, 0x8},
	{LW_NVML_SYNC_BOOST, 0x10},
	{LW_NVML_SW_THERMAL, 0x20},
	{LW_NVML_HW_THERMAL, 0x40},
	{LW_NVML_POWER_BRAKE, 0x80},
};

struct device {
	void *handle;
	uint32_t missing;         /* bit i: value i is not supported */
	uint16_t missing_sources; /* bit i: sources[i] is not */
	int64_t reasons_ns;       /* of the last look at them, 0 = none yet */
	uint64_t held_ns[LW_NVML_N_VALUES];
};

struct lw_nvml {
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t wanted;
	bool is_wanted, is_whole, must_stop;
	int64_t began_ns; /* the look that runs, 0 = none */
	struct lw_nvml_look whole;
	/* the thread's own */
	struct lw_nvml_library library;
	struct device devices[LW_NVML_GPUS_MAX];
	struct lw_nvml_look next;
};

/* ---- which GPUs ------------------------------------------------------------------------------------ */

static void say(struct lw_nvml_look *look, const char *what, const char *why)
{
	if (!look->trouble[0])
		snprintf(look->trouble, sizeof(look->trouble), "%.90s: %.100s", what, why);
}

/* Is there hardware to miss it for? Most hosts have neither. */
static bool has_gpu(void)
{
	return access("/dev/nvidiactl", F_OK) == 0 || access("/proc/driver/nvidia", F_OK) == 0;
}

/* "00000000:3B:00.0" -> "0000:3b:00.0" */
static void short_pci(const char *bus_id, size_t n_max, char *pci, size_t pci_bytes)
{
	size_t n = strnlen(bus_id, n_max), from = n > 12 ? n - 12 : 0;

	snprintf(pci, pci_bytes, "%.*s", (int)(n - from), bus_id + from);
	for (char *at = pci; *at; at++)
		*at = (char)(*at >= 'A' && *at <= 'F' ? *at - 'A' + 'a' : *at);
}

static void find_gpu(struct lw_nvml *nvml, unsigned index)
{
	const struct lw_nvml_library *library = &nvml->library;
	struct device *device = &nvml->devices[index];
	struct lw_nvml_gpu *gpu = &nvml->next.gpus[index];
	struct lw_nvml_pci pci = {0};
	int result = library->get_handle(index, &device->handle);

	if (result != LW_NVML_OK) {
		device->handle = NULL;
		gpu->is_lost = true;
		say(&nvml->next, "a GPU is not sampled", lw_nvml_error_text(library, result));
		return;
	}
	if (!library->get_name || library->get_name(device->handle, gpu->name, sizeof(gpu->name)))
		snprintf(gpu->name, sizeof(gpu->name), "GPU");
	gpu->name[sizeof(gpu->name) - 1] = '\0';
	if (library->get_pci && library->get_pci(device->handle, &pci) == LW_NVML_OK)
		short_pci(pci.bus_id, sizeof(pci.bus_id), gpu->pci, sizeof(gpu->pci));
}

/* Return: there is something to look at. */
static bool find_gpus(struct lw_nvml *nvml)
{
	const char *why = lw_nvml_library_open(&nvml->library);
	unsigned n = 0;
	int result;

	if (why) {
		if (has_gpu())
			say(&nvml->next, "GPUs are not sampled", why);
		return false;
	}
	result = nvml->library.init();
	if (result == LW_NVML_OK)
		result = nvml->library.get_count(&n);
	if (result != LW_NVML_OK) {
		say(&nvml->next, "GPUs are not sampled: NVML",
			lw_nvml_error_text(&nvml->library, result));
		return false;
	}
	if (n > LW_NVML_GPUS_MAX) {
		say(&nvml->next, "GPUs are not sampled", "those beyond the first 64");
		n = LW_NVML_GPUS_MAX;
	}
	nvml->next.n_gpus = n;
	for (unsigned i = 0; i < n; i++)
		find_gpu(nvml, i);
	return n > 0;
}

/* ---- one look ------------------------------------------------------------------------------------------- */

/* Return: @result says that it was read; else that it is not there, that the GPU is lost, or nothing for good. */
static bool is_read(struct lw_nvml *nvml, size_t i, uint32_t *missing, uint32_t bit, int result)
{
	struct lw_nvml_gpu *gpu = &nvml->next.gpus[i];
	char what[LW_NVML_TEXT_BYTES];

	if (result == LW_NVML_OK)
		return true;
	if (result == LW_NVML_NOT_SUPPORTED || result == LW_NVML_FUNCTION_NOT_FOUND ||
		result == LW_NVML_DEPRECATED || result == LW_NVML_ARGUMENT_VERSION_MISMATCH)
		*missing |= bit;
	if ((result == LW_NVML_GPU_IS_LOST || result == LW_NVML_RESET_REQUIRED) && !gpu->is_lost) {
		gpu->is_lost = true;
		snprintf(what, sizeof(what), "GPU %.20s is not sampled any more", gpu->pci);
		say(&nvml->next, what, lw_nvml_error_text(&nvml->library, result));
	}
	return false;
}

static void put(struct lw_nvml_gpu *gpu, enum lw_nvml_value value, uint64_t reading)
{
	gpu->known |= 1u << value;
	gpu->values[value] = reading;
}

/* Does @device have @value, and @function exist to ask for it? */
#define WANTS(device, value, function) ((function) && !((device)->missing >> (value)&1))

static void read_plain(struct lw_nvml *nvml, size_t i)
{
	const struct lw_nvml_library *library = &nvml->library;
	struct device *device = &nvml->devices[i];
	struct lw_nvml_gpu *gpu = &nvml->next.gpus[i];
	struct lw_nvml_utilization utilization = {0};
	struct lw_nvml_memory memory = {0};
	unsigned long long energy = 0;
	unsigned reading = 0;

#define READ(value, function, ...)                                                                 \
	(WANTS(device, value, library->function) &&                                                \
		is_read(nvml, i, &device->missing, 1u << (value),                                  \
			library->function(device->handle, __VA_ARGS__)))
	if (READ(LW_NVML_BUSY, get_utilization, &utilization)) {
		put(gpu, LW_NVML_BUSY, utilization.gpu_percent);
		put(gpu, LW_NVML_MEMORY_BUSY, utilization.memory_percent);
	}
	if (READ(LW_NVML_MEMORY_USED, get_memory, &memory))
		put(gpu, LW_NVML_MEMORY_USED, memory.used_bytes);
	if (READ(LW_NVML_SM_CLOCK, get_clock, LW_NVML_CLOCK_SM, &reading))
		put(gpu, LW_NVML_SM_CLOCK, reading);
	if (READ(LW_NVML_POWER, get_power, &reading))
		put(gpu, LW_NVML_POWER, reading);
	if (READ(LW_NVML_ENERGY, get_energy, &energy))
		put(gpu, LW_NVML_ENERGY, energy);
}

static uint64_t field_value(const struct lw_nvml_field *field)
{
	switch (field->type) {
	case LW_NVML_TYPE_UINT:
		return field->value.uint;
	case LW_NVML_TYPE_INT:
		return field->value.sint > 0 ? (uint64_t)field->value.sint : 0;
	case LW_NVML_TYPE_ULONG:
	case LW_NVML_TYPE_ULLONG:
	case LW_NVML_TYPE_LLONG:
		return field->value.ullong;
	}
	return 0;
}

/* The sum over links of a field that has none. Return: as the library; LW_NVML_NOT_SUPPORTED: no link has it. */
static int read_links(
	const struct lw_nvml_library *library, void *handle, struct lw_nvml_field *sum)
{
	struct lw_nvml_field links[LINKS_MAX];
	uint64_t total = 0;
	int result;
	unsigned n = 0;

	memset(links, 0, sizeof(links));
	for (unsigned link = 0; link < LINKS_MAX; link++)
		links[link] = (struct lw_nvml_field){.id = sum->id, .scope = link};
	result = library->get_fields(handle, LINKS_MAX, links);
	for (unsigned link = 0; link < LINKS_MAX && result == LW_NVML_OK; link++) {
		if (links[link].result != LW_NVML_OK)
			continue;
		total += field_value(&links[link]);
		n++;
	}
	sum->type = LW_NVML_TYPE_ULLONG;
	sum->value.ullong = total;
	sum->result = n ? LW_NVML_OK : LW_NVML_NOT_SUPPORTED;
	return result;
}

static void read_fields(struct lw_nvml *nvml, size_t i)
{
	const struct lw_nvml_library *library = &nvml->library;
	struct device *device = &nvml->devices[i];
	struct lw_nvml_gpu *gpu = &nvml->next.gpus[i];

	for (int k = 0; library->get_fields && k < N_SOURCES && !gpu->is_lost; k++) {
		const struct source *source = &sources[k];
		struct lw_nvml_field field = {
			.id = source->id, .scope = source->is_all_links ? ALL_LINKS : 0};
		uint32_t missing = device->missing_sources;
		int result;

		if (missing >> k & 1 || gpu->known >> source->value & 1)
			continue;
		result = source->is_by_link ? read_links(library, device->handle, &field)
					    : library->get_fields(device->handle, 1, &field);
		if (is_read(nvml, i, &missing, 1u << k,
			    result == LW_NVML_OK ? field.result : result))
			put(gpu, source->value, field_value(&field) * source->scale);
		else if (result == LW_NVML_OK &&
			 field.result != LW_NVML_OK) /* older ones say INVALID_ARGUMENT */
			missing |= 1u << k;
		device->missing_sources = (uint16_t)missing;
	}
}

static void read_reasons(struct lw_nvml *nvml, size_t i)
{
	const struct lw_nvml_library *library = &nvml->library;
	struct device *device = &nvml->devices[i];
	unsigned long long set = 0;
	int (*get)(void *, unsigned long long *) =
		library->get_reasons ? library->get_reasons : library->get_old_reasons;
	int64_t now_ns = lw_clock_ns();

	if (!WANTS(device, LW_NVML_SW_POWER, get) || nvml->next.gpus[i].is_lost ||
		!is_read(nvml, i, &device->missing, 1u << LW_NVML_SW_POWER,
			get(device->handle, &set)))
		return;
	for (size_t k = 0; k < sizeof(reasons) / sizeof(reasons[0]); k++) {
		uint64_t *held_ns = &device->held_ns[reasons[k].value];

		if (device->reasons_ns && set & reasons[k].bit)
			*held_ns += (uint64_t)(now_ns - device->reasons_ns);
		put(&nvml->next.gpus[i], reasons[k].value, *held_ns);
	}
	device->reasons_ns = now_ns;
}

static void look(struct lw_nvml *nvml)
{
	for (size_t i = 0; i < nvml->next.n_gpus; i++) {
		nvml->next.gpus[i].known = 0;
		if (nvml->next.gpus[i].is_lost)
			continue;
		read_plain(nvml, i);
		read_fields(nvml, i);
		read_reasons(nvml, i);
	}
}

/* ---- the thread ------------------------------------------------------------------------------------------- */

/* Return: another look is wanted; false = stop. */
static bool wait_for_wish(struct lw_nvml *nvml)
{
	bool is_wanted;

	pthread_mutex_lock(&nvml->lock);
	while (!nvml->is_wanted && !nvml->must_stop)
		pthread_cond_wait(&nvml->wanted, &nvml->lock);
	is_wanted = !nvml->must_stop;
	nvml->is_wanted = false;
	nvml->began_ns = lw_clock_ns();
	pthread_mutex_unlock(&nvml->lock);
	return is_wanted;
}

static void publish(struct lw_nvml *nvml)
{
	pthread_mutex_lock(&nvml->lock);
	nvml->whole = nvml->next;
	nvml->is_whole = true;
	nvml->began_ns = 0;
	pthread_mutex_unlock(&nvml->lock);
	nvml->next.trouble[0] = '\0';
}

static void *run(void *argument)
{
	struct lw_nvml *nvml = argument;
	bool is_first = true;

	while (wait_for_wish(nvml)) {
		int64_t cpu_ns = lw_clock_id_ns(CLOCK_THREAD_CPUTIME_ID);

		if (is_first)
			nvml->next.is_last = !find_gpus(nvml);
		is_first = false;
		look(nvml);
		nvml->next.at_ns = lw_clock_ns();
		nvml->next.cpu_ns = lw_clock_id_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
		publish(nvml);
		if (nvml->next.is_last)
			break;
	}
	return NULL;
}

struct lw_nvml *lw_nvml_start(void)
{
	struct lw_nvml *nvml = calloc(1, sizeof(*nvml));
	sigset_t all, old;
	int error;

	if (!nvml)
		return NULL;
	pthread_mutex_init(&nvml->lock, NULL);
	pthread_cond_init(&nvml->wanted, NULL);
	nvml->is_wanted = true;
	nvml->began_ns = lw_clock_ns();
	sigfillset(&all); /* signals are the collector's own thread's */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(&nvml->thread, NULL, run, nvml);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (error) {
		free(nvml);
		return NULL;
	}
	return nvml;
}

bool lw_nvml_take(struct lw_nvml *nvml, struct lw_nvml_look *look)
{
	bool is_whole;

	pthread_mutex_lock(&nvml->lock);
	is_whole = nvml->is_whole;
	if (is_whole) {
		*look = nvml->whole;
		nvml->is_whole = false;
		nvml->is_wanted = !look->is_last;
		nvml->began_ns = look->is_last ? 0 : lw_clock_ns();
		pthread_cond_signal(&nvml->wanted);
	}
	pthread_mutex_unlock(&nvml->lock);
	return is_whole;
}

int64_t lw_nvml_busy_ns(struct lw_nvml *nvml)
{
	int64_t began_ns;

	pthread_mutex_lock(&nvml->lock);
	began_ns = nvml->began_ns;
	pthread_mutex_unlock(&nvml->lock);
	return began_ns ? lw_clock_ns() - began_ns : 0;
}

void lw_nvml_stop(struct lw_nvml *nvml)
{
	struct timespec until;

	if (!nvml)
		return;
	pthread_mutex_lock(&nvml->lock);
	nvml->must_stop = true;
	pthread_cond_signal(&nvml->wanted);
	pthread_mutex_unlock(&nvml->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	if (pthread_timedjoin_np(nvml->thread, NULL, &until) != 0) {
		pthread_detach(nvml->thread);
		return;
	}
	pthread_cond_destroy(&nvml->wanted);
	pthread_mutex_destroy(&nvml->lock);
	free(nvml);
}
