/* SPDX-License-Identifier: Apache-2.0 */
/* standalone.c - replays a corpus through a fuzz target where there is no libFuzzer: DIR... */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int replay(const char *path)
{
	static uint8_t data[1 << 20];
	FILE *file = fopen(path, "rb");
	uint8_t *exact;
	size_t n;

	if (!file)
		return -1;
	n = fread(data, 1, sizeof(data), file);
	fclose(file);
	exact = malloc(n ? n : 1); /* so that a sanitizer sees one byte too far */
	for (size_t i = 0; exact && i < n; i++)
		exact[i] = data[i];
	LLVMFuzzerTestOneInput(exact, n);
	free(exact);
	return 0;
}

int main(int argc, char **argv)
{
	int n = 0;

	for (int i = 1; i < argc; i++) {
		DIR *dir = opendir(argv[i]);
		struct dirent *entry;
		char path[4096];

		while (dir && (entry = readdir(dir))) {
			snprintf(path, sizeof(path), "%s/%s", argv[i], entry->d_name);
			if (entry->d_name[0] != '.' && replay(path) == 0)
				n++;
		}
		if (dir)
			closedir(dir);
	}
	printf("%d inputs\n", n);
	return n == 0;
}
