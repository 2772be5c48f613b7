#!/usr/bin/env bash
# fuzz.sh TIME   runs every Fuzz target of the module for TIME each, one after the other.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: fuzz.sh TIME" >&2; exit 2; }
go=${GO:-go}
grep -rlE '^func Fuzz[A-Z]\w*\(' --include='*_test.go' . | xargs -r -n1 dirname | sort -u | while read -r dir; do
  grep -hoE '^func Fuzz[A-Z]\w*\(' "$dir"/*_test.go | sed -E 's/^func (\w+)\(/\1/' | while read -r name; do
    echo "fuzz $dir $name"
    "$go" test -tags nogpu -run '^$' -fuzz "^$name\$" -fuzztime "$1" "$dir" < /dev/null
  done
done
