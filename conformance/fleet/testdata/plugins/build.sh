#!/bin/sh
# Builds the plugins of the tests. Debian: clang-19, lld-19, wabt.
set -eu
cd "$(dirname "$0")"
for p in first last worst trap narrow; do
	../../../../sdk/c/build.sh $p.c $p.wasm
done
wat2wasm -o idle.wasm idle.wat
