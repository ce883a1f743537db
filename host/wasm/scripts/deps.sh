#!/usr/bin/env bash
# Builds testdata/smith, the foreign generator of modules, into the cache folder.
set -euo pipefail
cd "$(dirname "$0")/../testdata/smith"
if ! command -v cargo >/dev/null; then
	echo "host/wasm: no cargo: the rewriter is not tried on wasm-smith's modules" >&2
	exit 0
fi
CARGO_TARGET_DIR=${KVASIR_CACHE:-$HOME/.cache/kvasir}/smith cargo build -q --release --locked
