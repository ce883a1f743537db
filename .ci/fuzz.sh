#!/usr/bin/env bash
# Every fuzz test for FUZZTIME each. A target that is in the middle of a slow
# input when its time is up makes go test fail with "context deadline exceeded"
# and without a failing input: that is the tool's, not a finding.
set -euo pipefail
cd "$(dirname "$0")/.."
t=${FUZZTIME:-2s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r pkg; do
	go test -list '^Fuzz' "$pkg" | grep '^Fuzz' | while read -r f; do
		echo "fuzz $pkg $f"
		if go test -run '^$' -fuzz "^$f\$" -fuzztime "$t" -fuzzminimizetime 5x "$pkg" >"$log" 2>&1 </dev/null; then
			tail -n 1 "$log"
			continue
		fi
		if grep -q 'context deadline exceeded' "$log" && ! grep -qE 'Failing input|panic|_test\.go:[0-9]' "$log"; then
			echo "fuzz $pkg $f: time was up within an input"
			continue
		fi
		cat "$log"
		exit 1
	done
done
