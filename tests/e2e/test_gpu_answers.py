#!/usr/bin/env python3
"""report, info and the timeline on made-up runs with GPUs: valid JSON, figures that add up, every one with how it is known,
and what is not known said so."""
import csv
import io
import json
import os
import subprocess
import tempfile

import jsonschema

BUILD = os.environ["LAPWING_BUILD_DIR"]
LAPWING = os.path.join(BUILD, "bin", "lapwing")


def lapwing(*arguments):
    return subprocess.run([LAPWING, *arguments], capture_output=True, text=True, timeout=60, check=True).stdout


def validated(verb, path):
    answer = json.loads(lapwing(verb, "--json", path))
    jsonschema.validate(answer, json.loads(lapwing(verb, "--json-schema")))
    return answer


def written(name, folder):
    path = os.path.join(folder, name + ".lapwing")
    subprocess.run([os.path.join(BUILD, "tests", "tui_write_run"), name, path], check=True)
    return path


def figures(node):
    """Every key whose unit makes it a figure."""
    if isinstance(node, list):
        for one in node:
            yield from figures(one)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key.endswith(("_ns", "_frac", "_per_s")) and key not in ("start_ns", "end_ns"):
                yield key, value
            else:
                yield from figures(value)


def test_kernels(folder):
    path = written("gpu", folder)
    report = validated("report", path)
    gpu = report["gpu"]
    assert gpu["is_time_source"] and len(gpu["ranks"]) == 2 and len(gpu["devices"]) == 2, gpu
    for key, value in figures(gpu):
        assert set(value) == {"value", "low", "high", "how"}, (key, value)
    for rank in gpu["ranks"]:
        part = {name: rank[name]["value"] for name in ("whole_ns", "compute_ns", "comm_ns", "hidden_ns", "exposed_ns", "idle_ns")}
        assert abs(part["compute_ns"] + part["exposed_ns"] + part["idle_ns"] - part["whole_ns"]) < 1, part
        assert abs(part["hidden_ns"] + part["exposed_ns"] - part["comm_ns"]) < 1, part
        assert rank["sync_lost_ns"]["how"] == "assumed" and rank["sync_lost_ns"]["low"] == 0, rank
    # what computes is the same in both tables: they differ by what they call communication
    for rank, of_gpu in zip(report["ranks"], gpu["ranks"]):
        assert abs(rank["compute_ns"]["value"] - of_gpu["compute_ns"]["value"]) < 1, (rank, of_gpu)
    assert abs(sum(kernel["share_frac"]["value"] for kernel in gpu["kernels"]) - 1) < 1e-9
    assert gpu["nccl"][0]["is_matched"] and gpu["nccl_told"]["plugin"] == 48, gpu["nccl"]
    assert {(source["name"], source["status"]) for source in gpu["sources"]} == {
        ("cupti", "active"), ("nccl_plugin", "active"), ("nccl", "absent")}, gpu["sources"]
    counted = gpu["counters"]
    assert [one["rank"] for one in counted] == [0, None] and counted[0]["held"]["sw_thermal_frac"]["value"] == 0.5, counted
    assert counted[0]["pcie_tx_bytes_per_s"]["value"] is None, counted
    rows = list(csv.DictReader(io.StringIO(lapwing("tui", "--dump", "timeline", "--size", "200x40", "--keys", f"v a :write <Space> {folder}/k.csv <Enter>", path) and
                                           open(os.path.join(folder, "k.csv")).read())))
    assert {row["kind"] for row in rows} == {"compute", "communication", "copy"} and len(rows) == 144, len(rows)
    info = validated("info", path)["runs"][0]
    assert info["gpus"][0]["name"] == "NVIDIA H200" and info["gpus"][0]["pci"] == "0000:3b:00.0" and info["rows"]["kernel"] == 120, info["gpus"]


def test_findings(folder):
    """What a finding is worth, and where its longest place is, are figures."""
    path = written("gpu", folder)
    found = {one["id"]: one for one in validated("advise", path)["findings"] if not one["is_minor"]}
    worth = [one["at_most_frac"]["value"] for one in found.values() if one["at_most_frac"]]
    assert len(worth) >= 2 and worth == sorted(worth, reverse=True), worth
    sync = found["gpu.sync"]
    assert sync["at_most_frac"]["how"] == "assumed" and 0.1 < sync["at_most_frac"]["value"] < 0.2, sync
    assert sync["rank"] == 1 and sync["step"] > 0 and sync["step_mark"] is None and sync["length_ns"] == 6000000, sync
    assert found["horovod.fusion_cycle"]["at_most_frac"] is None and found["horovod.fusion_cycle"]["at_ns"] is None
    # the time is that of the ruler: there the host waits
    screen = lapwing("tui", "--dump", "timeline", "--size", "120x40", "--keys", f":rank <Space> 1 <Enter> 2 v :at <Space> {sync['at_ns'] / 1e6:.6f} <Enter> .", path)
    assert f"into step {sync['step']})" in screen, screen
    rows = list(csv.DictReader(io.StringIO(lapwing("tui", "--dump", "advice", "--size", "200x40", "--keys", f":write <Space> {folder}/a.csv <Enter>", path) and
                                           open(os.path.join(folder, "a.csv")).read())))
    assert any(row["step shorter by"].startswith("<= ") and row["sure"] == "at most" for row in rows), rows


def test_no_kernels(folder):
    report = validated("report", written("nccl_only", folder))
    gpu = report["gpu"]
    assert not gpu["is_time_source"] and not gpu["ranks"] and gpu["nccl"][0]["n_timed"] == 0, gpu
    assert gpu["nccl"][0]["busbw_bytes_per_s"]["value"] is None
    assert any(diag["kind"] == "not known" and diag["text"].startswith("gpu.nccl.busbw") for diag in report["diag"]), report["diag"]
    assert gpu["sources"][0]["status"] == "refused" and "nsys" in gpu["sources"][0]["detail"], gpu["sources"]


def test_no_gpu(folder):
    path = written("slow_rank", folder)
    assert validated("report", path)["gpu"] is None and validated("info", path)["runs"][0]["gpus"] == []


def main():
    with tempfile.TemporaryDirectory() as folder:
        for test in (test_kernels, test_findings, test_no_kernels, test_no_gpu):
            test(folder)
            print(f"ok  {test.__name__}")


if __name__ == "__main__":
    main()
