"""Generates testdata/vllm_apis.json: bodies of the Anthropic and the responses API as vLLM converts them before it renders them.

usage: PYTHON gen_vllm_apis.py OUT     with the Python of an installed vLLM 0.32
"""
import json, sys
from unittest.mock import MagicMock

from vllm.entrypoints.anthropic.protocol import AnthropicMessagesRequest
from vllm.entrypoints.anthropic.serving import AnthropicServingMessages
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.entrypoints.openai.responses.utils import construct_input_messages, construct_tool_dicts, should_continue_final_message
from vllm.renderers import chat_utils as cu, hf


def parsed(messages, fmt, developer):
    tracker, parser = MagicMock(), MagicMock()
    parser.model_config.enable_prompt_embeds = False
    parser.mm_placeholder_storage.return_value = {}
    tracker.create_parser.return_value = parser
    out = []
    for m in messages:
        out.extend(cu._parse_chat_message_content(m, tracker, fmt, False))
    cu._postprocess_messages(out)
    if not developer and any(m["role"] == "developer" for m in out):
        out = hf._consolidate_system_messages(hf._convert_developer_to_system(out))
    return json.loads(json.dumps(out))


def anthropic(body, fmt, merge):
    try:
        r = AnthropicServingMessages.to_chat_completion_request(AnthropicMessagesRequest.model_validate(body), merge_inline_system=merge)
        for m in r.messages:
            if isinstance(m, dict) and m.get("tool_calls") is not None and not isinstance(m["tool_calls"], list):
                m["tool_calls"] = list(m["tool_calls"])
        tools = None if r.tools is None else [t.model_dump() for t in r.tools]
        return {"messages": parsed(r.messages, fmt, True), "tools": tools, "effort": r.reasoning_effort}
    except Exception as e:
        return "refused: " + type(e).__name__


def responses(body, fmt, developer):
    try:
        r = ResponsesRequest.model_validate(body)
        messages = construct_input_messages(request_instructions=r.instructions, request_input=r.input)
        return {"messages": parsed(messages, fmt, developer), "tools": construct_tool_dicts(r.tools, r.tool_choice),
                "effort": r.reasoning.effort if r.reasoning else None, "continue": should_continue_final_message(r.input)}
    except Exception as e:
        return "refused: " + type(e).__name__


def a(*messages, **kw):
    return {"model": "m", "max_tokens": 9, "messages": list(messages), **kw}


def user(*content):
    return {"role": "user", "content": content[0] if len(content) == 1 and isinstance(content[0], str) else list(content)}


def asst(*content):
    return {**user(*content), "role": "assistant"}


def text(s, **kw):
    return {"type": "text", "text": s, **kw}


def use(id="t1", name="f", input={"b": 1, "a": [1.0, 1e-7, 12345678901234567890, None, "é"]}, **kw):
    return {"type": "tool_use", "id": id, "name": name, "input": input, **kw}


def result(content, id="t1", **kw):
    return {"type": "tool_result", "tool_use_id": id, "content": content, **kw}


