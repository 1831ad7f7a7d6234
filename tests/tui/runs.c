/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tui/runs.h"

#include <string.h>

#include "schema/event.h"

/* What a tracer leaves of a program that has no framework. */
#define NO_FRAMEWORK                                                                               \
	"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready;"                          \
	"DELETE FROM cycle; DELETE FROM wait; DELETE FROM setting;"

static struct make_run slow_rank(void)
{
	struct make_run spec = make_run_job(3, 12);

	spec.late_ns[2] = 5000000;
	spec.n_broadcasts = 2;
	return spec;
}

static struct make_run one_rank(void)
{
	return make_run_job(1, 8);
}

static struct make_run many_ranks(void)
{
	struct make_run spec = make_run_job(64, 20);

	for (int r = 0; r < 64; r++)
		spec.late_ns[r] = r * 20000;
	return spec;
}

static struct make_run lossy(void)
{
	struct make_run spec = make_run_job(2, 6);

	spec.size = 3;
	spec.has_lost = true;
	spec.lost_rank = 1;
	spec.lost_step = 3;
	spec.extra_sql = "INSERT INTO loss VALUES(2, 4, 1, 5, '')";
	return spec;
}

static struct make_run ddp(void)
{
	struct make_run spec = make_run_job(2, 6);

	spec.framework = LW_FRAMEWORK_TORCH_DDP;
	spec.transport = LW_TRANSPORT_GLOO;
	spec.no_cycles = spec.no_waits = true;
	spec.extra_sql = "DELETE FROM setting";
	return spec;
}

static struct make_run plain(void)
{
	struct make_run spec = make_run_job(2, 6);

	spec.framework = LW_FRAMEWORK_NONE;
	spec.extra_sql = NO_FRAMEWORK;
	return spec;
}

static struct make_run empty(void)
{
	struct make_run spec = make_run_job(1, 1);

	spec.extra_sql = NO_FRAMEWORK "DELETE FROM collective";
	return spec;
}

/* Waits for a cycle that is far too long: there is something to set. */
static struct make_run long_cycle(void)
{
	struct make_run spec = make_run_job(2, 30);

	spec.tick_ns = 12000000;
	spec.late_ns[1] = 2000000;
	spec.extra_sql = "UPDATE setting SET value = 25000000 WHERE setting = 2";
	return spec;
}

/* One rank of two, as rank 0 of Horovod writes it; of how many, it may not say. */
static struct make_run imported(void)
{
	struct make_run spec = make_run_job(1, 6);

	spec.no_waits = true;
	spec.extra_sql = "UPDATE run SET source = 'horovod_timeline'; DELETE FROM setting;"
			 "UPDATE process SET size = 2";
	return spec;
}

static struct make_run imported_of_some(void)
{
	struct make_run spec = imported();

	spec.extra_sql = "UPDATE run SET source = 'horovod_timeline'; DELETE FROM setting;"
			 "UPDATE process SET size = NULL";
	return spec;
}

/* Five sizes whose times nothing explains: the largest is the fastest. */
static struct make_run poor_fit(void)
{
	static const struct make_tensor tensors[] = {
		{"grad.a", 4000, 20000000, 0},
		{"grad.b", 40000, 21000000, 1},
		{"grad.c", 400000, 22000000, 2},
		{"grad.d", 4000000, 23000000, 3},
		{"grad.e", 40000000, 24000000, 4},
	};
	static const int64_t wire_ns[] = {1000000, 9000000, 2000000, 12000000, 500000};
	struct make_run spec = make_run_job(2, 8);

	spec.tensors = tensors;
	spec.n_tensors = sizeof(tensors) / sizeof(tensors[0]);
	memcpy(spec.wire_ns, wire_ns, sizeof(wire_ns));
	return spec;
}

static struct make_run long_run(void)
{
	return make_run_job(4, 2000);
}

static const struct {
	const char *name;
	struct make_run (*make)(void);
} runs[] = {
	{"slow_rank", slow_rank},
	{"one_rank", one_rank},
	{"many_ranks", many_ranks},
	{"lossy", lossy},
	{"ddp", ddp},
	{"plain", plain},
	{"empty", empty},
	{"long_cycle", long_cycle},
	{"imported", imported},
	{"imported_of_some", imported_of_some},
	{"poor_fit", poor_fit},
	{"long", long_run},
};

bool tui_run(const char *name, struct make_run *ret_spec)
{
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		if (!strcmp(runs[i].name, name)) {
			*ret_spec = runs[i].make();
			return true;
		}
	return false;
}
