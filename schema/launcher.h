/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launcher.h - what the launcher's environment says about this process's place in the job.
 *
 * Header only, libc only: the tracer, `record` (%r) and the collector all need it. Frameworks confirm
 * or correct these hints later (MPI_Comm_rank, the first communicator). And which hooks LAPWING_HOOKS allows.
 */
#ifndef LAPWING_SCHEMA_LAUNCHER_H
#define LAPWING_SCHEMA_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct lw_place {
	int32_t rank, size, local_rank, local_size; /* -1 = not known */
};

/* rank, size, local rank, local size; first launcher whose rank variable is set wins */
static const char *const lw_launcher_variables[][4] = {
	{"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
		"OMPI_COMM_WORLD_LOCAL_SIZE"},
	{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
	{"PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE"},
	{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}, /* torchrun */
	{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
};

static inline int32_t lw_env_int(const char *name)
{
	const char *text = getenv(name);
	char *end;
	long value;

	if (!text || !*text)
		return -1;
	value = strtol(text, &end, 10);
	return *end || value < 0 || value > INT32_MAX ? -1 : (int32_t)value;
}

static inline struct lw_place lw_place_from_environment(void)
{
	struct lw_place place = {-1, -1, -1, -1};

	for (size_t i = 0; i < sizeof(lw_launcher_variables) / sizeof(lw_launcher_variables[0]);
		i++) {
		int32_t rank = lw_env_int(lw_launcher_variables[i][0]);

		if (rank < 0)
			continue;
		place.rank = rank;
		place.size = lw_env_int(lw_launcher_variables[i][1]);
		place.local_rank = lw_env_int(lw_launcher_variables[i][2]);
		place.local_size = lw_env_int(lw_launcher_variables[i][3]);
		break;
	}
	return place;
}

/**
 * lw_hook_list_allows() - does @list allow the hook @name? "mpi,horovod" allows only these; "-socket" alone allows
 * all but that one; NULL and "" allow all.
 */
static inline bool lw_hook_list_allows(const char *list, const char *name)
{
	size_t n = strlen(name);
	bool has_positive = false;

	for (const char *at = list; at && *at;) {
		size_t length = strcspn(at, ",");
		bool is_minus = *at == '-';

		if (length - is_minus == n && strncmp(at + is_minus, name, n) == 0)
			return !is_minus;
		has_positive |= !is_minus;
		at += length + (at[length] == ',');
	}
	return !has_positive;
}

#endif /* LAPWING_SCHEMA_LAUNCHER_H */
