"""A publisher of cache events on libzmq, msgspec and msgpack, as engines have it.

Speaks lines of JSON: commands on stdin, answers on stdout. Events are random; an
answer tells what they mean, worked out from how they were made, never by decoding.

  {"cmd": "publish", "n": 5, "drop": false}  publish n batches (drop: number and keep, do not send)
  {"cmd": "restart", "n": 3, "burst": 9}     new sockets on the same ports, count from 0, n + burst batches at once
  {"cmd": "burst", "n": 9}                   n small batches as fast as they go
"""

import json
import os
import random
import sys
import time
from collections import deque
from typing import Any

import msgpack
import msgspec
import zmq

rng = random.Random(int(sys.argv[1]))
END = (-1).to_bytes(8, "big", signed=True)


class Batch(msgspec.Struct, array_like=True, omit_defaults=True):
    ts: float
    events: list[Any]
    data_parallel_rank: int | None = None


class MapEvent(msgspec.Struct, omit_defaults=True, tag=True):
    pass


class ArrayEvent(msgspec.Struct, array_like=True, omit_defaults=True, tag=True):
    pass


def stored(base):
    class BlockStored(base):
        block_hashes: list[Any]
        parent_block_hash: Any
        token_ids: list[int]
        block_size: int
        lora_id: int | None
        medium: str | None
        lora_name: str | None
        extra_keys: list[Any] | None = None
        group_idx: int | None = None
        kv_cache_spec_kind: str | None = None
        kv_cache_spec_sliding_window: int | None = None

    return BlockStored


def removed(base):
    class BlockRemoved(base):
        block_hashes: list[Any]
        medium: str | None
        group_idx: int | None = None

    return BlockRemoved


def cleared(base):
    class AllBlocksCleared(base):
        pass

    return AllBlocksCleared


FORMS = {f: (stored(b), removed(b), cleared(b)) for f, b in (("map", MapEvent), ("array", ArrayEvent))}
MEDIA = {None: "gpu", "GPU": "gpu", "gpu": "gpu", "CPU": "host", "CPU_PINNED": "host", "Disk": "disk", "STORAGE": "disk", "pool": "external"}


def hash_value():
    """A hash as it is sent, and the 64 bits it stands for."""
    h = rng.getrandbits(rng.choice((7, 8, 16, 32, 64)))
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(24) + h.to_bytes(8, "big"), h
    if kind == 1:
        return h - (1 << 64) if h >= 1 << 63 else h, h
    return h, h


def token():
    return rng.getrandbits(rng.choice((6, 8, 16, 18, 32)))


def event(form):
    """A random event and the line that describes it; "" if it is to be left out."""
    Stored, Removed, Cleared = FORMS[form]
    medium = rng.choice(list(MEDIA))
    where = MEDIA[medium]
    r = rng.random()
    if r < 0.05:
        return Cleared(), "cleared gpu h=[]"
    pairs = [hash_value() for _ in range(rng.choice((1, 1, 2, 5, 40)))]
    sent, meant = [p[0] for p in pairs], " ".join(str(p[1]) for p in pairs)
    if r < 0.25:
        return Removed(sent, medium, *rng.choice(((), (0,)))), f"removed {where} h=[{meant}]"
    block = rng.choice((1, 2, 16))
    tokens = [token() for _ in range(block * len(sent))]
    line = f"stored {where} h=[{meant}]"
    parent = None
    if rng.random() < 0.5:
        parent, p = hash_value()
        line += f" p={p}"
    line += f" t=[{' '.join(map(str, tokens))}] b={block}"
    if rng.random() < 0.1:  # a group that is not indexed, or tokens that do not cover the blocks
        if rng.random() < 0.5:
            return Stored(sent, parent, tokens, block, None, medium, None, None, 3, "sliding_window", 64), ""
        return Stored(sent, parent, tokens[1:], block, None, medium, None), ""
    lora = rng.choice((None, None, "adapter-ü"))
    salt = rng.choice((None, "c2FsdA" * 7)) if parent is None else None
    keys, marks = [], ""
    for i in range(len(sent)):
        k = [lora] if lora else []
        image = rng.random() < 0.1
        if image:
            k.append(["image", rng.randrange(-20, 20)])
        if salt and i == 0:
            k.append(salt)
        marks += "x" if image else "-"
        keys.append(k or None)
    if "x" in marks:
        line += f" x={marks}"
    if lora:
        line += f" a={lora}"
    if salt:
        line += f" s={salt}"
    if not any(keys) and rng.random() < 0.5:
        keys = None
    return Stored(sent, parent, tokens, block, 7 if lora else None, medium, lora, keys, 0, "full_attention"), line


