#!/bin/sh
# Runs on a machine with an NVIDIA card what no other machine can: the ops and the
# fixtures on CUDA, then every figure of docs/gpu.md, in less than ten minutes. Nothing
# is built there: make card builds the programs into bin/card before. Python with
# torch, transformers, safetensors and tokenizers makes the models' directories.
#
#   scripts/card.sh OUT [part...]
#
# OUT gets results.jsonl, a line per figure, and the logs. Parts: test figures codes
# soak peers; without any, all but peers. A part that fails does not end the others;
# the exit status says whether all held.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
bin=$root/bin/card
[ $# -ge 1 ] || { echo "usage: scripts/card.sh OUT [test figures codes soak peers]" >&2; exit 2; }
mkdir -p "$1" && out=$(cd "$1" && pwd) || exit 1
shift
parts=${*:-test figures codes soak}
python=${PYTHON:-python3}
results=$out/results.jsonl
models=${CARD_MODELS:-$(mktemp -d)}
failed=0
for program in gpubench hotpath optest.test cuda.test; do
  [ -x "$bin/$program" ] || { echo "card: $bin/$program is missing: run make card where Go is" >&2; exit 1; }
done

note() { echo "card: $(date +%H:%M:%S) $*"; }
# limited SECONDS NAME COMMAND...: its log is OUT/NAME.log.
limited() {
  seconds=$1 name=$2
  shift 2
  if timeout "$seconds" "$@" >"$out/$name.log" 2>&1; then
    printf '{"part":"%s","ok":true}\n' "$name" >>"$results"
  else
    status=$?
    printf '{"part":"%s","ok":false,"status":%d}\n' "$name" "$status" >>"$results"
    note "$name failed with status $status:"
    tail -n 15 "$out/$name.log"
    failed=1
  fi
}
# figure MODEL WORK [FLAGS...]: a line of results, with the model and the flags.
figure() {
  model=$1 work=$2
  shift 2
  path=$models/$model
  [ "$model" = - ] && set -- "$@" || set -- -m "$path" "$@"
  timeout 120 "$bin/gpubench" -time 1500ms "$@" -work "$work" >"$out/last.out" 2>>"$out/figures.err"
  status=$?
  case " $* " in *" -old-codes "*) flags=old ;; *) flags= ;; esac
  grep '"work"' "$out/last.out" | sed "s|^{|{\"model\":\"$model\",\"flags\":\"$flags\",|" | tee -a "$results"
  if [ $status -ne 0 ]; then
    printf '{"model":"%s","work":"%s","ok":false,"status":%d}\n' "$model" "$work" "$status" | tee -a "$results"
    tail -n 1 "$out/figures.err"
    failed=1
  fi
}
# write NAME: the directory of a model, once.
write() { [ -e "$models/$1/config.json" ] || limited 90 "write-$1" "$python" "$root/scripts/peers_gpu.py" --write "$models" --only "$1"; }
# coded NAME TYPE: the model as GGUF in a type, once.
coded() {
  write "$1"
  [ -e "$models/$1-$2.gguf" ] || limited 90 "convert-$1-$2" "$bin/hotpath" convert "$models/$1" -o "$models/$1-$2.gguf" --type "$2"
}

for part in $parts; do
  note "$part"
  case $part in
  test)
    (cd "$root/internal/optest" && limited 150 ops "$bin/optest.test" -test.run CUDA -test.v; exit $failed) || failed=1
    grep -q '^ *--- PASS.*CUDA' "$out/ops.log" || { note "no op ran on the card"; failed=1; }
    (cd "$root/cuda" && limited 150 fixtures "$bin/cuda.test" -test.run 'CUDA(Models|Training)' -test.v; exit $failed) || failed=1
    ;;
  figures)
    write minilm
    for work in "embed 1x16" "embed 32x128" "embed 1024x128"; do figure minilm "$work"; done
    write llama1b
    for work in "decode 1" "decode 8" "decode 64" "prefill 4096"; do figure llama1b "$work"; done
    write embeddinggemma
    for work in "embed 1x16" "embed 32x20" "embed 256x128"; do figure embeddinggemma "$work"; done
    write gpt2
    figure gpt2 "train 32x1024"
    for work in "gemm 512x2048x2048" "gemm 512x8192x2048" "gemm 4096x8192x2048" "gemm 32768x1536x384"; do figure - "$work"; done
    ;;
  codes) # old and new kernels alternately
    for of in llama1b:Q8_0 llama1b:Q4_0 smollm2:Q4_1; do
      coded "${of%:*}" "${of#*:}"
      for round in 1 2; do
        figure "${of%:*}-${of#*:}.gguf" "decode 1"
        figure "${of%:*}-${of#*:}.gguf" "decode 1" -old-codes
      done
    done
    ;;
  soak)
    write minilm
    figure minilm "soak 2000"
    write smollm2
    figure smollm2 "soak 150"
    ;;
  peers) # the page's section, to be copied
    printf '<!-- peers:gpu -->\n<!-- /peers:gpu -->\n' >"$out/performance.md"
    limited 580 peers "$python" "$root/scripts/peers_gpu.py" "$bin/gpubench" --compile --limit 560 --json "$results" --docs "$out/performance.md"
    ;;
  *)
    note "no part $part, expected test, figures, codes, soak or peers"
    failed=1
    ;;
  esac
done
[ -n "${CARD_MODELS:-}" ] || rm -rf "$models"
note "done: $results"
exit $failed
