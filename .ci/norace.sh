#!/usr/bin/env bash
# Runs without the race detector the tests below host that do not run under it, or run
# there with fewer rounds, with lower demands or with another allocation count:
# files with the constraint !race, names with "allocs", and bodies that
# use testdeps.Sequential, testdeps.Race or a constant that depends on it.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
found=$(git ls-files --cached --others --exclude-standard 'host/*_test.go' | while IFS= read -r f; do
	[ ! -e "$f" ] || awk '
		/^\/\/go:build/ { tagged = /!race/ && !/long|engine/; other = /long|engine|bench/ }
		/^func / { name = ""; if (match($2, /^Test[A-Za-z0-9_]*/)) name = substr($2, 1, RLENGTH) }
		name && (tagged || name ~ /[aA]llocs/ || /testdeps\.(Sequential|Race)|[^a-z]shorter[^a-z]/) { seen[name] = 1 }
		!name && /testdeps\.Sequential\(/ && FILENAME !~ /testdeps\// {
			print FILENAME ": testdeps.Sequential outside a test function" >"/dev/stderr"; exit 1 }
		END { dir = FILENAME; sub(/\/[^\/]*$/, "", dir); if (!other) for (n in seen) print "./" dir, n }' "$f"
done)
packages=$(cut -d' ' -f1 <<<"$found" | sort -u)
names=$(cut -d' ' -f2 <<<"$found" | sort -u | paste -sd'|')
echo "without the race detector: $(wc -l <<<"$found") tests of $(wc -l <<<"$packages") packages"
exec go test -run "^($names)\$" $packages
