"""Asks the scripted server through the official Anthropic SDK and checks what the SDK made of the answers."""
import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="k", max_retries=0)


def ask(text):
    return {"model": "peer-model", "max_tokens": 100, "messages": [{"role": "user", "content": text}]}


answer = client.messages.create(**ask("say hello"))
assert [b.type for b in answer.content] == ["thinking", "text"], answer
assert answer.content[1].text == "Hello wörld 日本" and answer.content[0].signature == "c2ln"
assert answer.stop_reason == "end_turn" and answer.role == "assistant"

with client.messages.stream(**ask("say hello")) as stream:
    kinds = [event.type for event in stream]
    final = stream.get_final_message()
assert final.content[0].thinking == "A greeting is due." and final.content[0].signature == "c2ln"
assert final.content[1].text == "Hello wörld 日本"
assert final.usage.input_tokens == 30 and final.usage.cache_read_input_tokens == 20
assert final.usage.output_tokens == 10
assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
assert kinds.count("text") == 3 and kinds.count("thinking") == 2 and kinds.count("signature") == 1, kinds

with client.messages.stream(**ask("call a tool")) as stream:
    final = stream.get_final_message()
assert [b.type for b in final.content] == ["text", "tool_use", "tool_use"]
assert final.content[1].input == {"city": "Zürich"} and final.content[1].id == "call_a"
assert final.content[2].input == {"zone": "UTC"} and final.stop_reason == "tool_use"

raw = [event.type for event in client.messages.create(**ask("say hello"), stream=True)]
assert raw[:2] == ["message_start", "content_block_start"], raw

assert client.messages.create(**ask("run out")).stop_reason == "max_tokens"
try:
    client.messages.create(**ask("be limited"))
    raise SystemExit("no error")
except anthropic.RateLimitError as error:
    assert error.response.headers["retry-after"] == "3"
    assert error.body["error"]["type"] == "rate_limit_error"
print("anthropic", anthropic.__version__, "all well")
