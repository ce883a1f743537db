#!/bin/sh
# Builds libtokenizers.a, the C library behind the Go module
# github.com/daulet/tokenizers, from the Rust sources that the module itself
# carries and packages of the crate registry.
#
#   build-libtokenizers.sh VERSION OUTDIR
#
# OUTDIR receives libtokenizers.a and libtokenizers.stamp, a hash of all
# inputs; nothing is built when it is that of the same inputs.
#
# One line is edited: Cargo.toml takes tiktoken-rs from a git fork that only
# raises fancy-regex. src/lib.rs does not need the fork, so the registry's
# release takes its place. Cargo.lock stays in force for every other package.
set -eu
die() { echo "build-libtokenizers: $*" >&2; exit 1; }

[ $# -eq 2 ] || die "usage: build-libtokenizers.sh VERSION OUTDIR"
mod=github.com/daulet/tokenizers
ver=$1
out=$2
tiktoken=0.9.1
cc=${CC:-cc}
cxx=${CXX:-c++}

command -v go >/dev/null || die "go is not in PATH"
command -v cargo >/dev/null || die "cargo is not in PATH: install Rust (tested with 1.95), or build without the tag hf"
command -v "$cc" >/dev/null || die "no C compiler ($cc): the crates onig_sys and esaxx-rs need one"
command -v "$cxx" >/dev/null || die "no C++ compiler ($cxx): the crate esaxx-rs needs one"

go mod download "$mod@$ver" || die "cannot download $mod@$ver"
dir=$(go list -m -f '{{.Dir}}' "$mod@$ver")
[ -f "$dir/Cargo.toml" ] && [ -f "$dir/src/lib.rs" ] || die "no Rust sources for $mod@$ver in '$dir'"

self=$0
hash=$( (
	cat "$self"
	cd "$dir"
	find Cargo.toml Cargo.lock src benches -type f | LC_ALL=C sort | xargs sha256sum
	cargo --version
	"$cc" --version | head -n 1
) | sha256sum | cut -d' ' -f1)

mkdir -p "$out"
out=$(cd "$out" && pwd)
if [ -f "$out/libtokenizers.a" ] && [ "$(cat "$out/libtokenizers.stamp" 2>/dev/null)" = "$hash" ]; then
	echo "build-libtokenizers: $ver is up to date"
	exit 0
fi

work=$out/.work
rm -rf "$work"
mkdir -p "$work"
for f in Cargo.toml Cargo.lock src benches; do
	cp -R "$dir/$f" "$work/"
done
chmod -R u+w "$work"
sed -i.orig -E "s|^tiktoken-rs *=.*git *=.*|tiktoken-rs = \"=$tiktoken\"|" "$work/Cargo.toml"
if grep -qE '^[a-z0-9_-]+ *=.*git *=' "$work/Cargo.toml"; then
	die "$ver has another git dependency: $(grep -E '^[a-z0-9_-]+ *=.*git *=' "$work/Cargo.toml")"
fi

rm -f "$out/libtokenizers.stamp"
(cd "$work" && cargo build --release --lib --target-dir target) || die "cargo build of $ver (sources in $work)"
mv "$work/target/release/libtokenizers.a" "$out/libtokenizers.a"
echo "$hash" >"$out/libtokenizers.stamp"
rm -rf "$work"
echo "build-libtokenizers: built $ver, $(wc -c <"$out/libtokenizers.a") bytes"
