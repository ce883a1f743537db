#!/usr/bin/env bash
# Compares the data path with nginx. Installs nginx if it is absent.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v nginx >/dev/null || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends nginx-light; } >/dev/null
go test -tags bench -count=1 -run TestDataPath -v ./conformance/bench
