"""Streams with the official clients while a model starts. The clients' timeout is
eight seconds without a byte, which is less than a start takes.

usage: held_client.py BASE_URL KEY MODEL          prints "ok" or fails
       held_client.py BASE_URL KEY MODEL never    expects that the model does not start
"""
import sys
import threading

import anthropic
import httpx
import openai

base, key, model = sys.argv[1:4]
never = sys.argv[4:] == ["never"]
o = openai.OpenAI(base_url=base + "/v1", api_key=key, max_retries=0, timeout=openai.Timeout(60, read=8))
a = anthropic.Anthropic(base_url=base, api_key=key, max_retries=0, timeout=anthropic.Timeout(60, read=8))
msgs = [{"role": "user", "content": "Hello, who are you?"}]
late = "The model was not started within"


def chat():
    try:
        events = list(o.chat.completions.create(model=model, messages=msgs, max_tokens=16, stream=True))
    except openai.APIError as e:
        assert never and late in e.message and e.code == "model_not_started", repr(e)
        return
    assert not never and events[-1].choices[0].finish_reason and "".join(e.choices[0].delta.content or "" for e in events), events


def completions():
    try:
        events = list(o.completions.create(model=model, prompt="Once", max_tokens=16, stream=True))
    except openai.APIError as e:
        assert never and late in e.message, repr(e)
        return
    assert not never and events[-1].choices[0].finish_reason, events


def responses():
    events = []
    try:
        for e in o.responses.create(model=model, input="Hello", max_output_tokens=16, stream=True):
            events.append(e)
    except httpx.RemoteProtocolError as e:  # the client returns the event and then reports the broken stream
        assert never, repr(e)
    if never:
        assert [e.type for e in events] == ["error"] and late in events[0].message and events[0].code == "model_not_started", events
        return
    assert events[0].type == "response.created" and events[-1].type == "response.completed", events


def messages():
    try:
        events = list(a.messages.create(model=model, max_tokens=16, messages=msgs, stream=True))
    except anthropic.APIStatusError as e:
        assert never and late in str(e.body) and e.body["error"]["type"] == "overloaded_error", repr(e)
        return
    kinds = [e.type for e in events]
    assert not never and kinds[0] == "message_start" and kinds[-1] == "message_stop", kinds


def message_stream():
    try:
        with a.messages.stream(model=model, max_tokens=16, messages=msgs) as s:
            text = "".join(s.text_stream)
            assert not never and text and s.get_final_message().content[0].text == text
    except anthropic.APIStatusError as e:
        assert never and late in str(e.body), repr(e)


failed = []


def run(f):
    try:
        f()
    except BaseException as e:
        failed.append(f"{f.__name__}: {e!r}")


threads = [threading.Thread(target=run, args=(f,)) for f in (chat, completions, responses, messages, message_stream)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("\n".join(failed) or "ok")
