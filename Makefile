# A thin front for the CMake presets: see CMakePresets.json. `make demo` and `make check` are the two to know.
.PHONY: all demo check check-versions rig rig-cpu rig-net gpu bench screens sanitize format clean setup
export LAPWING_PYTHON ?= $(CURDIR)/.venv/bin/python3

all: build/build.ninja
	cmake --build --preset release

build/build.ninja: CMakePresets.json
	cmake --preset release >/dev/null

setup:
	scripts/setup.sh all

demo: setup all
	scripts/demo.sh

check: setup
	scripts/check.sh

check-versions: setup all
	tests/e2e/check_versions.sh

rig: setup all
	tests/rig/measure.py
	tests/rig/judge.py; judged=$$?; tests/rig/ddp_truth.py --results docs/results/ddp.md && exit $$judged

rig-cpu: setup all
	tests/rig/cpu.py

rig-net: setup all
	tests/rig/net_truth.py --results docs/results/network.md

# What only a GPU can say; says so where there is none.
gpu: setup all
	tests/gpu/cupti_truth.py

bench: setup all
	scripts/bench.sh docs/results/bench.md

screens: demo
	scripts/screens.sh build/demo.lapwing docs/screens
	scripts/screens_live.sh docs/screens

sanitize: setup
	cmake --workflow --preset asan
	cmake --workflow --preset tsan

format:
	git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	rm -rf build build-dev build-asan build-tsan build-fuzz
