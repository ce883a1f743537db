"""golden.py > ../testdata/golden.json: ids of the demo tokenizer by Hugging Face, for tests that run without Python."""
import json
import os

import tokenizers

here = os.path.dirname(os.path.abspath(__file__))
t = tokenizers.Tokenizer.from_file(os.path.join(here, "..", "demo", "tokenizer.json"))
texts = [
    "", " ", "a", "Hello, world!", "The quick brown fox jumps over the lazy dog.", "  two  spaces   three", "tab\tand\r\nline\n\n\nends  \n  x",
    "It's WE'LL don'T you'Re 'x 'ſ", "12345 6.78 ٣٤ ½ Ⅷ", "func main() { fmt.Println(\"hi\") }\n", "naïve café e\u0301 A\u030a \u1100\u1161\u11a8 각",
    "日本語の文章、中文字符。한국어 어절", "Привет, мир! Γειά σου Κόσμε", "שלום עולם مرحبا بالعالم", "😀 👨‍👩‍👧 🏳️‍🌈 🇩🇪", "\u0000\u007f\u0085\u00a0\u2028\u3000x",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", "<|im_start|><|im_end|><|im_end", "x<think>\n\n</think>\n\ny", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
    "\u0958\ufb1d\u2126\U0002f800", "a\u0345\u0301\u0316\u0323", "a" * 300, "ab" * 100, "=" * 77 + "\n", "\U0001e5f1 \U00010d41\U00011de1 \U0001e08f",
    "<|im_end|>\u0338 <|im_start|>\u0301",
]
print(json.dumps({"source": "tokenizers " + tokenizers.__version__,
                  "cases": [{"text": s, "ids": t.encode(s, add_special_tokens=False).ids} for s in texts]}, indent=0))
