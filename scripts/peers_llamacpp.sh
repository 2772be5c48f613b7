#!/usr/bin/env bash
# peers_llamacpp.sh [VENV]   (default .cache/venv)
#
# Builds llama.cpp, the peer that answers and speed are compared with, as
# llama-cpp-python from source into a Python environment. JOBS=N compiles with
# N jobs (default 1: the build is long and should not take the machine).
#
# clang and its OpenMP are required, not a preference: gcc 12 drops the stores to
# the AMX tile configuration and the result dies with SIGILL. On Debian:
#   apt-get install clang-16 libomp-16-dev cmake ninja-build
# GGML_NATIVE compiles for this machine's CPU, so the result is not portable.
set -euo pipefail

[ $# -le 1 ] || { echo "usage: peers_llamacpp.sh [VENV]" >&2; exit 2; }
venv=${1:-.cache/venv}
cc=${CC:-clang-16}
cxx=${CXX:-clang++-16}

for tool in python3 "$cc" "$cxx"; do
  command -v "$tool" >/dev/null || { echo "peers_llamacpp: $tool not found (Debian: apt-get install clang-16 libomp-16-dev)" >&2; exit 1; }
done

if [ ! -x "$venv/bin/python" ]; then
  echo "peers_llamacpp: creating $venv"
  python3 -m venv "$venv"
fi

echo "peers_llamacpp: building llama-cpp-python with $cc (${JOBS:-1} jobs)"
CC=$cc CXX=$cxx CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-1} \
  CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF" \
  nice -n 19 "$venv/bin/python" -m pip install --no-cache-dir --no-binary llama-cpp-python llama-cpp-python==0.3.36

"$venv/bin/python" - <<'PY'
import llama_cpp
print("peers_llamacpp:", llama_cpp.__version__, llama_cpp.llama_print_system_info().decode())
PY
