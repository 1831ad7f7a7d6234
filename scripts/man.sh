#!/usr/bin/env bash
# man.sh - manual pages of lapwing and of each of its verbs, made of what their --help prints.
#
#   scripts/man.sh LAPWING FOLDER     writes FOLDER/lapwing.1, FOLDER/lapwing-record.1, ..
set -euo pipefail
lapwing=$1 folder=$2
extra=$(mktemp)
trap 'rm -f "$extra"' EXIT
mkdir -p "$folder"
verbs=$("$lapwing" --help | sed -n 's/^  \([a-z][a-z]*\)  *\(.*\)/\1 \2/p')

# The name of a page, and the pages beside it.
page() { # NAME SUMMARY COMMAND SEE
  printf '[NAME]\n%s \\- %s\n\n[SEE ALSO]\n%s\n' "$1" "$2" "$4" >"$extra"
  help2man --no-info --include "$extra" --version-string "$("$lapwing" --version | cut -d' ' -f2)" "$3" |
    sed "/^\.TH/s/^\.TH [^ ]*/.TH ${1^^}/" >"$folder/$1.1.new"
  mv "$folder/$1.1.new" "$folder/$1.1"
}

while read -r verb summary; do
  page "lapwing-$verb" "$summary" "$lapwing $verb" ".BR lapwing (1)"
done <<<"$verbs"
page lapwing "says where the step time of a data-parallel training job goes" "$lapwing" \
  "$(sed 's/ .*//; s/.*/.BR lapwing-& (1),/; $s/,$//' <<<"$verbs")"
