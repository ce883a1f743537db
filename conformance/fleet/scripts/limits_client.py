"""Exceeds a tenant's limit of requests with the official clients.

usage: limits_client.py BASE_URL OPENAI_KEY ANTHROPIC_KEY MODEL LIMIT     prints "ok" or fails

Both keys' tenants may make LIMIT requests a minute.
"""
import datetime
import re
import sys
import time

import anthropic
import openai

base, openai_key, anthropic_key, model, limit = sys.argv[1:6]
limit = int(limit)
msgs = [{"role": "user", "content": "Hello"}]


def exhaust(ask, error):
    """Sends requests until error is raised, and returns it."""
    for n in range(5 * limit):  # the limit refills while requests are sent
        try:
            ask()
        except error as e:
            assert n >= limit - 1, f"refused after {n + 1} requests, the limit is {limit}"
            return e
    raise AssertionError(f"{5 * limit} requests passed")


def patient(ask, after):
    """Sends a request with retries, which must wait as long as Retry-After requires."""
    began = time.monotonic()
    ask()
    waited = time.monotonic() - began
    assert waited > 0.7 * after, f"answered after {waited:.2f}s, Retry-After was {after}"


# OpenAI
c = openai.OpenAI(base_url=base + "/v1", api_key=openai_key, max_retries=0, timeout=30)
raw = c.chat.completions.with_raw_response.create(model=model, messages=msgs, max_tokens=1)
assert raw.headers["x-ratelimit-limit-requests"] == str(limit), raw.headers
assert raw.headers["x-ratelimit-remaining-requests"] == str(limit - 1), raw.headers
e = exhaust(lambda: c.chat.completions.create(model=model, messages=msgs, max_tokens=1), openai.RateLimitError)
h = e.response.headers
assert e.status_code == 429 and e.code == "rate_limit_exceeded" and e.type == "rate_limit_error", e
assert h["x-ratelimit-limit-requests"] == str(limit) and h["x-ratelimit-remaining-requests"] == "0", h
assert re.fullmatch(r"(\d+m)?\d+(\.\d+)?(s|ms)", h["x-ratelimit-reset-requests"]), h
after = int(h["retry-after"])
assert 1 <= after <= 60 / limit + 1, h
retrying = c.with_options(max_retries=3)
patient(lambda: retrying.chat.completions.create(model=model, messages=msgs, max_tokens=1), after)

# Anthropic
a = anthropic.Anthropic(base_url=base, api_key=anthropic_key, max_retries=0, timeout=30)
raw = a.messages.with_raw_response.create(model=model, messages=msgs, max_tokens=1)
assert raw.headers["anthropic-ratelimit-requests-limit"] == str(limit), raw.headers
assert "x-ratelimit-limit-requests" not in raw.headers, raw.headers
e = exhaust(lambda: a.messages.create(model=model, messages=msgs, max_tokens=1), anthropic.RateLimitError)
h = e.response.headers
assert e.status_code == 429 and e.body["error"]["type"] == "rate_limit_error", e.body
assert h["anthropic-ratelimit-requests-remaining"] == "0", h
reset = datetime.datetime.fromisoformat(h["anthropic-ratelimit-requests-reset"].replace("Z", "+00:00"))
left = (reset - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
assert 0 < left < 62, h
after = int(h["retry-after"])
retrying = a.with_options(max_retries=3)
patient(lambda: retrying.messages.create(model=model, messages=msgs, max_tokens=1), after)

print("ok")
