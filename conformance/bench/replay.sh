#!/usr/bin/env bash
# usage: replay.sh [README.md]
# Tunes the policies of others on examples/replay/tuning, compares them with the
# router on examples/replay/judging, and writes the table between the markers of
# README.md. TUNED names a file of tuned policies to use instead of tuning again.
set -euo pipefail
cd "$(dirname "$0")/../.."
readme=${1:-README.md}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -trimpath -o "$work/kvasir" ./cmd/kvasir
tuned=${TUNED:-$work/tuned.txt}
[ -n "${TUNED:-}" ] || "$work/kvasir" tune --policy all --seeds "${SEEDS:-3}" examples/replay/tuning/*.yaml | tee "$tuned"
"$work/kvasir" replay --against "@$tuned" --seeds "${SEEDS:-3}" --first-seed 101 --html "$work/report.html" \
	examples/replay/judging/*.yaml | tee "$work/all.txt"
grep '^|' "$work/all.txt" >"$work/table.txt"
awk -v table="$work/table.txt" '
	/^<!-- placement ends/ {skip = 0}
	!skip {print}
	/^<!-- placement: / {print ""; while ((getline line < table) > 0) print line; print ""; skip = 1}
' "$readme" >"$work/readme"
cp "$work/readme" "$readme"
