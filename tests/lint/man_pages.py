#!/usr/bin/env python3
"""An installed tree has a manual page for every verb with every option of its --help, that man shows without a complaint."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BUILD = os.environ["LAPWING_BUILD_DIR"]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "MANWIDTH": "200", "LC_ALL": "C.UTF-8"}).stdout


def main():
    bad = []
    with tempfile.TemporaryDirectory(prefix="lapwing-install-") as prefix:
        output("cmake", "--install", BUILD, "--prefix", prefix)
        lapwing = os.path.join(prefix, "bin", "lapwing")
        output(lapwing, "record", "-q", "-o", os.path.join(prefix, "run.lapwing"), "--", "true")
        verbs = re.findall(r"^  ([a-z]+) ", output(lapwing, "--help"), re.M)
        folder = pathlib.Path(prefix, "share", "man", "man1")
        pages = {page.name for page in folder.iterdir()}
        wanted = {"lapwing.1", *(f"lapwing-{verb}.1" for verb in verbs)}
        bad += [f"{name}: there is no such page" for name in wanted - pages]
        bad += [f"{name}: of no verb" for name in pages - wanted]
        for verb in verbs:
            if f"lapwing-{verb}.1" not in pages:
                continue
            text = (folder / f"lapwing-{verb}.1").read_text().replace(r"\-", "-")
            options = re.findall(r"^ +(?:-\S, )?(--[a-z-]+)", output(lapwing, verb, "--help"), re.M)
            bad += [f"lapwing-{verb}.1: nothing about {option}" for option in options if option not in text]
            assert len(options) >= 2, (verb, options)
        for name in sorted(pages):
            if not shutil.which("man"):
                break
            done = subprocess.run(["man", "--warnings", "-l", str(folder / name)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            bad += [f"{name}: {line}" for line in done.stderr.splitlines()]
    print("\n".join(bad))
    print(f"manual pages: {len(bad)} faults")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
