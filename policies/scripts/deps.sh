#!/usr/bin/env bash
# Builds upstream's own opa command into the cache folder, to compare with. Safe
# to run again; what is there is kept.
set -euo pipefail
version=v1.22.4
opa=${KVASIR_CACHE:-$HOME/.cache/kvasir}/opa/$version/opa
[ -x "$opa" ] && exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$(dirname "$opa")"
cd "$work"
printf 'module opabuild\n\ngo 1.26\n' >go.mod
go get -tool "github.com/open-policy-agent/opa@$version" >/dev/null 2>&1 || { echo "opa $version could not be fetched" >&2; exit 1; }
go build -trimpath -o "$opa.tmp" github.com/open-policy-agent/opa
mv "$opa.tmp" "$opa"
echo "opa: ready in $opa"
