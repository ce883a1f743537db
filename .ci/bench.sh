#!/usr/bin/env bash
# Benchmarks, printed with the machine and with what they are compared to. A
# figure by itself says little on a shared machine: compare ratios of one run.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${KVASIR_CACHE:-$HOME/.cache/kvasir}
echo "machine: $(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(go version | cut -d' ' -f3), $(date -u +%F)"
echo
echo "== prompts: body to block hashes"
go test -run '^$' -bench . -benchtime 1s ./host/tokenizer/chat
echo
echo "== tokenizer, beside Hugging Face in the same run"
go test -run '^$' -bench 'Encode' -benchtime 1s ./host/tokenizer/bpe
[ ! -e host/tokenizer/scripts/bench_hf.py ] || "$cache/venv/bin/python" host/tokenizer/scripts/bench_hf.py
echo
echo "== scheduler"
go test -run '^$' -bench . -benchtime 1s ./host/scheduler
echo
echo "== index"
go test -run '^$' -bench . -benchtime 1s ./host/kvindex
echo
echo "== request bodies"
go test -run '^$' -bench . -benchtime 1s ./host/llmapi
echo
echo "== data path, beside nginx in the same run"
bash conformance/bench/run.sh
