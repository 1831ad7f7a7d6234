#!/usr/bin/env python3
"""liblapwing.so shows the job only the names it means to interpose, and needs libc and libdl alone."""
import os
import re
import subprocess
import sys

LIBRARY = os.path.join(os.environ["LAPWING_BUILD_DIR"], "lib", "liblapwing.so")
NEEDED = {"libc.so.6", "libdl.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
ALLOWED = [
    r"P?MPIX?_[A-Z][A-Za-z0-9_]*", r"mpix?_[a-z0-9_]+", r"MPIX?_[A-Z0-9_]+",
    r"_ZN4gloo\w+", r"lapwing_\w+", r"InitializeInjection(Nvtx(2|Extension))?",
    # NCCL: what moves data, groups, communicators; not what asks (ncclGetVersion, ncclCommCount)
    r"nccl(AllReduce|Broadcast|Bcast|Reduce|AllGather|ReduceScatter|AlltoAll|Gather|Scatter|Send|Recv|PutSignal|Signal|WaitSignal)",
    r"nccl(GroupStart|GroupEnd|GroupSimulateEnd)|ncclComm(InitRank|InitRankConfig|InitRankScalable|InitAll|Split|Shrink|Grow|Destroy|Abort)",
    # libc: process, threads, sleeps, descriptors, sockets
    r"_exit|_Exit|f?exec[lv]p?e?|pthread_create|nanosleep|clock_nanosleep|usleep|sched_yield",
    r"send|sendto|sendmsg|sendmmsg|write|writev|recv|recvfrom|recvmsg|recvmmsg|read|readv|sendfile(64)?|splice",
    r"__(read|recv|recvfrom)_chk", r"connect|accept|accept4|close|close_range|closefrom|dup|dup2|dup3|fcntl(64)?",
    r"socket|fclose",
    # rdma-core: what providers and the library itself call, however the job got it
    r"verbs_set_ops|verbs_open_device|ibv_cmd_alloc_pd|ibv_cmd_(modify|destroy)_qp|ibv_cmd_create_qp(_ex2?)?|ibv_cmd_modify_qp_ex",
    r"ibv_cmd_destroy_srq|ibv_cmd_(de|re)?reg(_dmabuf)?_mr",
    # CUDA: what a program calls early, and what its own profiler does
    r"cuptiSubscribe(_v2)?|cuptiActivityRegisterCallbacks|cuInit|cudaSetDevice|cudaMalloc(Async)?|cudaLaunchKernel(ExC)?",
    r"ncclProfiler_v[1-6]",  # what NCCL looks up in a plugin
    # torch.distributed: work queue, reducer, store prefix
    r"_ZN4c10d\w+",
]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    bad = []
    names = [line.split()[-1] for line in output("nm", "-D", "--defined-only", LIBRARY).splitlines()]
    for name in names:
        if "@" in name:
            bad.append(f"{name}: versioned (an unversioned name matches any request, a versioned one does not)")
        elif not any(re.fullmatch(pattern, name) for pattern in ALLOWED):
            bad.append(f"{name}: exported, but not on the list of names to interpose")
    needed = re.findall(r"NEEDED.*\[(.+)\]", output("readelf", "-d", LIBRARY))
    bad += [f"NEEDED {name}: only libc and libdl may be needed" for name in needed if name not in NEEDED]
    print("\n".join(bad))
    print(f"exports: {len(names)} names, needed: {' '.join(needed)}, {len(bad)} faults")
    return bool(bad) or not names


if __name__ == "__main__":
    sys.exit(main())
