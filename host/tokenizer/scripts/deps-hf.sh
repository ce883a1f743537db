#!/bin/sh
# Builds the library for the build tag hf in ${KVASIR_CACHE:-$HOME/.cache/kvasir}/libtokenizers.
# Build and test with:
#
#   CGO_LDFLAGS="-L${KVASIR_CACHE:-$HOME/.cache/kvasir}/libtokenizers" go test -tags hf ./host/tokenizer/hf
set -eu
cd "$(dirname "$0")"
ver=$(go list -m -f '{{.Version}}' github.com/daulet/tokenizers)
sh build-libtokenizers.sh "$ver" "${KVASIR_CACHE:-$HOME/.cache/kvasir}/libtokenizers"
