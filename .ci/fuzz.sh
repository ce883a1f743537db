#!/usr/bin/env bash
# Every fuzz test for FUZZTIME each.
set -euo pipefail
cd "$(dirname "$0")/.."
t=${FUZZTIME:-3s}
grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r pkg; do
	go test -list '^Fuzz' "$pkg" | grep '^Fuzz' | while read -r f; do
		echo "fuzz $pkg $f"
		go test -run '^$' -fuzz "^$f\$" -fuzztime "$t" "$pkg"
	done
done
