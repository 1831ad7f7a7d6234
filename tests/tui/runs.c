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

/* Two ranks that exchange 40 MB in a second, each over a NIC that also moved something else. */
static struct make_run links(void)
{
	struct make_run spec = make_run_job(2, 30);

	spec.first_ns = 10000000;
	spec.extra_sql =
		"WITH two(r) AS (VALUES(1), (2)) INSERT INTO device SELECT r, 1, 'nic', 'eth' || (r - 1), 2,"
		" r, NULL, 1500, 1250000000, '10.0.0.' || r, 'ixgbe', 0, 0, NULL FROM two;"
		"INSERT INTO device VALUES(3, 1, 'rdma_port', 'mlx5_0/1', 1, NULL, 'eth0', 4096, 12500000000, '', 'mlx5_core', 0, 0, NULL);"
		"INSERT INTO counter VALUES(1, 'tx_bytes', 'bytes'), (2, 'rx_bytes', 'bytes'), (3, 'tx_packets', 'packets'),"
		" (4, 'rx_packets', 'packets'), (5, 'rx_dropped', 'packets');"
		"WITH two(r) AS (VALUES(1), (2)), t(at) AS (VALUES(0), (500), (1000)) INSERT INTO counter_sample"
		" SELECT r, c.id, at * 1000000, at * CASE WHEN c.id < 3 THEN 43000 WHEN c.id < 5 THEN 28 ELSE 1 END FROM two, t, counter c;"
		"INSERT INTO counter_sample VALUES(3, 1, 0, 0), (3, 1, 1000000000, 0);"
		"WITH two(r) AS (VALUES(1), (2)) INSERT INTO socket SELECT r, r, 1, 0, '10.0.0.' || r, 5000 + r, '10.0.0.' || (3 - r), 5003 - r FROM two;"
		"INSERT INTO tcp_connection SELECT process_id, 1, process_id, 7, process_id, local_address, local_port, peer_address, peer_port,"
		" process_id, 0, 1, 1 FROM socket;"
		"WITH two(r) AS (VALUES(1), (2)), t(at) AS (VALUES(0), (500), (1000)) INSERT INTO socket_sample"
		" SELECT r, 1, at * 1000000, 1, at * 40000, at * 40000, 1, 1 FROM two, t;"
		"WITH two(r) AS (VALUES(1), (2)), t(at) AS (VALUES(0), (500), (1000)) INSERT INTO tcp_info_sample"
		" SELECT r, at * 1000000, 300000, 100000, at * 40000, at * 40000, at * 40000, 0, at / 100, at * 28, at * 28, 0,"
		" at * 1000000 * 4 / (4 + r), at * 10000, 0, 10, 0 FROM two, t;";
	return spec;
}

static const struct {
	const char *name;
	struct make_run (*make)(void);
} runs[] = {
	{"links", links},
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
