"""Writes chain.jsonl: an audit log made without the router, from the format's
description alone. Run it in its folder: python3 chain.py > chain.jsonl"""
import hashlib
import json

EVENTS = [
    ("2026-01-02T03:04:05.000000006Z", "admin_token", "config:reload", "config", "ok", {}),
    ("2026-01-02T03:04:06.120000000Z", "key:abc", "key:issue", "tenant/acme", "begun", {"id": "x", "a": "1"}),
    ("2026-01-02T03:04:07.000000000Z", "jwt:acme/Zoë", "plugin:push", "plugin/<b>&\"q\"", "refused", {"why": "团队\n"}),
]


def go(text):  # encoding/json escapes what could end a script element
    for c in "<>&":
        text = text.replace(c, "\\u%04x" % ord(c))
    return text


prev = bytes(32)
for seq, (time, actor, verb, obj, result, detail) in enumerate(EVENTS, 1):
    record = {"seq": seq, "time": time, "actor": actor, "verb": verb, "object": obj, "result": result}
    if detail:
        record["detail"] = dict(sorted(detail.items()))
    record["prev"] = prev.hex()
    body = go(json.dumps(record, separators=(",", ":"), ensure_ascii=False))
    prev = hashlib.sha256(prev + body.encode()).digest()
    print(body[:-1] + ',"hash":"' + prev.hex() + '"}')