def junk(depth=0):
    """Anything msgpack can say."""
    kind = rng.randrange(9 if depth < 3 else 6)
    if kind == 0:
        return None
    if kind == 1:
        return rng.getrandbits(rng.randrange(1, 65)) * rng.choice((1, 1, 0))
    if kind == 2:
        return -rng.getrandbits(rng.randrange(1, 63))
    if kind == 3:
        return rng.choice((True, 1.5, float("inf")))
    if kind == 4:
        return "x" * rng.choice((0, 5, 40, 300))
    if kind == 5:
        return rng.randbytes(rng.choice((0, 5, 300)))
    if kind == 6:
        return [junk(depth + 1) for _ in range(rng.choice((0, 3, 20)))]
    if kind == 7:
        return {str(i): junk(depth + 1) for i in range(rng.choice((0, 3, 20)))}
    return msgpack.ExtType(5, rng.randbytes(rng.choice((1, 2, 3, 4, 8, 16, 300))))


def batch(ts):
    """A random batch: its bytes, and the lines of its events."""
    form = rng.choice(("map", "array"))
    events, lines = [], []
    for _ in range(rng.choice((1, 1, 3, 20))):
        if rng.random() < 0.05:
            events.append(junk())
            continue
        e, line = event(form)
        events.append(e)
        if line:
            lines.append(line)
    if any(isinstance(e, msgpack.ExtType) or contains_ext(e) for e in events):
        plain = [e if not isinstance(e, msgspec.Struct) else msgspec.to_builtins(e, builtin_types=(bytes,)) for e in events]
        return msgpack.packb([ts, plain, 0]), lines
    if rng.random() < 0.2:
        return msgpack.packb({"data_parallel_rank": 0, "events": msgspec.to_builtins(events, builtin_types=(bytes,)), "ts": ts}), lines
    return msgspec.msgpack.encode(Batch(ts, events, rng.choice((None, 0)))), lines


def contains_ext(v):
    if isinstance(v, msgpack.ExtType):
        return True
    if isinstance(v, dict):
        return any(contains_ext(x) for x in v.values())
    return isinstance(v, list) and any(contains_ext(x) for x in v)


class Publisher:
    def __init__(self):
        self.ctx = zmq.Context()
        self.ports = [0, 0]
        self.layout = 0
        self.open()

    def open(self):
        self.seq, self.buffer = 0, deque(maxlen=50_000)
        self.pub, self.rep = self.ctx.socket(zmq.PUB), self.ctx.socket(zmq.ROUTER)
        self.pub.set_hwm(100_000)
        self.rep.set_hwm(100_000)
        for i, s in enumerate((self.pub, self.rep)):
            for _ in range(100):
                try:
                    s.bind(f"tcp://127.0.0.1:{self.ports[i] or '*'}")
                    break
                except zmq.ZMQError:
                    time.sleep(0.05)
            self.ports[i] = int(s.getsockopt_string(zmq.LAST_ENDPOINT).rsplit(":", 1)[1])

    def close(self):
        self.pub.close(linger=0)
        self.rep.close(linger=0)

    def publish(self, payload, drop=False):
        s = self.seq.to_bytes(8, "big")
        self.seq += 1
        if not drop:
            self.pub.send_multipart((b"kv", s, payload))
        self.buffer.append((s, payload))

    def replay(self):
        frames = self.rep.recv_multipart()
        if len(frames) != 3:
            return
        who, _, start = frames
        self.layout ^= 1  # both layouts that vLLM has had
        topic = () if self.layout else (b"kv",)
        for s, payload in self.buffer:
            if s >= start:
                self.rep.send_multipart((who, b"", *topic, s, payload))
        self.rep.send_multipart((who, b"", *topic[:0], END, b"") if self.layout else (who, b"", b"", END, b""))

    def random(self, n, drop=False):
        want = []
        for _ in range(n):
            ts = time.time()
            payload, lines = batch(ts)
            want.append([self.seq, lines])
            self.publish(payload, drop)
        return want

    def burst(self, n):
        first = self.seq
        payload = msgspec.msgpack.encode(Batch(time.time(), [FORMS["map"][2]()], 0))
        for _ in range(n):
            self.publish(payload)
        return [[first + i, ["cleared gpu h=[]"]] for i in range(n)]

    def command(self, c):
        if c["cmd"] == "restart":
            self.close()
            self.open()
            return self.random(c["n"]) + self.burst(c.get("burst", 0))
        if c["cmd"] == "burst":
            return self.burst(c["n"])
        return self.random(c["n"], c.get("drop", False))


def main():
    p = Publisher()
    print(json.dumps({"pub": p.ports[0], "replay": p.ports[1]}), flush=True)
    pending = b""
    while True:
        poller = zmq.Poller()
        poller.register(0, zmq.POLLIN)
        poller.register(p.rep, zmq.POLLIN)
        ready = dict(poller.poll())
        if p.rep in ready:
            p.replay()
        if 0 in ready:
            got = os.read(0, 1 << 16)
            if not got:
                return
            *lines, pending = (pending + got).split(b"\n")
            for line in lines:
                print(json.dumps(p.command(json.loads(line))), flush=True)


main()
