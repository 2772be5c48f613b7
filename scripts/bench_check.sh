#!/usr/bin/env bash
# Says whether the working tree is slower than the last commit: builds both,
# measures them in turn, the first of a round changing each time, and compares.
# Exits with 1 where a case got worse by more than BENCH_LIMIT, for real.
#
#   scripts/bench_check.sh [REVISION]
#
# BENCH_FILTER, BENCH_ROUNDS, BENCH_TIME and BENCH_LIMIT choose what is measured
# and what counts. Fewer cases need fewer rounds to show a difference.
set -euo pipefail
cd "$(dirname "$0")/.."

revision=${1:-HEAD}
filter=${BENCH_FILTER:-'^(Linear/type=(F32|Q4_1)/.*/m=(1|128)/n=1536/k=384|Attention/mask=causal/heads=9/.*/batch=1/len=128|Rope/pairs=split/heads=9/.*len=128|Norm/kind=rms/size=576/rows=128|Activation/kind=silu_glu/rows=128/size=1536)-1$'}
rounds=${BENCH_ROUNDS:-10}
time=${BENCH_TIME:-20ms}
limit=${BENCH_LIMIT:-3%}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
git archive "$revision" | tar -x -C "$work/tree"

build() { # FOLDER OUT
  (cd "$1" && CGO_ENABLED=0 "${GO:-go}" build -tags nogpu -trimpath -buildvcs=false -o "$2" ./cmd/hotpath)
}
echo "bench-check: building $(git rev-parse --short "$revision") and the working tree" >&2
build "$work/tree" "$work/old.bin"
build . "$work/new.bin"

measure() { # old|new
  "$work/$1.bin" bench --count 1 --time "$time" --filter "$filter" >>"$work/$1.txt"
}
for ((i = 1; i <= rounds; i++)); do
  if ((i % 2)); then order="old new"; else order="new old"; fi
  for which in $order; do measure "$which"; done
  echo "bench-check: round $i of $rounds" >&2
done
"$work/new.bin" bench compare "$work/old.txt" "$work/new.txt" --fail-above "$limit"
