#!/usr/bin/env bash
# Known vulnerabilities in what we import and call. The database is taken from
# its Go module, since the tests of this project reach no other source.
# It looks at the patch release of Go that releases are built with, whatever the
# machine has: the standard library's own faults are mended there first.
set -euo pipefail
export GOTOOLCHAIN=${KVASIR_TOOLCHAIN:-go1.26.10}
cd "$(dirname "$0")/.."
cache=${KVASIR_CACHE:-$HOME/.cache/kvasir}
mod=golang.org/x/vulndb@latest
dir=$(cd /tmp && go mod download -json "$mod" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
ver=$(basename "$dir")
db=$cache/vulndb/$ver
if [ ! -e "$db/index/db.json" ]; then
	rm -rf "$cache/vulndb"
	mkdir -p "$cache/vulndb"
	(cd "$dir" && go run ./cmd/indexdb -vulns "$dir/data/osv" -out "$db.tmp")
	mv "$db.tmp" "$db"
fi
go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 -db "file://$db" ./...
