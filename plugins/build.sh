#!/bin/sh
# Builds the shipped plugins: plugins/build.sh [OUT]. Debian: clang-19, lld-19.
set -eu
cd "$(dirname "$0")"
out=${1:-}
for p in leastwork roundrobin prefixfirst; do
	flags=
	[ $p = leastwork ] && flags=-msimd128
	../sdk/c/build.sh $p/$p.c "${out:-$p}/$p.wasm" $flags
done
