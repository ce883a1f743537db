#!/bin/sh
# Builds a plugin with TinyGo: build.sh DIR OUT [flags]. TINYGO names the program.
set -eu
target=$(cd "$(dirname "$0")" && pwd)/tinygo.json
dir=$1 out=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
shift 2
cd "$dir"
GOWORK=off exec "${TINYGO:-tinygo}" build -target="$target" -panic=trap -opt=2 -no-debug "$@" -o "$out" .
