#!/usr/bin/env bash
# The tools that the committed .wasm files are built with, so that the tests can
# build them again and compare: clang and lld for C, wat2wasm for the hostile
# guests. Debian's packages; without the rights to install them it says what to
# install, and those comparisons are left out.
set -euo pipefail
missing=()
command -v clang-19 >/dev/null || missing+=(clang-19)
command -v wasm-ld-19 >/dev/null || missing+=(lld-19)
command -v wat2wasm >/dev/null || missing+=(wabt)
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "plugins: install ${missing[*]} to have the committed .wasm files rebuilt and compared" >&2
	exit 0
fi
apt-get update -q >/dev/null
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null