schema = {"properties": {"z": {"type": "string"}, "a": {}}, "required": ["z"]}
BILLING = "x-anthropic-billing-header: cch=1;"
ANTHROPIC = {
    "plain": a(user("hi")),
    "system": a(user("hi"), asst("yo"), user("more"), system="You are"),
    "system empty": a(user("hi"), system=""),
    "system blocks": a(user("hi"), system=[text("one", cache_control={"type": "ephemeral"}), text(""), text("two")]),
    "system blocks empty": a(user("hi"), system=[]),
    "system billing": a(user("hi"), system=[text(BILLING), text("You are")]),
    "system billing text": a(user("hi"), system=BILLING + "\nYou are"),
    "system billing alone": a(user("hi"), system=BILLING),
    "system image": a(user("hi"), system=[{"type": "image", "source": {}}, text("x")]),
    "inline system": a(user("hi"), {"role": "system", "content": "be brief"}, user("go"), system="You are"),
    "inline system first": a({"role": "system", "content": [text("a"), text(BILLING), text("b")]}, user("hi")),
    "inline systems": a({"role": "system", "content": "one"}, user("hi"), {"role": "system", "content": BILLING}, {"role": "system", "content": ""}, {"role": "system", "content": "two"}),
    "blocks": a(user(text("a"), text("b", cache_control={"type": "ephemeral"})), asst(text("c")), user(text(""), text("d"))),
    "no blocks": a(user(), asst(), user(text(""))),
    "text null": a(user({"type": "text"}, text("x"))),
    "tools": a(user("hi"), tools=[{"name": "f", "description": "d", "input_schema": schema}, {"name": "g", "input_schema": {"type": "object"}, "strict": True, "defer_loading": False, "extra": 1}]),
    "tools empty": a(user("hi"), tools=[]),
    "tools typed": a(user("hi"), tools=[{"type": "custom", "name": "f", "input_schema": schema}]),
    "tools server": a(user("hi"), tools=[{"type": "web_search_20250305", "name": "web_search"}]),
    "tool choice": a(user("hi"), tools=[{"name": "f", "input_schema": schema}], tool_choice={"type": "tool", "name": "f"}),
    "tool round": a(user("hi"), asst(text("let me"), use(), use("t2", "g", {})), user(result("21"), result([text("a"), text("b")], "t2"), text("and?"))),
    "tool round silent": a(user("hi"), asst(use()), user(result("21", is_error=True))),
    "result first": a(user("hi"), asst(use()), user(text("see"), result([text("x")]), text("ok"))),
    "result empty": a(user("hi"), asst(use()), user(result(None), result([], "t2"), result("", "t3"))),
    "result without id": a(user("hi"), user({"type": "tool_result", "content": "x"})),
    "result reference": a(user("hi"), user(result([{"type": "tool_reference", "tool_name": "f"}, text("x"), {"type": "tool_reference", "name": "g"}, {"type": "tool_reference"}]))),
    "result image": a(user("hi"), user(result([{"type": "image", "source": {"type": "url", "url": "http://x"}}]))),
    "result other": a(user("hi"), user(result([{"type": "search_result", "x": 1}, text("t")]))),
    "result of assistant": a(asst(result("x"), text("y")), user("hi")),
    "result list of assistant": a(asst(result([text("x")])), user("hi")),
    "use without id": a(asst({"type": "tool_use", "name": "f", "input": {}}), user("hi")),
    "use without name": a(asst({"type": "tool_use", "id": "t", "input": None}), user("hi")),
    "use of user": a(user(use(), text("x"))),
    "use text input": a(asst(use(input="x")), user("hi")),
    "thinking": a(user("hi"), asst({"type": "thinking", "thinking": "hm", "signature": "s"}, text("yo")), user("go")),
    "thinkings": a(user("hi"), asst({"type": "thinking", "thinking": "a"}, {"type": "thinking", "thinking": "b"}, use()), user(result("x"))),
    "thinking empty": a(user("hi"), asst({"type": "thinking", "thinking": ""}, text("yo")), user("go")),
    "thinking alone": a(user("hi"), asst({"type": "thinking", "thinking": "hm"}), user("go")),
    "thinking of user": a(user({"type": "thinking", "thinking": "hm"}, text("x"))),
    "redacted": a(user("hi"), asst({"type": "redacted_thinking", "data": "x"}, text("yo")), user("go")),
    "reference block": a(user({"type": "tool_reference", "tool_name": "f"}, text("x"))),
    "image": a(user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}})),
    "unknown block": a(user({"type": "document", "source": {}})),
    "unknown role": a({"role": "tool", "content": "x"}),
    "no content": a({"role": "user"}),
    "null content": a({"role": "user", "content": None}),
    "text of number": a(user(text(3))),
    "effort": a(user("hi"), output_config={"effort": "high"}),
    "thinking disabled": a(user("hi"), thinking={"type": "disabled"}),
    "thinking enabled": a(user("hi"), thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=4096),
    "addition": a(user("hi"), {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}]}, user("x"), tools=[{"name": "f", "input_schema": {}, "defer_loading": True}]),
}


def r(input, **kw):
    return {"model": "m", "input": input, **kw}


def out(*texts, **kw):
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": t} for t in texts], **kw}


def call(args='{"b": 1, "a": [1.0, 12345678901234567890]}', call="c1", **kw):
    return {"type": "function_call", "call_id": call, "name": "f", "arguments": args, **kw}


def output(o, call="c1", **kw):
    return {"type": "function_call_output", "call_id": call, "output": o, **kw}


def thought(s=None, summary=(), **kw):
    x = {"type": "reasoning", "summary": [{"type": "summary_text", "text": t} for t in summary], **kw}
    return x if s is None else {**x, "content": [{"type": "reasoning_text", "text": s}]}


def itext(s):
    return {"type": "input_text", "text": s}


