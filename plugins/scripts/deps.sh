#!/usr/bin/env bash
# The tools that the committed .wasm files are built with, so that the tests can
# build them again and compare: clang and lld for C, wat2wasm for the hostile
# guests, TinyGo for Go and what that is built with. Debian's packages; without
# the rights to install them it says what to install, and those comparisons are
# left out.
set -euo pipefail
missing=()
command -v clang-19 >/dev/null || missing+=(clang-19)
command -v wasm-ld-19 >/dev/null || missing+=(lld-19)
command -v wat2wasm >/dev/null || missing+=(wabt)
for p in llvm-19-dev libclang-19-dev wasi-libc g++; do
	dpkg -s "$p" >/dev/null 2>&1 || missing+=("$p")
done
if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	apt-get update -q >/dev/null
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null
elif [ ${#missing[@]} -gt 0 ]; then
	echo "plugins: install ${missing[*]} to have the committed .wasm files rebuilt and compared" >&2
fi
bash "$(dirname "$0")/tinygo.sh"
