#!/usr/bin/env bash
# Installs the official OpenAI and Anthropic clients into a virtual environment in the cache folder.
set -euo pipefail
dir=${KVASIR_CACHE:-$HOME/.cache/kvasir}/venv-clients
[ ! -e "$dir/.ok-2" ] || exit 0
rm -rf "$dir"
python3 -m venv "$dir"
"$dir/bin/python" -m pip install -q --disable-pip-version-check "openai>=2,<3" "anthropic>=2,<3"
touch "$dir/.ok-2"
