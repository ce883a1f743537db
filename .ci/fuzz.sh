#!/usr/bin/env bash
# Every fuzz test for FUZZTIME each. Each package's test binary is built once, instrumented
# as go test -fuzz does it, and run as go test would: in the package's folder, where it
# reads testdata/fuzz and writes failing inputs, and with the corpus of the build cache.
# A target that is in the middle of a slow input when its time is up fails with
# "context deadline exceeded" and without a failing input: that is the tool's, not a finding.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
corpus=$(go env GOCACHE)/fuzz/$(go list -m)
args=(-test.run '^$' -test.paniconexit0 -test.timeout 10m -test.fuzztime "${FUZZTIME:-2s}" -test.fuzzminimizetime 5x)
packages=$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | cut -c3- | sort -u)
for pkg in $packages; do
	go test -c -fuzz . -ldflags '-s -w' -o "$work/fuzz.test" "./$pkg"
	targets=$(cd "$pkg" && "$work/fuzz.test" -test.list '^Fuzz')
	for f in $targets; do
		if (cd "$pkg" && "$work/fuzz.test" "${args[@]}" -test.fuzz "^$f\$" -test.fuzzcachedir "$corpus/$pkg") \
			>"$work/log" 2>&1 </dev/null; then
			echo "fuzz ./$pkg $f: $(grep '^fuzz: elapsed' "$work/log" | tail -n 1 | cut -d' ' -f2-)"
		elif grep -q 'context deadline exceeded' "$work/log" && ! grep -qE 'Failing input|panic|_test\.go:[0-9]' "$work/log"; then
			echo "fuzz ./$pkg $f: time was up within an input"
		else
			echo "fuzz ./$pkg $f: failed"
			cat "$work/log"
			exit 1
		fi
	done
done
