#!/usr/bin/env bash
# What Rust needs to build for WebAssembly. Without rustup, or where it does not
# reach its registry, the plugins in Rust are not built by the tests.
set -euo pipefail
dir=$(rustc --print sysroot 2>/dev/null || true)/lib/rustlib/wasm32-unknown-unknown
[ ! -d "$dir" ] || exit 0
if ! command -v rustup >/dev/null || ! timeout 300 rustup -q target add wasm32-unknown-unknown; then
	echo "conformance: install Rust's target wasm32-unknown-unknown to have the plugins in Rust built" >&2
fi
