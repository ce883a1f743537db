#!/usr/bin/env bash
# Known vulnerabilities in what we import and call, by the data of the version
# that .ci/versions names: the same commit always gives the same answer.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/versions
export GOTOOLCHAIN=${KVASIR_TOOLCHAIN:-$VULN_TOOLCHAIN}
cache=${KVASIR_CACHE:-$HOME/.cache/kvasir}
db=$cache/vulndb/$VULNDB
if [ ! -e "$db/index/db.json" ]; then
	dir=$(cd /tmp && go mod download -json "golang.org/x/vulndb@$VULNDB" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	rm -rf "$cache/vulndb"
	mkdir -p "$cache/vulndb"
	(cd "$dir" && go run ./cmd/indexdb -vulns "$dir/data/osv" -out "$db.tmp")
	mv "$db.tmp" "$db"
fi
echo "vulnerability data: $VULNDB, $GOTOOLCHAIN"
go run "golang.org/x/vuln/cmd/govulncheck@$GOVULNCHECK" -db "file://$db" ./...
