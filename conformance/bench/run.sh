#!/usr/bin/env bash
# The data path beside nginx. Installs nginx where it is absent.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v nginx >/dev/null || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends nginx-light; } >/dev/null
go test -tags bench -count=1 -run TestDataPath -v ./conformance/bench
