#!/usr/bin/env bash
# Installs what the tests compare with, into the cache folder. Safe to run
# again; what is there is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
export KVASIR_CACHE=${KVASIR_CACHE:-$HOME/.cache/kvasir}
cat <<LIST
installs, where it is missing:
  Go modules of go.mod                                                  the module cache
  tokenizer files, Hugging Face tokenizers, texts, chat templates       $KVASIR_CACHE
  Jinja2, pyzmq, msgspec, msgpack, the OpenAI and Anthropic clients     $KVASIR_CACHE (Python environments)
  upstream's opa, wasm-smith (with cargo), TinyGo                       $KVASIR_CACHE
  clang-19, lld-19, wabt, LLVM's headers; Rust's wasm32 target          the system, where the rights allow it
LIST
mkdir -p "$KVASIR_CACHE"
go mod download
for s in $(find host conformance plugins policies -path '*/scripts/deps.sh' | sort); do
	bash "$s"
done
