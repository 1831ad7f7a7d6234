/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rundir.h - where the rings of one job on one host lie, and who may collect them.
 *
 * RING_DIR (0700) holds
 *	<pid>.<tid>.<serial>.ring   rings; written as .tmp first, then renamed, so a reader sees whole ones
 *	lock                        flock()ed exclusively by the one collector while it lives
 *	out                         text: absolute path of the run file being written
 *	stop                        appears when nobody will add rings any more (`record`: the command
 *	                            ended); holds its exit code as text
 *	probe.<job>.<size>.<..>     how the ranks of an MPI job agree on a probe
 *	log                         what a collector without a terminal had to say
 * The collector removes the directory once everything is in the run file. One left behind belongs to
 * a collector that died: `lapwing salvage RING_DIR` finishes it.
 */
#ifndef LAPWING_SCHEMA_RUNDIR_H
#define LAPWING_SCHEMA_RUNDIR_H

#define LW_RUNDIR_LOCK     "lock"
#define LW_RUNDIR_OUT      "out"
#define LW_RUNDIR_STOP     "stop"
#define LW_RUNDIR_LOG      "log"
#define LW_RUNDIR_PROBE    "probe."
#define LW_RUNDIR_RING_EXT ".ring"
#define LW_RUNDIR_PREFIX   "lapwing-" /* under /dev/shm, else $TMPDIR, else /tmp */

/* The environment that reaches a traced process. Each mirrors an option of `lapwing record`. */
#define LW_ENV_DIR          "LAPWING_DIR" /* ring directory made by `record`; same host only */
#define LW_ENV_OUT          "LAPWING_OUT" /* run file pattern, for jobs started without `record` */
#define LW_ENV_DISABLE      "LAPWING_DISABLE"      /* 1: record nothing */
#define LW_ENV_HOOKS        "LAPWING_HOOKS"        /* e.g. "mpi,horovod,-socket"; default all */
#define LW_ENV_RING_RECORDS "LAPWING_RING_RECORDS" /* records a ring, power of two; default 65536 */

#define LW_ENV_NO_ANALYZE "LAPWING_NO_ANALYZE" /* 1: no analysis when the run is closed */

#define LW_ENV_GPU "LAPWING_GPU" /* on, graphs, off, release; default on: what CUPTI is asked for */

#define LW_ENV_PROBE "LAPWING_PROBE" /* seconds that a probe may take; default none */

#define LW_ENV_NVTX_NEXT                                                                           \
	"LAPWING_NVTX_NEXT" /* library that NVTX_INJECTION64_PATH named before lapwing's */

/* For the collector, which a rank may have to start: */
#define LW_ENV_PCAP        "LAPWING_PCAP" /* device whose packets are captured; any = all */
#define LW_ENV_PCAP_FILTER "LAPWING_PCAP_FILTER"
#define LW_ENV_SAMPLE_MS   "LAPWING_SAMPLE_MS" /* between looks at NICs and sockets; 0 = none */
#define LW_ENV_NCCL_MASK   "LAPWING_NCCL_MASK" /* events of NCCL's profiler plugin, docs/gpu.md */

enum { LW_RING_RECORDS_DEFAULT = 65536, LW_PROBE_DEFAULT_S = 5, LW_PROBE_MAX_S = 600 };

#endif /* LAPWING_SCHEMA_RUNDIR_H */
