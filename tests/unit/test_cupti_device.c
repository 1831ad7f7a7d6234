/* SPDX-License-Identifier: Apache-2.0 */
/* The bus of a GPU, from files like those of the driver. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tracer/cupti_device.h"

static char root[] = "/tmp/lapwing-gpus-XXXXXX";
static const char *const gpus[][2] = {
	{"0000:3b:00.0", "GPU-00112233-4455-6677-8899-aabbccddeeff"},
	{"0000:af:00.0", "GPU-5a1e9e10-0000-4000-8000-0123456789ab"},
};

static int make(void **state)
{
	char path[256];

	(void)state;
	if (!mkdtemp(root))
		return -1;
	for (size_t i = 0; i < 2; i++) {
		FILE *file;

		snprintf(path, sizeof(path), "%s/%s", root, gpus[i][0]);
		mkdir(path, 0700);
		strcat(path, "/information");
		file = fopen(path, "w");
		if (!file)
			return -1;
		fprintf(file,
			"Model: \t\t A GPU\nIRQ:   \t\t 42\nGPU UUID: \t %s\nBus Type: \t PCIe\n",
			gpus[i][1]);
		fclose(file);
	}
	return 0;
}

static int clear(void **state)
{
	char path[256];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s/information", root, gpus[i][0]);
		unlink(path);
		snprintf(path, sizeof(path), "%s/%s", root, gpus[i][0]);
		rmdir(path);
	}
	return rmdir(root);
}

static void the_folder_with_its_uuid_names_the_bus(void **state)
{
	static const uint8_t uuid[16] = {
		0x5a, 0x1e, 0x9e, 0x10, 0, 0, 0x40, 0, 0x80, 0, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab};
	char pci[LW_PCI_TEXT_BYTES];

	(void)state;
	errno = 77;
	assert_true(lw_cupti_find_pci(root, uuid, pci));
	assert_string_equal(pci, "0000:af:00.0");
	assert_int_equal(errno, 77);
}

static void nobodys_uuid_and_no_driver_have_none(void **state)
{
	static const uint8_t uuid[16] = {0};
	char pci[LW_PCI_TEXT_BYTES] = "x";

	(void)state;
	errno = 77;
	assert_false(lw_cupti_find_pci(root, uuid, pci));
	assert_string_equal(pci, "");
	assert_false(lw_cupti_find_pci("/nowhere", uuid, pci));
	assert_string_equal(pci, "");
	assert_int_equal(errno, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_folder_with_its_uuid_names_the_bus),
		cmocka_unit_test(nobodys_uuid_and_no_driver_have_none),
	};

	return cmocka_run_group_tests(tests, make, clear);
}
