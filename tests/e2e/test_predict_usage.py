#!/usr/bin/env python3
"""`lapwing predict`: a setting that cannot be asked for is a usage error that says what can, whatever the run."""
import os
import subprocess

LAPWING = os.path.join(os.environ["LAPWING_BUILD_DIR"], "bin", "lapwing")
CYCLE, MIB, FRAC = "from 0.001 to 1000000", "from 1e-06 to 1048576", "from 1e-06 to 1000000"
WRONG = {
    "--cycle-ms": (CYCLE, ["1e305", "1e13", "inf", "nan", "0", "-1", "5ms", "", "1e-300"]),
    "--ranks": ("whole number from 1 to 65536", ["2.7", "1e9", "65537", "0", "-2", "4294967297", "99999999999999999999", ""]),
    "--bucket-cap-mb": (MIB, ["1e30", "1e300", "inf", "0", "1e-30", "25MB"]),
    "--first-bucket-mb": (MIB, ["1e30", "nan", "0"]),
    "--bandwidth-frac": (FRAC, ["1e300", "1e-300", "inf", "0", "-1", "x"]),
    "--latency-frac": (FRAC, ["1e300", "0"]),
    "--compute-frac": (FRAC, ["1e300", "0"]),
    "--num-groups": ("whole number from 1 to 1000000", ["1.5", "1e3", "1000001"]),
    "--backward-passes": ("whole number from 1 to 1000", ["2.0", "1001"]),
    "--plot": ("end in .svg", ["x.png", "/tmp/a.b/grid.PDF", "grid.svg.txt", "x."]),
    "--fusion-bytes": ("--fusion-bytes", ["1e16", "1048577GiB", "-1", "nan", "x"]),
}
GOOD = [("--cycle-ms", "1000000"), ("--cycle-ms", "0.001"), ("--ranks", "65536"), ("--bucket-cap-mb", "1048576"),
        ("--fusion-bytes", "0"), ("--fusion-bytes", "1048576GiB"), ("--bandwidth-frac", "1e-6"), ("--compute-frac", "1e6")]


def predict(*arguments):
    return subprocess.run([LAPWING, "predict", *arguments, "/nowhere.lapwing"], capture_output=True, text=True, timeout=60)


def main():
    n = 0
    for option, (told, values) in WRONG.items():
        for value in values:
            done = predict(f"{option}={value}")
            assert done.returncode == 2 and told in done.stderr and option in done.stderr, (option, value, done)
            assert done.stdout == "", done
            n += 1
    for option, value in GOOD:
        done = predict(f"{option}={value}")
        assert done.returncode == 1 and "/nowhere.lapwing" in done.stderr, (option, value, done)
    for name in ("x.svg", "x.SVG", "./figures.d/grid", "-"):
        done = predict("--grid", f"--plot={name}")
        assert done.returncode == 1 and "/nowhere.lapwing" in done.stderr, (name, done)
    done = subprocess.run([LAPWING, "report", "--rank=4294967297", "/nowhere.lapwing"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "not a rank" in done.stderr, done
    print(f"{n} settings refused, {len(GOOD)} at their limits taken")


main()
