#!/bin/sh
# Builds the shipped plugins: plugins/build.sh [OUT [NAME...]]. C by clang-19 and
# lld-19, Go by the TinyGo that scripts/tinygo.sh makes.
set -eu
cd "$(dirname "$0")"
out=${1:-.}
out=$(cd "$out" && pwd)
[ $# -eq 0 ] || shift
cd ..
for p in ${*:-leastwork roundrobin prefixfirst}; do
	case $p in
	leastwork) sdk/c/build.sh plugins/$p/$p.c "$out/$p.wasm" -msimd128 ;;
	*) # without a collector of garbage: they allocate only when they start
		sdk/go/build.sh plugins/$p "$out/$p.wasm" -gc=leaking ;;
	esac
done
