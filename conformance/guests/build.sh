#!/bin/sh
# Assembles the guests: ./build.sh [OUT]. Needs wat2wasm (Debian package wabt).
set -eu
cd "$(dirname "$0")"
out=${1:-.}
for f in *.wat; do
	case ${f%.wat} in
	tail_call) flags=--enable-tail-call ;;
	threads) flags=--enable-threads ;;
	*) flags= ;;
	esac
	wat2wasm $flags -o "$out/${f%.wat}.wasm" "$f"
done
