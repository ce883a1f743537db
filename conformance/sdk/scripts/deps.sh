#!/usr/bin/env bash
# Installs the target that Rust needs to build for WebAssembly. Without rustup, or if
# it cannot reach its registry, the tests do not build the plugins in Rust.
set -euo pipefail
dir=$(rustc --print sysroot 2>/dev/null || true)/lib/rustlib/wasm32-unknown-unknown
[ ! -d "$dir" ] || exit 0
if ! command -v rustup >/dev/null || ! timeout 300 rustup -q target add wasm32-unknown-unknown; then
	echo "conformance: install Rust's target wasm32-unknown-unknown to build the plugins in Rust" >&2
fi
