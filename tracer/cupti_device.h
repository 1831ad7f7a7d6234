/* SPDX-License-Identifier: Apache-2.0 */
/* cupti_device.h - where a GPU sits: the driver's files say it, and no driver call is needed to read them. */
#ifndef LAPWING_TRACER_CUPTI_DEVICE_H
#define LAPWING_TRACER_CUPTI_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

enum { LW_PCI_TEXT_BYTES = 32 };

/**
 * lw_cupti_find_pci() - the PCI bus id of the GPU with @uuid ("0000:3b:00.0").
 * @root: "/proc/driver/nvidia/gpus": a folder for each GPU, named by its bus id, with a file "information"
 * Return: false = not told there (a container may hide it); then *@ret is empty.
 */
bool lw_cupti_find_pci(const char *root, const uint8_t uuid[16], char ret[LW_PCI_TEXT_BYTES]);

#endif /* LAPWING_TRACER_CUPTI_DEVICE_H */
