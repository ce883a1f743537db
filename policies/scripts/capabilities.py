#!/usr/bin/env python3
"""Writes capabilities.json: what OPA knows, without what a decision must not use.

usage: opa capabilities --current | capabilities.py > ../capabilities.json

A decision is a pure function of input, data and policy, so that it may be
cached: no network, clock, chance, environment or token verification (identity
is settled before). Rules that read everything (walk) or compile at run time
are left out too. One line for each builtin, so that a newer OPA shows as a
readable difference.
"""
import json
import sys

PREFIXES = ("http.", "time.", "rand.", "uuid.", "io.jwt.", "opa.", "net.lookup", "net.cidr_expand", "json.match_schema",
            "json.verify_schema", "providers.", "graphql.", "crypto.x509.", "crypto.parse_private_keys",
            "rego.parse_module", "internal.test_case", "walk", "trace")

caps = json.load(sys.stdin)
builtins = [b for b in caps["builtins"] if not b.get("nondeterministic") and not b["name"].startswith(PREFIXES)]
rest = {"allow_net": [], "features": [f for f in caps["features"] if not f.startswith("rego_v2")], "future_keywords": []}
lines = ",\n".join("    " + json.dumps(b, separators=(",", ":"), sort_keys=True) for b in sorted(builtins, key=lambda b: b["name"]))
tail = ",\n".join(f'  "{k}": {json.dumps(v)}' for k, v in rest.items())
print('{\n  "builtins": [\n' + lines + "\n  ],\n" + tail + ',\n  "wasm_abi_versions": []\n}')
