#!/bin/sh
# hotpath on the first OpenCL device, for scripts that take a program: $HOTPATH is the
# program, bin/hotpath-gpu unless it is set.
#
#   scripts/verify_minilm.py scripts/on_opencl.sh .cache/models
hotpath=${HOTPATH:-$(dirname "$0")/../bin/hotpath-gpu}
case ${1:-} in
embed | score | run)
  command=$1
  shift
  exec "$hotpath" "$command" --device opencl "$@"
  ;;
esac
exec "$hotpath" "$@"
