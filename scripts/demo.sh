#!/usr/bin/env bash
# demo.sh HOTPATH [MODELS]   what hotpath does: without MODELS by the models inside it, with the
# folder MODELS by two larger ones: sentences compared by meaning, a sentence finished, and where
# the time of that went.
set -euo pipefail
[ $# -eq 1 ] || [ $# -eq 2 ] || { echo "usage: demo.sh HOTPATH [MODELS]" >&2; exit 2; }
hotpath=$1 models=${2:-}
if [ -z "$models" ]; then
  echo "== The models inside: which of these is most like 'someone makes music'?"
  "$hotpath" similar "someone makes music" -f examples/texts.txt --top 3
  echo
  echo "== The models inside: how does a text go on?"
  "$hotpath" run -p "The river" -n 80 --seed 7
  exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sentences=(
  "A man is playing a guitar on the street."
  "Someone performs music outdoors."
  "The stock market fell sharply on Monday."
  "Shares lost value at the start of the week."
  "Bake the bread for forty minutes."
)

echo "== all-MiniLM-L6-v2: how similar are these sentences? (cosine)"
"$hotpath" embed -m "$models/all-MiniLM-L6-v2" --format csv "${sentences[@]}" |
  awk -F, '{ for (i = 1; i <= NF; i++) v[NR, i] = $i; n = NF }
    END { for (r = 1; r <= NR; r++) { printf "%d ", r
            for (c = 1; c <= NR; c++) { s = 0; for (i = 1; i <= n; i++) s += v[r, i] * v[c, i]; printf " %5.2f", s }
            print "" } }' |
  { i=0; while IFS= read -r row; do echo "$row   ${sentences[i]}"; i=$((i + 1)); done; }

echo
echo "== SmolLM2-135M-Instruct finishes a sentence"
prompt="The three most important things to know about Go are"
echo "$prompt ..."
"$hotpath" run -m "$models/SmolLM2-135M-Instruct.Q4_1.gguf" --raw --temp 0 -n 60 -p "$prompt" --profile="$work/run.json"

echo
echo "== Where did the time go? (more: hotpath run ... --profile)"
"$hotpath" profile show "$work/run.json" | awk '/^LEDGER/ { on = 1 } /^$/ { on = 0 } on'
