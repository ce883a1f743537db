#!/usr/bin/env bash
# Compares the data path with nginx. Arguments go to the test: -bench.write README.md
# writes the table of README, -bench.check README.md compares with it. Installs nginx
# if it is absent. Load and engines run on core 0, routers on core 1.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v nginx >/dev/null || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends nginx-light; } >/dev/null
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go test -tags bench -c -o "$bin/bench.test" ./conformance/bench
readme=()
for a in "$@"; do
	case $a in *.md) a=$PWD/$a ;; esac
	readme+=("$a")
done
cd conformance/bench
taskset -c 0 "$bin/bench.test" -test.count=1 -test.timeout 20m -test.run TestDataPath -test.v "${readme[@]}"
