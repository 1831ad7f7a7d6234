#!/usr/bin/env python3
"""A recording of one process without a rank: what was marked is told, what is not known is said, and nothing more."""
import contextlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile

import jsonschema

BUILD, SOURCE = os.environ["LAPWING_BUILD_DIR"], os.environ["LAPWING_SOURCE_DIR"]
LAPWING = os.path.join(BUILD, "bin", "lapwing")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}

STEPS = """
#include <unistd.h>
#include "lapwing_mark.h"
int main(void)
{
	for (int i = 0; i < 5; i++) {
		lapwing_mark_step(i);
		lapwing_range_push("load");
		usleep(60000);
		lapwing_range_pop();
	}
	lapwing_mark("finished");
	lapwing_range_push("never closed");
	return 0;
}
"""
CUDA = """
#include <dlfcn.h>
#include "lapwing_mark.h"
int main(int n, char **arguments)
{
	lapwing_mark_step(n);
	return !dlopen(arguments[1], RTLD_NOW);
}
"""
NOTHING = "int main(void) { return 0; }"


def build(folder, name, text, *flags):
    source, program = os.path.join(folder, name + ".c"), os.path.join(folder, name)
    with open(source, "w") as file:
        file.write(text)
    subprocess.run(["cc", "-fPIE", "-I", os.path.join(SOURCE, "tracer"), source, "-o", program, "-ldl", *flags], check=True)
    return program


def lapwing(*words, **environment):
    return subprocess.run([LAPWING, *words], capture_output=True, text=True, timeout=60, env={**ENVIRONMENT, **environment})


def record(run, *command):
    done = lapwing("record", "-o", run, "--", *command)
    assert done.returncode == 0, done
    return done.stderr


def answers(run, verb):
    schema = json.loads(lapwing(verb, "--json-schema").stdout)
    answer = json.loads(lapwing(verb, "--json", run).stdout)
    jsonschema.validate(answer, schema)
    return answer, lapwing(verb, run).stdout


def what_was_marked_is_told(folder):
    run = os.path.join(folder, "steps.lapwing")
    said = record(run, build(folder, "steps", STEPS))
    assert "1 process(es) without a rank" in said and "rank(s)" not in said, said

    info, text = answers(run, "info")
    marks = {(mark["kind"], mark["name"]): mark["n"] for mark in info["runs"][0]["marks"]}
    assert marks == {("step", None): 5, ("range", "load"): 5, ("mark", "finished"): 1}, marks
    assert "tcp_list looked" not in text, text  # once, and slowly: no news for anybody
    assert "range      load: 5 x, 3" in text and "step       5 x" in text, text

    report, text = answers(run, "report")
    assert report["marks"]["n_steps"] == 5 and 60e6 <= report["marks"]["mean_step_ns"] < 1e9, report["marks"]
    (load,) = [name for name in report["marks"]["names"] if name["name"] == "load"]
    assert load["n"] == 5 and load["total_ns"] >= 300e6 and load["longest_rank"] is None, load
    assert text.startswith("1 process without a rank"), text
    assert "From one step mark to the next" in text and "no collective operation was recorded" in " ".join(text.split()), text
    assert "Marks and ranges" in text and "load" in text and "0 ranks" not in text and "no gradient came twice" not in text, text

    # the range that was open at the end
    assert "it began, but its end was not seen" in lapwing("info", run).stdout and "open when the process ended" in " ".join(text.split()), text
    with contextlib.closing(sqlite3.connect(run)) as db:
        assert db.execute("SELECT sum(n) FROM loss WHERE reason = 16").fetchall() == [(1,)]
        assert db.execute("SELECT rank, kind, count(*) FROM v_range GROUP BY kind ORDER BY kind").fetchall() == [
            (None, "mark", 1), (None, "range", 5), (None, "step", 5)]
        # on whatever machine: looking for GPUs once is no reason to look less often
        assert db.execute("SELECT count(*) FROM sampler WHERE name = 'nvml' AND actual_period_ns > period_ns").fetchall() == [(0,)]
    assert "namespace" not in text, text


def of_ranks_that_mark_and_call_nothing_the_marks_are_all(folder):
    """Steps between marks and ranges by name: no tables of what nothing was recorded of."""
    run = os.path.join(folder, "ranks.lapwing")
    program = os.path.join(folder, "steps")
    record(run, "sh", "-c", f"RANK=0 WORLD_SIZE=2 {program} & RANK=1 WORLD_SIZE=2 {program}; wait")
    text = answers(run, "report")[1]
    assert text.startswith("2 ranks"), text
    assert "From one step mark to the next" in text and "5 marks of steps on rank 0: 4 steps lie between them" in text, text
    assert re.search(r"Quality of this run\n  8 steps between marks of all processes; ", text), text
    assert "steps counted" not in text and "all processes together" in " ".join(text.split()), text
    (load,) = [line.split() for line in text.splitlines() if line.endswith(" load")]
    assert "a step" in text and load[0] == "10" and 60 <= float(load[3]) < 200, load  # n, total, unit, a step
    for title in "Where a step goes", "Collectives and network", "Scaling:", "To change", "0 B":
        assert title not in text, text
    assert len(text.splitlines()) < 30, text


def cuda_without_a_driver_has_a_word(folder):
    runtime = build(folder, "libcudart.so.12", "int cudaSetDevice(int d) { return d; }", "-shared", "-fPIC")
    run = os.path.join(folder, "cuda.lapwing")
    record(run, build(folder, "cuda", CUDA), runtime)
    (hook,) = [hook for hook in answers(run, "info")[0]["runs"][0]["hooks"] if hook["name"] == "cupti"]
    assert hook["status"] == "absent" and runtime in hook["detail"] and "no driver" in hook["detail"], hook
    text = answers(run, "report")[1]
    assert "Who told of GPUs" in text and "CUPTI " in text and "no driver" in " ".join(text.split()), text


def nothing_recorded_says_what_would_be(folder):
    said = record(os.path.join(folder, "nothing.lapwing"), build(folder, "nothing", NOTHING))
    assert "nothing was recorded of any process" in said and "lapwing_mark_step()" in said, said


def main():
    with tempfile.TemporaryDirectory(prefix="lapwing-marked-") as folder:
        what_was_marked_is_told(folder)
        of_ranks_that_mark_and_call_nothing_the_marks_are_all(folder)
        cuda_without_a_driver_has_a_word(folder)
        nothing_recorded_says_what_would_be(folder)
    print("a process without a rank: marks, ranges, what is open, what is not known")


if __name__ == "__main__":
    sys.exit(main())
