#!/bin/sh
# Runs on a card's OpenCL what make opencl runs on PoCL, and measures: the op bench,
# the fixtures, MiniLM's shape against the card's f32 rate, decoding in SmolLM2's
# shape, and the studies of tiles and transfers. No Go, Python or model is needed.
#
#     scripts/opencl_card.sh BIN [OUT]
#
# BIN is what make opencl-card-build wrote; it is run from the repository's root, since
# fixtures are read from there. Reports and logs go to OUT. The parts are in the order of
# their importance, for machines that are lent for a short time: HOTPATH_CARD_STUDIES is
# how long each study measures. HOTPATH_CARD_ROUNDS=1 is a short run that shows that all
# of it works. It exits with 1 where a part failed.
bin=$(cd "${1:?usage: scripts/opencl_card.sh BIN [OUT]}" && pwd) || exit 2
out=${2:-opencl-card}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
rounds=${HOTPATH_CARD_ROUNDS:-30} studies=${HOTPATH_CARD_STUDIES:-30s}
quick= texts=256x128
[ "$rounds" -gt 1 ] || quick=--quick texts=2x16
failed=

# part NAME SECONDS FOLDER COMMAND... keeps what the command says and goes on.
part() {
  name=$1 seconds=$2 folder=$3
  shift 3
  echo "== $name"
  if (cd "$folder" && timeout "$seconds" "$@") >"$out/$name.log" 2>&1; then
    tail -n 12 "$out/$name.log"
  else
    echo "failed with $?; the last lines of $out/$name.log:"
    tail -n 40 "$out/$name.log"
    failed="$failed $name"
  fi
}

part info 30 . "$bin/hotpath" info
grep -h 'opencl:' "$out/info.log" # every part takes opencl:0
part ops 120 internal/optest "$bin/optest.test" -test.run '^TestOpenCL$'
part fixtures 120 internal/model "$bin/model.test" -test.run 'OnDevices/OpenCL'
part minilm 30 . "$bin/gpubench" -device opencl -precision f32 -shape minilm -rounds "$rounds" -work "embed $texts"
part smollm2 30 . "$bin/gpubench" -device opencl -precision f32 -shape smollm2 -rounds "$rounds" -work "decode 1"
part backend 120 internal/backend/opencl "$bin/opencl.test" -test.v
part transfers 60 . "$bin/hotpath" study transfers $quick --time "$studies" -o "$out/transfers"
part tiles 120 . "$bin/hotpath" study tiles $quick --time "$studies" -o "$out/tiles"
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
echo "all parts passed; reports are in $out"
