#!/usr/bin/env bash
# fetch_browser.sh   prints the path of a Chromium that the HTML tests can run
#
# Takes the one that is there. Without one, and as root on a system with apt-get,
# it installs Debian's. Otherwise it says what to do and exits with 1; the tests
# that need a browser are then skipped and say so.
set -euo pipefail

find_browser() {
  for name in "${HOTPATH_BROWSER:-}" chromium chromium-browser google-chrome google-chrome-stable chrome headless-shell; do
    [ -n "$name" ] && command -v "$name" && return 0
  done
  return 1
}

find_browser && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 || true
  find_browser && exit 0
fi
echo "fetch_browser: no Chromium or Chrome found, and none could be installed; install one or set HOTPATH_BROWSER to its path" >&2
exit 1
