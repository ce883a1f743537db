#!/bin/sh
# Builds a plugin in C: build.sh SOURCE.c OUT.wasm [FLAG...]
# CC is clang with wasm-ld beside it; Debian: clang-19 and lld-19.
set -eu
src=$1 out=$2
shift 2
sdk=$(cd "$(dirname "$0")" && pwd)
CC=${CC:-clang-19}
exec "$CC" --target=wasm32 -nostdlib -ffreestanding -std=c11 -O3 -Wall -Wextra -Werror \
	-mbulk-memory -mnontrapping-fptoint -msign-ext -I"$sdk" \
	-Wl,--no-entry -Wl,--strip-all -Wl,-z,stack-size=16384 "$@" -o "$out" "$src"
