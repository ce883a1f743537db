"""Writes mask.json: what upstream OPA makes of masks in its own decision log.
Run it in its folder: python3 mask.py OPA > mask.json, with the opa command that
policies/scripts/deps.sh builds."""
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

INPUT = {"tenant": {"id": "acme", "user": "u-17", "groups": ["eng"], "auth": {"method": "jwt"}},
         "request": {"model": "m", "labels": {"data_class": "phi", "a/b": "x", "m~n": "y"}}}
RESULT = {"allow": True, "reason": "ok", "constraints": [{"label": "pool", "op": "in", "values": ["p"]}]}
USER = "/input/tenant/user"


def rm(path):
    return {"op": "remove", "path": path}


def put(path, value):
    return {"op": "upsert", "path": path, "value": value}


CASES = {
    "nothing": [], "a path": [USER], "two paths": [USER, "/input/request/labels"],
    "absent path": ["/input/nobody"], "absent below": ["/input/tenant/x/y"], "through a word": ["/input/tenant/id/x"],
    "all of the input": ["/input"], "all of the result": ["/result"], "in the result": ["/result/reason"],
    "escaped slash": ["/input/request/labels/a~1b"], "escaped tilde": ["/input/request/labels/m~0n"], "escaped word": ["/input/tenant/us%65r"],
    "remove as object": [rm(USER)], "upsert": [put(USER, "***")], "upsert of a new name": [put("/input/tenant/hash", 5)],
    "upsert of an object": [put("/input/request", {"x": [1]})], "upsert below nothing": [put("/input/a/b", 1)], "upsert through a word": [put("/input/tenant/id/x", 1)],
    "both": ["/input/tenant/groups", put(USER, None)], "twice": [USER, rm(USER)], "in a list": ["/input/tenant/groups/0"],
    "into a list": [put("/input/tenant/groups/0", "x")], "upsert of the result": [put("/result", {"allow": False})],
}

out = {"input": INPUT, "result": RESULT, "cases": {}}
for name, rules in CASES.items():
    mask = "{" + ", ".join(map(json.dumps, rules)) + "}" if rules else "set()"
    with tempfile.TemporaryDirectory() as d:
        open(d + "/p.rego", "w").write("package kvasir\n\ndecision := " + json.dumps(RESULT) + "\n")
        open(d + "/m.rego", "w").write("package system.log\n\nmask := " + mask + "\n")
        p = subprocess.Popen([sys.argv[1], "run", "--server", "--addr", "127.0.0.1:0", "--disable-telemetry", "--set", "decision_logs.console=true", "--log-format", "json", d],
                             stderr=subprocess.PIPE, text=True)
        port, line = None, ""
        for line in p.stderr:
            m = re.search(r'"addrs":\["127.0.0.1:(\d+)"\]', line)
            if m and m.group(1) != "0":
                port = m.group(1)
                break
            if "Initializing server" in line:
                break
        if port is None:
            time.sleep(0.5)
            found = subprocess.run(["sh", "-c", "ls -l /proc/%d/fd | grep -o 'socket:\\[[0-9]*' | grep -o '[0-9]*'" % p.pid], capture_output=True, text=True).stdout.split()
            for row in open("/proc/%d/net/tcp" % p.pid):
                f = row.split()
                if len(f) > 9 and f[3] == "0A" and f[9] in found:
                    port = str(int(f[1].split(":")[1], 16))
        req = urllib.request.Request("http://127.0.0.1:%s/v1/data/kvasir/decision" % port, json.dumps({"input": INPUT}).encode(), {"Content-Type": "application/json"})
        urllib.request.urlopen(req).read()
        for line in p.stderr:
            e = json.loads(line)
            if e.get("decision_id"):
                break
        p.terminate()
        p.wait()
        out["cases"][name] = {"rules": rules, "keys": sorted(e), **{k: e.get(k) for k in ("input", "result", "erased", "masked", "path")}}
print(json.dumps(out, indent=None).replace('}, "', '},\n"'))
