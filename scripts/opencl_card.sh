#!/bin/sh
# Runs on a card's OpenCL what make opencl runs on PoCL, and measures: all of it in one
# command and in less than six minutes. Neither Go, Python nor a network is needed.
#
#     scripts/opencl_card.sh BIN RESULTS.tar.gz [part...]
#
# BIN is the folder that make opencl-card-build wrote, or its archive from make
# opencl-card-pack. Fixtures are read from the repository of this script. Real models
# are read from $HOTPATH_MODELS or .cache/models; without them only the models inside the
# program are compared. RESULTS has a log per part, the studies' reports and
# figures.jsonl. It is written after each part, so an end at any time loses one part.
#
# | part | what |
# |---|---|
# | info | platforms and devices |
# | minilm | 256 texts of 128 tokens in MiniLM's shape, as a share of the card's f32 rate |
# | decode | tokens per second and launches per token in SmolLM2's shape; codes: on integers |
# | tiles, transfers | the studies, with pictures |
# | real | MiniLM, SmolLM2 and the models inside against their references and the CPU |
# | ops, fixtures | the op bench and every architecture, by several processes: a driver may compile one program per process at a time |
# | backend | the tests of internal/backend/opencl |
#
# Parts have time limits of their own, and HOTPATH_CARD_TIME is the limit of all, in
# seconds. HOTPATH_CARD_QUICK=1 takes small sizes, which shows on PoCL that all of it
# works. The exit status is 1 if a part failed.
set -u
usage="usage: scripts/opencl_card.sh BIN RESULTS.tar.gz [part...]"
bin=${1:?$usage} results=${2:?$usage}
shift 2
parts=${*:-info minilm decode codes tiles transfers real ops fixtures backend}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
out=$work/opencl-card
mkdir -p "$out" "$(dirname "$results")" || exit 2
results=$(cd "$(dirname "$results")" && pwd)/$(basename "$results")
if [ -f "$bin" ]; then
  mkdir "$work/bin" || exit 2
  tar -xf "$bin" -C "$work/bin" || python3 -m tarfile -e "$bin" "$work/bin" || exit 2 # a machine may have no xz
  bin=$work/bin
fi
bin=$(cd "$bin" && pwd) && cd "$(dirname "$0")/.." || exit 2

rounds=30 texts=256x128 study="--time 8s" quick=${HOTPATH_CARD_QUICK:-}
[ -z "$quick" ] || { rounds=1 texts=2x16 study="--quick --time 1s"; }
most=$(nproc) processes=1 of=1
[ "$most" -lt 8 ] || most=8
began=$(date +%s) limit=${HOTPATH_CARD_TIME:-345}
failed=

# report NAME STATUS SECONDS keeps the figures of a part, and writes the results so far.
report() {
  log=$out/$1.log
  printf '{"part":"%s","status":%d,"seconds":%d,"passed":%d,"failed":%d,"skipped":%d}\n' "$1" "$2" "$3" \
    "$(grep -c -- '--- PASS' "$log")" "$(grep -c -- '--- FAIL' "$log")" "$(grep -c -- '--- SKIP' "$log")" >>"$out/figures.jsonl"
  grep -h '^{' "$log" >>"$out/figures.jsonl"
  if [ "$2" = 0 ]; then
    echo "== $1: $3 s"
    grep -v -e '^=== ' -e '--- PASS' "$log" | tail -n 12
  else
    echo "== $1 failed with $2 after $3 s"
    grep -v -e '^=== ' -e '--- PASS' "$log" | tail -n 40
    failed="$failed $1"
  fi
  tar -czf "$results.new" -C "$work" opencl-card && mv "$results.new" "$results"
}

# within SECONDS COMMAND... ends a command after its time, or when that of all has passed.
within() {
  left=$((limit - $(date +%s) + began))
  [ "$left" -gt 0 ] || { echo "no time was left"; return 124; }
  [ "$left" -lt "$1" ] || left=$1
  shift
  timeout -k 5 "$left" "$@"
}

# part NAME SECONDS FOLDER COMMAND... keeps what a command says and goes on. With several
# processes each has its part of the cases.
part() {
  name=$1 seconds=$2 folder=$3
  shift 3
  start=$(date +%s) status=0 running= i=0
  while [ $((i += 1)) -le "$processes" ]; do
    (cd "$folder" && HOTPATH_TEST_PART=$i/$of within "$seconds" "$@") >"$out/$name.log.$i" 2>&1 &
    running="$running $!"
  done
  for pid in $running; do
    wait "$pid" || status=$?
  done
  cat "$out/$name".log.* >"$out/$name.log"
  rm "$out/$name".log.*
  report "$name" "$status" $(($(date +%s) - start))
}

# cases is part by several processes. A quick run has a few of 64 parts.
cases() {
  processes=$most of=${quick:+64}
  of=${of:-$most}
  part "$@"
  processes=1 of=1
}

: >"$out/figures.jsonl"
for p in $parts; do
  case $p in
  info) part info 15 . env HOTPATH_CALIBRATION=off "$bin/hotpath" info ;;
  minilm) part minilm 40 . "$bin/gpubench" -device opencl -precision f32 -shape minilm -rounds "$rounds" -profile "$out/minilm" -work "embed $texts" ;;
  decode) part decode 45 . "$bin/gpubench" -device opencl -precision f32 -shape smollm2 -rounds "$rounds" -profile "$out/decode" -work "decode 1" ;;
  codes) part codes 30 . "$bin/gpubench" -device opencl -precision bf16 -shape smollm2 -rounds "$rounds" -work "decode 1" ;;
  tiles) part tiles 45 . "$bin/hotpath" study tiles $study -o "$out/tiles" ;;
  transfers) part transfers 25 . "$bin/hotpath" study transfers $study -o "$out/transfers" ;;
  real) part real 60 opencl "$bin/real.test" -test.v -test.run 'OpenCL(ModelsInside|MiniLM|SmolLM2|Generates|Trains)' ;;
  ops) cases ops 100 internal/optest env GOMAXPROCS=2 "$bin/ops.test" -test.v -test.run '^TestOpenCL$' ;;
  fixtures) cases fixtures 60 internal/model env GOMAXPROCS=2 "$bin/fixtures.test" -test.v -test.run 'OnDevices/OpenCL' ;;
  backend) part backend 25 internal/backend/opencl "$bin/backend.test" -test.v ;;
  *)
    echo "no part $p, expected info, minilm, decode, codes, tiles, transfers, real, ops, fixtures or backend"
    failed="$failed $p"
    ;;
  esac
done
echo "results: $results"
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
