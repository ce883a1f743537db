#!/bin/sh
# Makes the Python environment that the event tests read this engine's sockets
# with: libzmq (pyzmq), msgspec, which vLLM writes events with, and msgpack. It
# goes to ${KVASIR_CACHE:-$HOME/.cache/kvasir}/venv-zmq. Safe to run again, and
# beside itself.
set -eu
die() { echo "deps: $*" >&2; exit 1; }

cache=${KVASIR_CACHE:-$HOME/.cache/kvasir}
venv=$cache/venv-zmq
ready() { "$venv/bin/python" -c 'import zmq, msgspec, msgpack' 2>/dev/null; }

ready && exit 0
command -v python3 >/dev/null || die "python3 is not in PATH"
mkdir -p "$cache"
if command -v flock >/dev/null; then
	exec 9>"$cache/.venv-zmq.lock"
	flock 9
	ready && exit 0
fi
python3 -m venv "$venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check pyzmq msgspec msgpack
ready || die "$venv is not usable"
