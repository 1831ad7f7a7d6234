/* SPDX-License-Identifier: Apache-2.0 */
/* fake_nvml.h - what a test tells the double of libnvidia-ml.so.1 to be; from a program without it: variable FAKE_NVML. */
#ifndef LAPWING_TESTS_LIB_FAKE_NVML_H
#define LAPWING_TESTS_LIB_FAKE_NVML_H

enum { FAKE_GPUS_MAX = 4 };

struct fake_nvml {
	int n_gpus, init_result;
	int is_old; /* an NVML of 2018: no PCIe bytes, no sum over links, older names of reasons */
	int hang_s; /* each look hangs for so long */
	unsigned long n_calls;
	struct {
		int is_lost;
		unsigned busy_percent, memory_percent, clock_mhz, power_mw;
		unsigned long long used_bytes, energy_mj, reasons;
		unsigned long long nvlink_tx_kib, nvlink_rx_kib, pcie_tx_bytes, pcie_rx_bytes;
	} gpus[FAKE_GPUS_MAX];
};

struct fake_nvml *fake_nvml_state(void);

#endif /* LAPWING_TESTS_LIB_FAKE_NVML_H */