u = {"role": "user", "content": "hi"}
RESPONSES = {
    "text": r("hi"),
    "empty text": r(""),
    "instructions": r("hi", instructions="You are"),
    "instructions empty": r("hi", instructions=""),
    "instructions billing": r("hi", instructions=BILLING + "\nYou are"),
    "items": r([u, {"role": "assistant", "content": "yo"}, {"type": "message", "role": "user", "content": [itext("a"), itext("b")]}]),
    "no items": r([]),
    "no items, instructions": r([], instructions="x"),
    "roles": r([{"role": "system", "content": "s"}, {"role": "developer", "content": [itext("d")]}, u, {"role": "developer", "content": "late"}]),
    "developer": r([{"role": "developer", "content": "d"}, u], instructions="i"),
    "output message": r([u, out("yo", id="msg_1", status="completed"), u]),
    "output bare": r([u, out("yo"), u]),
    "output parts": r([u, out("one", "two"), u]),
    "output empty": r([u, out(), u]),
    "output refusal": r([u, {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, u]),
    "output untyped": r([u, {"role": "assistant", "content": [{"type": "output_text", "text": "x"}]}, u]),
    "output input text": r([u, {"type": "message", "role": "assistant", "content": [itext("x"), itext("y")]}, u]),
    "output input text untyped": r([u, {"role": "assistant", "content": [itext("x")]}, u]),
    "assistant twice": r([u, out("a"), out("b"), {"role": "assistant", "content": "c"}, u]),
    "call": r([u, call(), output("21")]),
    "call with status": r([u, call(call="c9", id="fc_1", status="completed"), output("x", "c9", id="o", status="completed")]),
    "calls": r([u, call(), call("{}", "c2"), output("1"), output("2", "c2"), u]),
    "call after text": r([u, out("let me"), call(), output("1")]),
    "text after call": r([u, call(), out("done")]),
    "text after text and call": r([u, out("a"), call(), out("b"), u]),
    "call namespace": r([u, call(namespace="ns"), output("1")]),
    "call malformed": r([u, call('{"a": '), output("1")]),
    "call empty": r([u, call(""), output("1")]),
    "call list": r([u, call("[1]"), output("1")]),
    "call without id": r([u, {"type": "function_call", "name": "f", "arguments": "{}"}]),
    "custom call": r([u, {"type": "custom_tool_call", "call_id": "k", "name": "g", "input": "print(\"é\")\n"}, {"type": "custom_tool_call_output", "call_id": "k", "output": "ok"}]),
    "output parts list": r([u, call(), output([itext("a"), itext("b")])]),
    "output image": r([u, call(), output([{"type": "input_image", "image_url": "http://x", "detail": "auto"}])]),
    "output without id": r([u, {"type": "function_call_output", "output": "x"}]),
    "reasoning": r([u, thought("hm"), out("yo"), u]),
    "reasoning summary": r([u, thought(None, ["short"]), out("yo"), u]),
    "reasoning both": r([u, thought("long", ["short"], id="rs_1"), call(), output("1")]),
    "reasoning none": r([u, thought(), out("yo"), u]),
    "reasoning twice": r([u, thought("a"), thought("b"), out("yo"), u]),
    "reasoning after text": r([u, out("yo"), thought("late"), call(), output("1")]),
    "reasoning encrypted": r([u, thought("x", encrypted_content="e"), out("yo")]),
    "reasoning without summary": r([u, {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "x"}]}]),
    "image": r([{"role": "user", "content": [itext("a"), {"type": "input_image", "image_url": "http://x"}]}]),
    "text part": r([{"role": "user", "content": [text("a")]}]),
    "null content": r([{"role": "user", "content": None}]),
    "reference": r([{"type": "item_reference", "id": "x"}]),
    "other item": r([{"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "x"}}]),
    "unknown role": r([{"role": "tool", "content": "x"}]),
    "unfinished": r([u, out("half", status="incomplete")]),
    "unfinished reasoning": r([u, thought("half", status="in_progress")]),
    "unfinished text": r([u, {"type": "message", "role": "assistant", "content": "half", "status": "incomplete"}]),
    "unfinished before": r([u, out("half", status="incomplete"), u]),
    "unfinished call": r([u, call(status="in_progress")]),
    "tools": r("hi", tools=[{"type": "function", "name": "f", "description": "d", "parameters": {"b": 1, "a": 2}, "strict": True}, {"type": "function", "name": "g", "parameters": None}]),
    "tools empty": r("hi", tools=[]),
    "tools custom": r("hi", tools=[{"type": "custom", "name": "c", "description": "d"}, {"type": "custom", "name": "d"}]),
    "tools of server": r("hi", tools=[{"type": "web_search"}, {"type": "function", "name": "f", "parameters": {}, "defer_loading": True}]),
    "tools of server only": r("hi", tools=[{"type": "web_search_preview"}]),
    "tools namespace": r("hi", tools=[{"type": "namespace", "name": "ns", "description": "d", "tools": [{"type": "function", "name": "f", "parameters": {}}]}]),
    "tools of chat": r("hi", tools=[{"type": "function", "function": {"name": "f"}}]),
    "effort": r("hi", reasoning={"effort": "high"}),
    "effort null": r("hi", reasoning={"effort": None, "summary": "auto"}),
}
cases = []
for fmt in ("string", "openai"):
    for name, body in ANTHROPIC.items():
        for merge in (False, True):
            if merge and "system" not in name:
                continue
            cases.append({"name": name, "api": "messages", "format": fmt, "merge": merge, "in": body, "out": anthropic(json.loads(json.dumps(body)), fmt, merge)})
    for name, body in RESPONSES.items():
        for developer in (True, False):
            if developer and "developer" not in name and name != "roles":
                continue
            cases.append({"name": name, "api": "responses", "format": fmt, "developer": developer, "in": body, "out": responses(json.loads(json.dumps(body)), fmt, developer)})
with open(sys.argv[1], "w", encoding="utf-8") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")
print(len(cases), "bodies", sum(isinstance(c["out"], str) for c in cases), "refused")
