#!/usr/bin/env python3
"""A driver for Kvasir's autoscaler in forty lines. Its machines are local processes.

Kvasir runs it for each order. It reads one JSON request from standard input, {"op": "list" | "apply", "pool", "desired",
"remove", "key", ...}, and writes one JSON answer to standard output, {"machines": [{"id", "url"}]}, which lists all
machines. An order is absolute ("have 3"), so that sending it twice starts no second machine. Replace start and stop
with calls of your cloud's API.
"""
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys

STATE = os.environ.get("DRIVER_STATE", "/tmp/kvasir-machines.json")
ENGINE = os.environ.get("DRIVER_ENGINE", "kvasir engine").split()


def start(n):
    with socket.socket() as s:  # a free port
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    p = subprocess.Popen(ENGINE + ["--port", str(port)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True)
    return {"id": f"machine-{n}", "url": f"http://127.0.0.1:{port}", "pid": p.pid}


def stop(m):
    try:
        os.kill(m["pid"], signal.SIGTERM)
    except ProcessLookupError:
        pass


def alive(m):
    try:
        os.kill(m["pid"], 0)
        return True
    except ProcessLookupError:
        return False


question = json.load(sys.stdin)
with open(STATE, "a+") as f:
    fcntl.flock(f, fcntl.LOCK_EX)  # a call that Kvasir has abandoned may still run
    f.seek(0)
    state = json.loads(f.read() or '{"made": 0, "machines": []}')
    machines = [m for m in state["machines"] if alive(m)]
    if question["op"] == "apply":
        keep = [m for m in machines if m["id"] not in question.get("remove", [])][: question["desired"]]
        for m in machines:
            if m not in keep:
                stop(m)
        machines = keep
        while len(machines) < question["desired"]:
            state["made"] += 1
            machines.append(start(state["made"]))
    f.seek(0)
    f.truncate()
    json.dump({"made": state["made"], "machines": machines}, f)
json.dump({"machines": [{"id": m["id"], "url": m["url"]} for m in machines]}, sys.stdout)
