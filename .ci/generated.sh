#!/usr/bin/env bash
# Fails where a generated file is not what its source says. The generators run in
# a copy of the tree, so that a check changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' f; do [ ! -e "$f" ] || printf '%s\0' "$f"; done | tar --null -T - -c | tar -x -C "$work"
(cd "$work" && go generate ./... >"$work.log" 2>&1) || { cat "$work.log" >&2; exit 1; }
rm -f "$work.log"
stale=$(git ls-files | while IFS= read -r f; do [ ! -e "$f" ] || cmp -s "$f" "$work/$f" || echo "$f"; done)
[ -z "$stale" ] || { echo "stale, run make generate: $stale" >&2; exit 1; }
