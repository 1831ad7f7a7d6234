"""Record one job of net_worker.py on hosts of net_space.py, with lapwing in the hub, where all their ports are."""
import json
import os
import shlex
import subprocess

import jsonschema

import net_space

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
LAPWING = os.path.join(os.environ.get("LAPWING_BUILD_DIR", os.path.join(SOURCE, "build")), "bin", "lapwing")
PYTHON = "/usr/bin/python3"  # Debian's torch
KEPT = {k: v for k, v in os.environ.items() if not k.startswith("LAPWING_") and k != "LD_PRELOAD"}


def record(path, names, kind, n_steps, compute_ms, sizes, options=(), timeout_s=120, beside="", after="", at=None):
    """Run it. Return: what rank 0 printed. @beside, @after: shell commands before and after it.
    @at: {rank: "STEP:COMMAND"}, see net_worker.py."""
    ranks = "".join(
        f"ip netns exec {name} env RANK={i} WORLD_SIZE={len(names)} MASTER_ADDR={net_space.ADDRESS.format(1)} MASTER_PORT=29500 "
        f"GLOO_SOCKET_IFNAME=eth0 NET_WORKER_AT={shlex.quote((at or {}).get(i, ''))} OMP_NUM_THREADS=1 {PYTHON} {HERE}/net_worker.py {kind} {n_steps} {compute_ms:g} "
        f"{','.join(map(str, sizes))} & pids=\"$pids $!\"; " for i, name in enumerate(names))
    script = f"{beside} {ranks} status=0; for pid in $pids; do wait $pid || status=1; done; {after} exit $status"
    done = subprocess.run(["ip", "netns", "exec", net_space.HUB, LAPWING, "record", "--quiet", "-o", path, *options, "--", "bash", "-c", script],
                          capture_output=True, text=True, timeout=timeout_s, env=KEPT)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise RuntimeError(f"{kind} on {len(names)} hosts: exit {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    return json.loads(lines[-1])


def ask(verb, path, *arguments):
    """Its answer, held against its schema."""
    done = subprocess.run([LAPWING, verb, path, *arguments, "--json"], capture_output=True, text=True, timeout=60, env=KEPT)
    if done.returncode not in (0, 3):
        raise RuntimeError(f"lapwing {verb}: exit {done.returncode}: {done.stderr}")
    answer = json.loads(done.stdout)
    jsonschema.validate(answer, json.loads(subprocess.run([LAPWING, verb, "--json-schema"], capture_output=True, text=True, check=True).stdout))
    return answer
