#!/usr/bin/env bash
# fetch_pocl.sh   makes sure that there is an OpenCL runtime for tests
#
# Takes the one that is there. Without one, and as root on a system with apt-get,
# it installs Debian's PoCL, which computes on the CPU. Otherwise it says what to do
# and exits with 1; the tests that need a runtime are then skipped and say so.
set -euo pipefail

# A runtime is a loader and at least one entry for it.
has_runtime() { ldconfig -p | grep -q 'libOpenCL\.so\.1' && ls "${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}"/*.icd >/dev/null 2>&1; }

has_runtime && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends pocl-opencl-icd ocl-icd-libopencl1; } >/dev/null 2>&1 || true
  has_runtime && exit 0
fi
echo "fetch_pocl: no OpenCL runtime found, and none could be installed (Debian: apt-get install pocl-opencl-icd)" >&2
exit 1
