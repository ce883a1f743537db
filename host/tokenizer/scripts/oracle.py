"""oracle.py TOKENIZER_JSON DOCS OUT: ids by Hugging Face tokenizers.

DOCS holds documents, each a uint32 length followed by its UTF-8 bytes. OUT receives, for each document, the number of
its ids and the ids, all uint32, little endian. No special tokens are added.
"""
import array
import os
import struct
import sys

from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file(sys.argv[1])
tokenizer.no_truncation()
tokenizer.no_padding()
raw = open(sys.argv[2], "rb").read()
docs, p = [], 0
while p < len(raw):
    (n,) = struct.unpack_from("<I", raw, p)
    docs.append(raw[p + 4 : p + 4 + n].decode("utf-8"))
    p += 4 + n
out = array.array("I")
assert out.itemsize == 4 and sys.byteorder == "little"
for i in range(0, len(docs), 256):
    for e in tokenizer.encode_batch(docs[i : i + 256], add_special_tokens=False):
        out.append(len(e.ids))
        out.extend(e.ids)
with open(sys.argv[3] + ".tmp%d" % os.getpid(), "wb") as f:
    out.tofile(f)
os.replace(f.name, sys.argv[3])
