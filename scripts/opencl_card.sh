#!/bin/sh
# Runs on a card's OpenCL what make opencl runs on PoCL, and measures, in about five
# minutes: the card's f32 rate, MiniLM's shape against it, decoding in SmolLM2's shape
# with its launches per token, the studies of tiles and transfers, then the ops and the
# fixtures. No Go, Python or model is needed: models are made with random weights.
#
#     scripts/opencl_card.sh BIN [OUT]
#
# BIN is what make opencl-card-build wrote; it is run from the repository's root, since
# fixtures are read from there. Reports and logs go to OUT, the figures to OUT/figures.jsonl.
# The parts are in the order of their importance and each has a time limit, for machines
# that are lent for a short time: HOTPATH_CARD_STUDIES is how long each study measures.
# HOTPATH_CARD_ROUNDS=1 is a short run that shows that all of it works. HOTPATH_CARD_PARTS
# names the parts to run. It exits with 1 where a part failed.
bin=$(cd "${1:?usage: scripts/opencl_card.sh BIN [OUT]}" && pwd) || exit 2
out=${2:-opencl-card}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
rounds=${HOTPATH_CARD_ROUNDS:-30} studies=${HOTPATH_CARD_STUDIES:-8s}
quick= texts=256x128
[ "$rounds" -gt 1 ] || quick=--quick texts=2x16
failed=
: >"$out/figures.jsonl"

# part NAME SECONDS FOLDER COMMAND... keeps what the command says and goes on.
part() {
  name=$1 seconds=$2 folder=$3
  shift 3
  case " ${HOTPATH_CARD_PARTS:-$name} " in *" $name "*) ;; *) return ;; esac
  began=$(date +%s)
  if (cd "$folder" && timeout "$seconds" "$@") >"$out/$name.log" 2>&1; then
    echo "== $name: $(($(date +%s) - began)) s"
    tail -n 12 "$out/$name.log"
  else
    echo "== $name failed with $? after $(($(date +%s) - began)) s; the last lines of $out/$name.log:"
    tail -n 40 "$out/$name.log"
    failed="$failed $name"
  fi
  grep -h '^{' "$out/$name.log" >>"$out/figures.jsonl"
}

part info 15 . env HOTPATH_CALIBRATION=off "$bin/hotpath" info
[ ! -e "$out/info.log" ] || grep -h 'opencl:' "$out/info.log" # every part takes opencl:0
part minilm 40 . "$bin/gpubench" -device opencl -precision f32 -shape minilm -rounds "$rounds" -profile "$out/minilm" -work "embed $texts"
part smollm2 60 . "$bin/gpubench" -device opencl -precision f32 -shape smollm2 -rounds "$rounds" -profile "$out/smollm2" -work "decode 1"
part smollm2-codes 40 . "$bin/gpubench" -device opencl -precision bf16 -shape smollm2 -rounds "$rounds" -work "decode 1"
part tiles 30 . "$bin/hotpath" study tiles $quick --time "$studies" -o "$out/tiles"
part transfers 20 . "$bin/hotpath" study transfers $quick --time "$studies" -o "$out/transfers"
part backend 25 internal/backend/opencl "$bin/opencl.test" -test.v
part fixtures 40 internal/model "$bin/model.test" -test.run 'OnDevices/OpenCL'
part ops 40 internal/optest "$bin/optest.test" -test.run '^TestOpenCL$'
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
echo "all parts passed; reports are in $out"
