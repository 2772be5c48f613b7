#!/usr/bin/env bash
# build.sh HOTPATH TEACHER [STAGE...]   trains both default models, from the root of a checkout, of what
# fetch.sh and texts.py put into .cache/default-models. TEACHER is all-MiniLM-L6-v2. Stages, all by
# default: tokens vectors distill pairs sts embedder generate lengthen generator. EMBED and TRAIN are flags of
# those commands (--device cuda), SET and GSET replace fields of the configurations of distill and
# generate (--set steps=100). PYTHON has numpy.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: build.sh HOTPATH TEACHER [STAGE...]" >&2; exit 2; }
hotpath=$1 teacher=$2
shift 2
[ $# -gt 0 ] || set -- tokens vectors distill pairs sts embedder generate lengthen generator
here=$(cd "$(dirname "$0")" && pwd)
out=.cache/default-models configs=examples/configs
python=${PYTHON:-python3}

newest() { ls -d "$1"/step-* | sort | tail -1; }
best() { echo "$1/$("$python" -c 'import json,sys; print(json.load(open(sys.argv[1]))["checkpoint"])' "$1/best.json")"; }
model() { rm -rf "$2"; mkdir -p "$2"; cp "$1"/*.json "$1/model.safetensors" "$2/"; rm -f "$2/train.json"; }

tokens() {
  "$hotpath" tokenizer train "$out/texts.jsonl" -o "$out/tokenizer-embedder" --type wordpiece --vocab-size 10240 --limit-alphabet 200
  "$hotpath" tokenizer train "$out/novels" -o "$out/tokenizer-generator" --type bpe --vocab-size 4096
}

# The teacher's vectors, on their 256 principal axes, and a token table of such vectors to start from.
vectors() {
  "$hotpath" embed -m "$teacher" ${EMBED:-} -f "$out/texts.jsonl" --format npy -o "$out/teacher.npy"
  "$python" "$here/vectors.py" project "$out/teacher.npy" "$out/vectors.npy" "$out/basis.npy"
  "$python" "$here/vectors.py" tokens "$out/tokenizer-embedder" "$out/tokens.jsonl"
  "$hotpath" embed -m "$teacher" -f "$out/tokens.jsonl" --format npy -o "$out/words.npy"
  head -n 2000 "$out/texts.jsonl" > "$out/few.jsonl"
  "$python" "$here/vectors.py" head "$out/vectors.npy" "$out/few.npy" 2000
  rm -rf "$out/random"
  "$hotpath" train $configs/embedder-distill.json --set steps=1 --set warmup=0 --set lr=1e-9 --set min_lr=0 \
    --set validation.every=0 --set validation.share=0 --set data="$out/few.jsonl" --set objective.vectors="$out/few.npy" -o "$out/random"
  model "$(newest "$out/random")" "$out/start"
  "$python" "$here/vectors.py" start "$out/start" "$out/words.npy" "$out/basis.npy"
}

distill() {
  "$hotpath" train $configs/embedder-distill.json --set model="$out/start" ${TRAIN:-} ${SET:-} --plot --resume auto
  model "$(newest "$out/distill")" "$out/distilled"
}

pairs() {
  rm -rf "$out/pairs"
  "$hotpath" train $configs/embedder-pairs.json ${TRAIN:-} --plot
  model "$(newest "$out/pairs")" "$out/paired"
}

sts() {
  rm -rf "$out/sts"
  "$hotpath" train $configs/embedder-sts.json ${TRAIN:-} --plot
  model "$(best "$out/sts")" "$out/hotpath-embedder"
}

embedder() {
  "$hotpath" convert "$out/hotpath-embedder" -o "$out/embedder-f32.gguf" --type F32
  "$hotpath" quantize "$out/embedder-f32.gguf" "$out/hotpath-embedder.gguf" Q8_0 --embedding-type Q6_K
}

generate() {
  "$hotpath" train $configs/generator.json ${GTRAIN:-${TRAIN:-}} ${GSET:-} --plot --resume auto
  model "$(newest "$out/generator")" "$out/generated"
}

# Windows of the whole context: positions that the first stage never saw.
lengthen() {
  "$hotpath" train $configs/generator-long.json ${GTRAIN:-${TRAIN:-}} --plot --resume auto
  model "$(newest "$out/generator-long")" "$out/hotpath-generator"
}

generator() {
  "$hotpath" convert "$out/hotpath-generator" -o "$out/generator-f32.gguf" --type F32
  "$hotpath" quantize "$out/generator-f32.gguf" "$out/hotpath-generator.gguf" Q4_K_M --embedding-type Q5_K
}

for stage; do
  echo "== $stage"
  "$stage"
done
