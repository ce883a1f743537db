#!/usr/bin/env bash
# Format, vet, staticcheck, known vulnerabilities.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=$(gofmt -l .)
[ -z "$bad" ] || { echo "gofmt: $bad" >&2; exit 1; }
go vet ./...
go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
bash .ci/vuln.sh
echo "lint: ok"
