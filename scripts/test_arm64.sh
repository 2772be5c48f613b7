#!/usr/bin/env bash
# test_arm64.sh builds the tests of the kernels and of what stands on them for
# arm64 and runs them: under qemu-user, or as they are on an arm64 machine. They
# walk the tiers generic, neon and dotprod, each against the same references.
#
# Without qemu-aarch64 it is installed where this user may do that; where not,
# the tests are left out with a message, and with CI set that is a failure.
# Tests that are slow under emulation and the same on every architecture are
# left out; the whole takes about seven minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

find_qemu() { command -v qemu-aarch64 || command -v qemu-aarch64-static; }

qemu=""
if [ "$(uname -m)" != aarch64 ]; then
  if ! qemu=$(find_qemu) && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "arm64: installing qemu-user-static"
    { apt-get install -qq -y qemu-user-static || { apt-get update -qq && apt-get install -qq -y qemu-user-static; }; } >/dev/null 2>&1 || true
    qemu=$(find_qemu) || true
  fi
  if [ -z "$qemu" ]; then
    echo "arm64: there is no qemu-aarch64 (Debian: qemu-user-static), its tests are left out"
    [ -z "${CI:-}" ]
    exit
  fi
fi

# Workers that wait for each other in turns take minutes under emulation, which shows
# no weak order of memory either. What is cut and merged is the same everywhere.
slow=${qemu:+"|HelpersKeepBits|HelpersComeAndGo|ActiveWorkers?(DoNotChange|Keeps)Bits|KeptCuts|MergedStepsKeepBits"}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export dir qemu

# What runs: a name, the package, flags of qemu, how many subtests a filter must
# match, a flag of the tests, which may have bars in it.
cat >"$dir/list" <<LIST
optest|internal/optest||4|-test.run=TestParity/cpu-((neon|dotprod)-2-test=false|neon-bf16|dotprod-i8g32)$
gemm|internal/kernel/gemm|||-test.skip=Epoch|PanelsTogether
int8|internal/kernel/int8|||
tokenizer|internal/tokenizer|||-test.skip=EveryCodePoint|Long|Variants|Memory|TestBatch|SeenOnce|TooMany
bf16|internal/kernel/bf16|||-test.skip=TestFew$
i16|internal/kernel/i16|||
vec|internal/kernel/vec|||
ceiling|internal/kernel/ceiling|||
cpu|internal/kernel/isa|||
tensor|internal/tensor|||
backend|internal/backend/cpu|||-test.skip=CancelStopsAtAStep|LedgerCloses$slow
cpu-old|internal/kernel/isa|-cpu cortex-a53||
int8-old|internal/kernel/int8|-cpu cortex-a53|1|-test.run=NotFinite|Agree
LIST

while IFS='|' read -r _ pkg _; do echo "$pkg"; done <"$dir/list" | sort -u | while read -r pkg; do
  GOARCH=arm64 GOOS=linux CGO_ENABLED=0 "$go" test -tags nogpu -c -o "$dir/$(tr / _ <<<"$pkg").test" "./$pkg"
done

one() {
  IFS='|' read -r name pkg emulator least flags <<<"$1"
  bin="$dir/$(tr / _ <<<"$pkg").test"
  start=$SECONDS
  [ -z "$qemu" ] && emulator=""
  # A filter that matches no subtest any more would pass for ever.
  if (cd "$pkg" && ${qemu:+"$qemu"} $emulator "$bin" -test.short -test.v ${flags:+"$flags"}) >"$dir/$name.log" 2>&1 &&
    [ "$(grep -c '^    --- PASS' "$dir/$name.log")" -ge "${least:-0}" ]; then
    echo "arm64: ok    $name ($((SECONDS - start)) s)"
  else
    echo "arm64: FAIL  $name"
    grep -v '^=== ' "$dir/$name.log" | tail -n 40
    return 1
  fi
}
export -f one
xargs -d '\n' -P "$(getconf _NPROCESSORS_ONLN)" -I{} bash -c 'one "$1"' _ {} <"$dir/list"
