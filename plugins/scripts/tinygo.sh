#!/usr/bin/env bash
# Builds TinyGo into the cache folder, for the shipped plugins and examples in
# Go: CACHE/tinygo/bin/tinygo. No package carries a binary of it, so it is made of
# its Go module with Debian's LLVM, and has a wasm-opt of its own, which it calls
# for every module (on PATH, clang would call it too). The bytes of the committed
# modules follow from these versions. Safe to run again.
#
# What the module lacks (git submodules) or does not know yet (Go 1.26) is mended
# in a copy: see patch. A TinyGo release needs none of it.
set -euo pipefail
version=0.40.1
llvm=19
binaryen=108-1
recipe=1 # raise it when what follows changes
cache=${KVASIR_CACHE:-$HOME/.cache/kvasir}/tinygo
go=$(go env GOVERSION)
dir=$cache/$version-llvm$llvm-$go-r$recipe
libc=/usr/lib/wasm32-wasi/libc.a

patch() {
	mkdir -p src/net src/internal/itoa
	echo 'package net' >src/net/net.go
	# Go 1.26 dropped internal/itoa; TinyGo's own packages import it.
	sed -i 's#^\(\t*\)"internal/gclayout": .*#&\n\1"internal/itoa/": false,#' loader/goroot.go
	grep -q internal/itoa loader/goroot.go
	cat >src/internal/itoa/itoa.go <<-'G'
		// Package itoa stands in for the standard library's, which Go 1.26 dropped.
		package itoa

		// Itoa converts val to a decimal string.
		func Itoa(val int) string {
			if val < 0 {
				return "-" + Uitoa(uint(-val))
			}
			return Uitoa(uint(val))
		}

		// Uitoa converts val to a decimal string.
		func Uitoa(val uint) string { return string(digits(uint64(val), 10)) }

		// Uitox converts val to a hexadecimal string with its prefix.
		func Uitox(val uint) string { return "0x" + string(digits(uint64(val), 16)) }

		func digits(val, base uint64) []byte {
			var buf [20]byte
			i := len(buf)
			for {
				i--
				buf[i] = "0123456789abcdef"[val%base]
				if val /= base; val == 0 {
					return buf[i:]
				}
			}
		}
	G
	# Go 1.25's reflect.TypeAssert, which encoding/json uses.
	cat >src/reflect/typeassert.go <<-'G'
		package reflect

		// TypeAssert returns v's value as a T, and whether it is one.
		func TypeAssert[T any](v Value) (T, bool) {
			x, ok := v.Interface().(T)
			return x, ok
		}
	G
	# Without the submodules there are no sources of a C library to build: what a
	# plugin may need of it (memcpy, exp, log) comes from Debian's wasi-libc.
	cp $libc lib/
	sed -i -e '/"rtlib":/d' -e '/"libc":/d' -e 's#"--no-entry"#"--no-entry", "-L{root}/lib", "-lc"#' targets/wasm-unknown.json
	grep -q -- -lc targets/wasm-unknown.json
}

if [ ! -x "$dir/bin/tinygo" ]; then
	for f in /usr/lib/llvm-$llvm/include/llvm-c/Core.h $libc; do
		[ -e $f ] || { echo "plugins: no TinyGo, $f is not there: install llvm-$llvm-dev libclang-$llvm-dev g++ wasi-libc" >&2; exit 0; }
	done
	src=$(cd / && go mod download -json "github.com/tinygo-org/tinygo@v$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	mkdir -p "$cache"
	rm -rf "$dir.tmp"
	cp -r "$src" "$dir.tmp"
	chmod -R u+w "$dir.tmp"
	cd "$dir.tmp"
	mkdir deb
	if ! (cd deb && apt-get download -q "binaryen=$binaryen" >/dev/null 2>&1 && dpkg -x binaryen_*.deb ../binaryen); then
		echo "plugins: no TinyGo: the package binaryen $binaryen is not to be had (apt-get update?)" >&2
		exit 0
	fi
	patch
	echo "plugins: building TinyGo $version (a minute or two)" >&2
	GOWORK=off go build -trimpath -tags llvm$llvm -ldflags '-s -w' -o bin/tinygo .
	find . -mindepth 1 -maxdepth 1 | grep -vxE '\./(bin|src|targets|lib|binaryen|LICENSE)' | xargs rm -rf
	mv "$dir.tmp" "$dir"
fi
mkdir -p "$cache/bin"
cat >"$cache/bin/tinygo.tmp" <<EOS
#!/bin/sh
export TINYGOROOT='$dir' TINYGO_GOCOMPATIBILITY=false GOTOOLCHAIN=$go WASMOPT='$dir/binaryen/usr/bin/wasm-opt'
exec '$dir/bin/tinygo' "\$@"
EOS
chmod +x "$cache/bin/tinygo.tmp"
mv "$cache/bin/tinygo.tmp" "$cache/bin/tinygo"
