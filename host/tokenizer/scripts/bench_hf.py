"""bench_hf.py [DIR]: MB/s of Hugging Face tokenizers on the texts of BenchmarkEncode, one thread.

DIR holds english.txt, code.txt and multilingual.txt, as written by `go test -run TestBenchTexts -bench-texts DIR
./bpe`; without DIR the script runs that command itself. It prints one line per measurement, in the format of
`go test -bench`.
"""
import os
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers
from tokenizers import Tokenizer

here = os.path.dirname(os.path.abspath(__file__))
cache = os.environ.get("KVASIR_CACHE") or os.path.expanduser("~/.cache/kvasir")


def documents(raw, size):
    docs, p = [], 0
    while p < len(raw):
        e = min(p + size, len(raw))
        while e < len(raw) and raw[e] & 0xC0 == 0x80:
            e += 1
        docs.append(raw[p:e].decode())
        p = e
    return docs


def main(folder):
    for family in ("llama3_1", "qwen3", "gptoss", "gpt2"):
        t = Tokenizer.from_file(os.path.join(cache, "tokenizers", family, "tokenizer.json"))
        for kind in ("english", "code", "multilingual"):
            with open(os.path.join(folder, kind + ".txt"), "rb") as f:
                raw = f.read(1_000_000)
            raw = raw.decode("utf-8", "ignore").encode()
            for size in (4096, 409600):
                docs = documents(raw, size)
                t0 = time.process_time()
                for d in docs:
                    t.encode(d, add_special_tokens=False).ids
                dt = time.process_time() - t0
                print("HuggingFace%s/family=%s/kind=%s/size=%d %.2f MB/s" % (tokenizers.__version__, family, kind, size, len(raw) / 1e6 / dt), flush=True)


if len(sys.argv) > 1:
    main(sys.argv[1])
else:
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(["go", "test", "-count=1", "-run", "^TestBenchTexts$", ".", "-bench-texts", d], cwd=os.path.join(here, "..", "bpe"),
                       check=True, stdout=subprocess.DEVNULL)
        main(d)
