#!/usr/bin/env bash
# The formatter's word is final: `make format` mends what this finds.
cd "$(dirname "$0")/../.." || exit 1
git ls-files '*.c' '*.h' | xargs clang-format --dry-run -Werror
