#!/usr/bin/env bash
# Installs what the tests compare with, into the cache folder. Safe to run
# again; what is there is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
export KVASIR_CACHE=${KVASIR_CACHE:-$HOME/.cache/kvasir}
mkdir -p "$KVASIR_CACHE"
go mod download
for s in $(find host conformance plugins policies -path '*/scripts/deps.sh' | sort); do
	bash "$s"
done
