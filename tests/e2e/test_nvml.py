#!/usr/bin/env python3
"""GPU counters of a recorded run, over a double of libnvidia-ml: in the file, said once when they are missing."""
import contextlib
import os
import sqlite3
import subprocess
import tempfile

BUILD = os.environ["LAPWING_BUILD_DIR"]
LAPWING, MARKS = os.path.join(BUILD, "bin", "lapwing"), os.path.join(BUILD, "tests", "mark_cases")


def record(fake):
    """Records a job of a second under a double that is @fake; None: no library. Return: rows by question."""
    questions = {
        "gpus": "SELECT name, number, on_name, driver, gone_ns IS NULL FROM device WHERE kind = 'gpu' ORDER BY number",
        "counters": "SELECT d.number, c.name, min(x.value), max(x.value), count(*) FROM counter_sample x"
                    " JOIN device d ON d.id = x.device_id JOIN counter c ON c.id = x.counter_id WHERE d.kind = 'gpu' GROUP BY 1, 2",
        "losses": "SELECT detail, n FROM loss WHERE detail LIKE '%GPU%' OR detail LIKE '%NVML%'",
        "sampler": "SELECT n_samples, n_failed FROM sampler WHERE name = 'nvml'"}
    env = {key: value for key, value in os.environ.items() if key != "FAKE_NVML"}
    if fake is not None:
        env |= {"FAKE_NVML": fake, "LD_LIBRARY_PATH": os.path.join(BUILD, "tests", "nvml")}
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        done = subprocess.run([LAPWING, "record", "-q", "--no-analyze", "-s", "20", "-o", run, "--", "sh", "-c", f"{MARKS}; sleep 1"],
                              env=env, capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout == "done\n", (done.returncode, done.stdout, done.stderr)
        with contextlib.closing(sqlite3.connect(run)) as db:
            return {name: db.execute(sql).fetchall() for name, sql in questions.items()}


def two_gpus_are_sampled():
    found = record("gpus=2")
    assert found["gpus"] == [("Fake GPU", 0, "0000:3b:00.0", "nvidia", 1), ("Fake GPU", 1, "0000:3c:00.0", "nvidia", 1)], found["gpus"]
    assert not found["losses"], found["losses"]
    (n_samples, n_failed), = found["sampler"]
    assert n_samples >= 6 and n_failed == 0, found["sampler"]
    for gpu in 0, 1:
        of = {name: (low, high, n) for number, name, low, high, n in found["counters"] if number == gpu}
        looks = of["nvlink_tx_bytes"][2]
        assert looks >= 5 and of["nvlink_tx_bytes"][1] - of["nvlink_tx_bytes"][0] == (looks - 1) << 20, (looks, of)
        assert of["pcie_rx_bytes"][1] - of["pcie_rx_bytes"][0] == (looks - 1) * 8192, of
        assert of["sm_clock_khz"][:2] == (1200000, 1980000) and of["gpu_busy_ppm"][:2] == (400000, 900000), of
        assert 10**8 < of["clocks_sw_power_ns"][1] < 2 * 10**9 and of["clocks_hw_thermal_ns"][1] == 0, of


def a_lost_gpu_ends_in_the_middle():
    found = record("gpus=2,lost=1")
    assert [gpu[4] for gpu in found["gpus"]] == [1, 0], found["gpus"]
    assert found["losses"] == [("GPU 0000:3c:00.0 is not sampled any more: GPU is lost", 1)], found["losses"]


def what_does_not_work_is_said_once():
    assert record("init=9")["losses"] == [("GPUs are not sampled: NVML: Driver Not Loaded", 1)]
    hanging = record("gpus=1,hang=20")  # the run ends in time all the same
    assert not hanging["gpus"] and not hanging["losses"], hanging


def a_host_without_nvidia_misses_nothing():
    if os.path.exists("/dev/nvidiactl"):
        return
    assert not record(None)["losses"]


if __name__ == "__main__":
    two_gpus_are_sampled()
    a_lost_gpu_ends_in_the_middle()
    what_does_not_work_is_said_once()
    a_host_without_nvidia_misses_nothing()
