#!/usr/bin/env bash
# fetch.sh OUT   fetches the texts that the default models are trained on into OUT/raw.
# Needs Debian or Ubuntu (apt-get download), git and python3. SNAPSHOTS=DIR takes bare repositories
# DIR/OWNER+NAME/repo in place of GitHub's. STSB=FILE is the training split of the English STS
# benchmark as csv (sentence, sentence, score), CC BY-SA 4.0.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: fetch.sh OUT" >&2; exit 2; }
: "${STSB:?fetch.sh: STSB=FILE is missing: stsb-en-train.csv}"
raw=$1/raw
mkdir -p "$raw/repos" "$raw/deb" "$raw/wordnet" "$raw/common-voice" "$raw/novels" "$raw/wikisplit"

# repo OWNER/NAME COMMIT   makes $git a git command for that commit's files.
repo() {
  local name=${1/\//+}
  if [ -n "${SNAPSHOTS:-}" ]; then
    git=(git --git-dir="$SNAPSHOTS/$name/repo")
    [ -d "$SNAPSHOTS/$name/repo/.git" ] && git=(git --git-dir="$SNAPSHOTS/$name/repo/.git")
  else
    git=(git --git-dir="$raw/repos/$name")
    [ -d "$raw/repos/$name" ] || git init --quiet --bare "$raw/repos/$name"
    "${git[@]}" fetch --quiet --depth 1 "https://github.com/$1" "$2"
  fi
  commit=$2
}
file() { "${git[@]}" show "$commit:$1" > "$raw/$2"; }
files() { # FOLDER OUT
  local f
  "${git[@]}" ls-tree --name-only "$commit" "$1/" | while IFS= read -r f; do
    "${git[@]}" show "$commit:$f" > "$raw/$2/${f##*/}"
  done
}

(cd "$raw/deb" && apt-get download wordnet-base dict-gcide dict-foldoc)
for deb in "$raw"/deb/*.deb; do dpkg-deb -x "$deb" "$raw/deb/x"; done
cp "$raw"/deb/x/usr/share/wordnet/data.* "$raw/wordnet/"
cp "$raw"/deb/x/usr/share/dictd/{gcide,foldoc}.dict.dz "$raw/"
apt-cache dumpavail | awk '/^Description(-en)?: / { sub(/^[^:]*: /, ""); print }' | sort -u > "$raw/packages.txt"
cp "$STSB" "$raw/stsb-en-train.csv"

repo computationalstylistics/100_english_novels 143e601875d70e195f2cc5ebd8b034609271194d; files corpus novels
repo common-voice/common-voice bc2cc85e101dc70332aa1e55e89f547ab6874b05
for f in ajaydee bavencope elleo est31 harvsents jf99 mlennox reinhart1010 sentence-collector thehowl; do file "server/data/en/$f.txt" "common-voice/$f.txt"; done
repo cdjkim/audiocaps d004db3ea1b01cf4fd0347dd8d27db90cadc8809; file dataset/train.csv audiocaps.csv
repo ruizewang/evaluate 1152656d3b8c66c48fc6a4357e159f5e21bd2d2d; file annotations/captions_val2017.json coco.json
repo genimind/seq2seq 4f3f8eb0adde54fcc8b89394336b002e7961244c; file fra-eng.zip fra-eng.zip
repo jhamburg/dats6450_nlp fc38d83c4353d753fb9b34d98e945cbc5fab2811; file deu-eng.zip deu-eng.zip
repo google-research-datasets/wiki-split 80f5bddf42d1a68201b7b107ee4b8d86d82e9fde
for f in tune validation test; do file "$f.tsv" "wikisplit/$f.tsv"; done
repo google-research-datasets/query-wellformedness fb69c21416195cddc797277ea9e4d393226571d2; file train.tsv queries.tsv
repo ongraphpythondev/elastic_search 0b1ff29ae6288619bb855f6fe95ace3ab81b176e; file News_Category_Dataset_v2.json headlines.jsonl
