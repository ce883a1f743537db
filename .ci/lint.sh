#!/usr/bin/env bash
# usage: lint.sh [quick]
# Format, style, vet, staticcheck and generated files; without quick also all
# build tags, all supported systems, and known vulnerabilities.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/versions
# hf, engine, long and bench are the tags of code that the default build leaves
# out; portable chooses what other systems than Linux are built from.
tags=hf,engine,long,bench
staticcheck() { go run "honnef.co/go/tools/cmd/staticcheck@$STATICCHECK" "$@"; }

bad=$(gofmt -l $(git ls-files '*.go'))
[ -z "$bad" ] || { echo "gofmt: $bad" >&2; exit 1; }
go run ./.ci/style
go vet ./...
(cd sdk/go && go vet ./...)
staticcheck ./...
bash .ci/generated.sh
if [ "${1:-}" = quick ]; then
	echo "lint: ok (quick)"
	exit
fi
for flags in "-tags=$tags" -tags=portable -race; do
	echo "lint: $flags"
	go vet "$flags" ./...
done
staticcheck -tags "$tags" ./...
for sys in linux/arm64 darwin/arm64 darwin/amd64; do
	echo "lint: $sys"
	CGO_ENABLED=0 GOOS=${sys%/*} GOARCH=${sys#*/} go vet ./...
done
echo "lint: windows/amd64 is not supported and says so"
if out=$(CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go build ./host/internal/filelock 2>&1); then
	echo "lint: it builds: support it, or keep the message" >&2
	exit 1
fi
grep -q kvasir_runs_on_linux_and_macos_only_see_README <<<"$out"
bash .ci/vuln.sh
echo "lint: ok"
