"""Uses the router with the responses API of the official OpenAI client.

usage: responses_client.py BASE_URL KEY MODEL          prints "ok" or fails
       responses_client.py BASE_URL KEY MODEL full     expects that the fleet accepts no more requests
"""
import sys

import openai

base, key, model = sys.argv[1:4]
c = openai.OpenAI(base_url=base + "/v1", api_key=key, max_retries=0, timeout=30)
instructions = "You are a patient assistant who answers in short sentences. " * 40


# errors arrive as the client's own exception types, with a message
def refused(kind, status, f):
    try:
        f()
    except kind as e:
        assert e.status_code == status and e.body and e.body["message"], (e.status_code, e.body)
        assert e.response.headers["x-request-id"]
        return e
    raise AssertionError(f"no {kind.__name__}")


if sys.argv[4:] == ["full"]:
    refused(openai.RateLimitError, 429, lambda: c.responses.create(model=model, input="x"))
    print("ok")
    sys.exit()

# plain: a text, then items, among them the model's previous output
a = c.responses.create(model=model, instructions=instructions, input="Hello, who are you?", max_output_tokens=16)
assert a.id.startswith("resp_") and a.model == model and a.output_text and a.usage.input_tokens > 100, a
items = [{"role": "user", "content": "Hello, who are you?"}, *[o.model_dump(exclude_none=True) for o in a.output],
         {"role": "user", "content": [{"type": "input_text", "text": "And then?"}]}]
b = c.responses.create(model=model, instructions=instructions, input=items, max_output_tokens=16)
assert b.usage.input_tokens_details.cached_tokens > 100, b.usage

# streamed
events = list(c.responses.create(model=model, instructions=instructions, input=items, max_output_tokens=16,
    stream=True))
assert events[0].type == "response.created" and events[-1].type == "response.completed", [e.type for e in events]
assert [e.sequence_number for e in events] == list(range(len(events)))
text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
last = events[-1].response
assert text and last.output_text == text and last.usage.input_tokens_details.cached_tokens > 100, events[-1]
with c.responses.stream(model=model, instructions=instructions, input=items, max_output_tokens=16) as s:
    for _ in s:
        pass
    assert s.get_final_response().output_text == text

# tools: definitions, a completed call and its output among the items
tools = [{"type": "function", "name": "weather", "description": "tells the weather", "strict": True,
          "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
              "additionalProperties": False}}]
round = [{"role": "user", "content": "How is Oslo?"},
         {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{\"city\": \"Oslo\"}"},
         {"type": "function_call_output", "call_id": "call_1", "output": "rain"}]
t = c.responses.create(model=model, instructions=instructions, input=round, tools=tools, max_output_tokens=16)
again = c.responses.create(model=model, instructions=instructions, input=round, tools=tools, max_output_tokens=16)
before, after = t.usage.input_tokens_details.cached_tokens, again.usage.input_tokens_details.cached_tokens
assert t.output_text and after > before, (t.usage, again.usage)

refused(openai.NotFoundError, 404, lambda: c.responses.create(model="no-such-model", input="x"))
e = refused(openai.NotFoundError, 404,
    lambda: c.responses.create(model=model, input="x", previous_response_id="resp_of_somebody"))
assert e.code == "response_not_found" and e.param == "previous_response_id", e.body
refused(openai.NotFoundError, 404, lambda: c.responses.retrieve(a.id))
refused(openai.AuthenticationError, 401,
    lambda: c.with_options(api_key="wrong").responses.create(model=model, input="x"))
refused(openai.BadRequestError, 400, lambda: c.responses.create(model=model, input="x", background=True))
refused(openai.BadRequestError, 400, lambda: c.responses.create(model=model, input="word " * 200_000))
print("ok")
