#!/bin/sh
# Builds a plugin in Rust: build.sh DIR OUT.wasm [FLAG...]. DIR is a package with
# one cdylib; TARGET_DIR keeps what cargo makes. rustup target add wasm32-unknown-unknown
set -eu
dir=$1 out=$2
shift 2
target=${TARGET_DIR:-$dir/target}
CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="-Clink-arg=-zstack-size=16384" \
	cargo build -q --release --offline --target wasm32-unknown-unknown --manifest-path "$dir/Cargo.toml" --target-dir "$target" "$@"
cp "$target"/wasm32-unknown-unknown/release/*.wasm "$out"
