# Reads an engine's events with libzmq and msgspec as a consumer of vLLM's would
# and prints what they come to, one JSON line.
# usage: reader.py PUB REPLAY TOPIC BATCHES [arrays]
import hashlib, json, pickle, struct, sys
from typing import Any, Optional, Union

import msgpack, msgspec, zmq

pub, replay, topic, batches = sys.argv[1], sys.argv[2], sys.argv[3].encode(), int(sys.argv[4])
arrays = len(sys.argv) > 5


# The structs of vllm/distributed/kv_events.py, 0.32 and (arrays) before 0.24.
class Event(msgspec.Struct, array_like=arrays, omit_defaults=True, gc=False, tag=True):
    pass


class BlockStored(Event):
    block_hashes: list[Union[bytes, int]]
    parent_block_hash: Optional[Union[bytes, int]]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str]
    lora_name: Optional[str]
    extra_keys: Optional[list[Optional[tuple[Any, ...]]]] = None
    group_idx: Optional[int] = None
    kv_cache_spec_kind: Optional[str] = None
    kv_cache_spec_sliding_window: Optional[int] = None


class BlockRemoved(Event):
    block_hashes: list[Union[bytes, int]]
    medium: Optional[str]
    group_idx: Optional[int] = None


class AllBlocksCleared(Event):
    pass


class Batch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    ts: float
    events: list[Union[BlockStored, BlockRemoved, AllBlocksCleared]]
    data_parallel_rank: Optional[int] = None


decoder = msgspec.msgpack.Decoder(Batch)
encoder = msgspec.msgpack.Encoder()


def sha256(v):
    return hashlib.sha256(pickle.dumps(v, protocol=5)).digest()


def number(h):
    return int.from_bytes(h, "big") & (2**64 - 1)


blocks, chains = set(), {}  # held; hash → whole digest
counts = dict(stored=0, removed=0, cleared=0, bytes_differ=0, wrong_hash=0)


def check_hashes(e):
    parent = sha256("vllm-none-hash") if e.parent_block_hash is None else chains[e.parent_block_hash]
    for i, h in enumerate(e.block_hashes):
        keys = []
        for k in (e.extra_keys[i] or ()) if e.extra_keys else ():
            keys.append(("lora", k, "/adapters/" + k) if k == e.lora_name else ("cache_salt", k))
        tokens = tuple(e.token_ids[i * e.block_size : (i + 1) * e.block_size])
        parent = sha256((parent, tokens, tuple(keys) or None))
        chains[h] = parent
        if number(parent) != h:
            counts["wrong_hash"] += 1


def apply(payload):
    batch = decoder.decode(payload)
    assert batch.data_parallel_rank == 0 and batch.ts > 1e9
    msgpack.unpackb(payload)
    if encoder.encode(batch) != payload:  # msgspec itself would have written these bytes
        counts["bytes_differ"] += 1
    for e in batch.events:
        if isinstance(e, BlockStored):
            assert len(e.token_ids) == e.block_size * len(e.block_hashes)
            assert not blocks.intersection(e.block_hashes)
            check_hashes(e)
            blocks.update(e.block_hashes)
            counts["stored"] += len(e.block_hashes)
        elif isinstance(e, BlockRemoved):
            for h in e.block_hashes:
                blocks.remove(h)
            counts["removed"] += len(e.block_hashes)
        else:
            blocks.clear()
            counts["cleared"] += 1


ctx = zmq.Context()
sub = ctx.socket(zmq.SUB)
sub.setsockopt(zmq.RCVTIMEO, 20000)
sub.connect(pub)
sub.setsockopt(zmq.SUBSCRIBE, topic)
sys.stdout.write("subscribed\n")
sys.stdout.flush()
live = []
while len(live) < batches:
    frames = sub.recv_multipart()
    assert len(frames) == 3 and frames[0] == topic, frames
    assert struct.unpack(">Q", frames[1])[0] == len(live)
    live.append(frames[2])
    apply(frames[2])

dealer = ctx.socket(zmq.DEALER)
dealer.setsockopt(zmq.RCVTIMEO, 20000)
dealer.connect(replay)
dealer.send_multipart([b"", struct.pack(">Q", 0)])
again = []
while True:
    frames = dealer.recv_multipart()
    assert len(frames) == 4 and frames[0] == b"", frames
    if frames[2] == b"\xff" * 8:
        assert frames[1] == frames[3] == b""
        break
    assert struct.unpack(">Q", frames[2])[0] == len(again)
    again.append(frames[3])
req = ctx.socket(zmq.REQ)  # gets the first answer only
req.setsockopt(zmq.RCVTIMEO, 20000)
req.connect(replay)
req.send(struct.pack(">Q", 3))
first = req.recv_multipart()
assert first[0] == topic and struct.unpack(">Q", first[1])[0] == 3
print(json.dumps(dict(counts, blocks=sorted(blocks), same=again == live)))
ctx.destroy(linger=0)
