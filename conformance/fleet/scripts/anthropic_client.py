"""Uses the router with the official Anthropic client, as an application would.

usage: anthropic_client.py BASE_URL KEY MODEL          prints "ok" or fails
       anthropic_client.py BASE_URL KEY MODEL full     expects that the fleet accepts no more requests
"""
import sys

import anthropic

base, key, model = sys.argv[1:4]
c = anthropic.Anthropic(base_url=base, api_key=key, max_retries=0, timeout=30)
system = [{"type": "text", "text": "You are a patient assistant who answers in short sentences. " * 40,
    "cache_control": {"type": "ephemeral"}}]
msgs = [{"role": "user", "content": "Hello, who are you?"}]


# errors arrive as the client's own exception types, with a message and an id
def refused(kind, status, word, f):
    try:
        f()
    except kind as e:
        assert e.status_code == status and e.body["type"] == "error", (e.status_code, e.body)
        assert e.body["error"]["type"] == word and e.body["error"]["message"], e.body
        assert e.request_id and e.response.headers["x-request-id"] == e.request_id, e.response.headers
        return
    raise AssertionError(f"no {kind.__name__}")


if sys.argv[4:] == ["full"]:
    refused(anthropic.RateLimitError, 429, "rate_limit_error",
        lambda: c.messages.create(model=model, max_tokens=4, messages=msgs))
    print("ok")
    sys.exit()

# plain
a = c.messages.create(model=model, max_tokens=16, system=system, messages=msgs)
assert a.type == "message" and a.role == "assistant" and a.model == model and a._request_id, a
assert a.content[0].type == "text" and a.content[0].text and a.stop_reason in ("end_turn", "max_tokens"), a
assert a.usage.input_tokens + a.usage.cache_read_input_tokens > 100 and a.usage.output_tokens > 0, a.usage
msgs += [{"role": "assistant", "content": a.content},
         {"role": "user", "content": [{"type": "text", "text": "And then?"}]}]
total = c.messages.count_tokens(model=model, system=system, messages=msgs).input_tokens
b = c.messages.create(model=model, max_tokens=16, system=system, messages=msgs)
u = b.usage
assert u.cache_read_input_tokens > 100, f"the second turn reports {u.cache_read_input_tokens} cached tokens"
assert u.input_tokens + u.cache_read_input_tokens == total, (u, total)

# streamed: the raw events, and the client's result
kinds = [e.type for e in c.messages.create(model=model, max_tokens=16, system=system, messages=msgs, stream=True)]
assert kinds[0] == "message_start" and kinds[-1] == "message_stop" and kinds.count("content_block_delta") > 3, kinds
with c.messages.stream(model=model, max_tokens=16, system=system, messages=msgs) as s:
    text = "".join(s.text_stream)
    m = s.get_final_message()
assert text and m.content[0].text == text, (text, m)
assert m.usage.cache_read_input_tokens > 100 and m.usage.output_tokens > 0, m.usage

# tools: definitions, a completed call and its result in the history
tools = [{"name": "weather", "description": "tells the weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]
round = [{"role": "user", "content": "How is Oslo?"},
         {"role": "assistant", "content": [{"type": "text", "text": "I look."},
             {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}]},
         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1",
             "content": [{"type": "text", "text": "rain"}]}]}]
t = c.messages.create(model=model, max_tokens=16, system=system, messages=round, tools=tools,
    tool_choice={"type": "auto"})
again = c.messages.create(model=model, max_tokens=16, system=system, messages=round, tools=tools,
    tool_choice={"type": "auto"})
assert t.content[0].text and again.usage.cache_read_input_tokens > t.usage.cache_read_input_tokens, (
    t.usage, again.usage)

refused(anthropic.NotFoundError, 404, "not_found_error",
    lambda: c.messages.create(model="no-such-model", max_tokens=4, messages=msgs))
refused(anthropic.NotFoundError, 404, "not_found_error", lambda: c.messages.batches.list())
refused(anthropic.AuthenticationError, 401, "authentication_error",
    lambda: c.with_options(api_key="wrong").messages.create(model=model, max_tokens=4, messages=msgs))
refused(anthropic.AuthenticationError, 401, "authentication_error",
    lambda: c.with_options(api_key="wrong").messages.count_tokens(model=model, messages=msgs))
refused(anthropic.BadRequestError, 400, "invalid_request_error",
    lambda: c.messages.create(model=model, max_tokens=4, messages=msgs, extra_body={"container": "x"}))
print("ok")
