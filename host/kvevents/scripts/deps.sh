#!/bin/sh
# Installs the Python ZeroMQ and msgpack packages that the tests compare with, in
# an environment of its own in ${KVASIR_CACHE:-$HOME/.cache/kvasir}. Safe to run
# again; what is there is kept.
set -eu
die() { echo "deps: $*" >&2; exit 1; }

want="pyzmq==27.3.0 msgspec==0.23.0 msgpack==1.2.4"
venv=${KVASIR_CACHE:-$HOME/.cache/kvasir}/venv-kvevents
[ "$(cat "$venv/stamp" 2>/dev/null)" = "$want" ] && exit 0
command -v python3 >/dev/null || die "python3 is not in PATH"
rm -rf "$venv"
python3 -m venv "$venv"
# shellcheck disable=SC2086
"$venv/bin/python" -m pip install -q --disable-pip-version-check $want
echo "$want" >"$venv/stamp"
