"""Uses the router with the official OpenAI client, as an application would.

usage: openai_client.py BASE_URL KEY MODEL     prints "ok" or fails
"""
import sys

import openai

base, key, model = sys.argv[1:4]
c = openai.OpenAI(base_url=base + "/v1", api_key=key, max_retries=0, timeout=30)
system = "You are a patient assistant who answers in short sentences. " * 40
msgs = [{"role": "system", "content": system}, {"role": "user", "content": "Hello, who are you?"}]

# models
assert model in [m.id for m in c.models.list()], "the model is not listed"
assert c.models.retrieve(model).id == model

# plain
a = c.chat.completions.create(model=model, messages=msgs, max_tokens=16)
assert a.choices[0].message.content and a.usage.prompt_tokens > 100, a
assert a.model == model, a.model
msgs += [{"role": "assistant", "content": a.choices[0].message.content}, {"role": "user", "content": "And then?"}]
b = c.chat.completions.create(model=model, messages=msgs, max_tokens=16)
cached = b.usage.prompt_tokens_details.cached_tokens
assert cached > 100, f"the second turn reports {cached} cached tokens"

# streamed, usage not requested: no usage event may reach the client
text, chunks = "", 0
for e in c.chat.completions.create(model=model, messages=msgs, max_tokens=16, stream=True):
    assert e.choices, f"an event without choices: {e}"
    assert e.usage is None, "usage that was not requested"
    text += e.choices[0].delta.content or ""
    chunks += 1
assert text and chunks > 3, (text, chunks)

# streamed, usage requested: exactly one event without choices, the last one
events = list(c.chat.completions.create(model=model, messages=msgs, max_tokens=16, stream=True,
    stream_options={"include_usage": True}))
assert [bool(e.choices) for e in events].count(False) == 1 and not events[-1].choices, "not exactly one usage event"
assert events[-1].usage.prompt_tokens_details.cached_tokens > 100, events[-1]

# completions: text and token ids
t = c.completions.create(model=model, prompt="Once upon a time", max_tokens=8)
assert t.choices[0].text and t.usage.prompt_tokens > 0
t = c.completions.create(model=model, prompt=[300, 301, 302, 303], max_tokens=8)
assert t.usage.prompt_tokens == 4, t.usage

# errors arrive as the client's own exception types, with a message
def refused(kind, status, f):
    try:
        f()
    except kind as e:
        assert e.status_code == status and e.body and e.body["message"], (e.status_code, e.body)
        assert e.response.headers["x-request-id"]
        return
    raise AssertionError(f"no {kind.__name__}")

refused(openai.NotFoundError, 404, lambda: c.chat.completions.create(model="no-such-model", messages=msgs))
refused(openai.AuthenticationError, 401,
    lambda: c.with_options(api_key="wrong").chat.completions.create(model=model, messages=msgs))
long = [{"role": "user", "content": "word " * 200_000}]
refused(openai.BadRequestError, 400, lambda: c.chat.completions.create(model=model, messages=long))
print("ok")
