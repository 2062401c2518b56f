"""The gateway's API through the official OpenAI SDK for Python. Arguments: base URL, key."""
import sys

from openai import APIStatusError, AuthenticationError, BadRequestError, NotFoundError, OpenAI

url, key = sys.argv[1], sys.argv[2]
client = OpenAI(base_url=url, api_key=key, max_retries=0)


def ask(text, **more):
    return client.chat.completions.create(model="hermes-agent", messages=[{"role": "user", "content": text}], **more)


assert [model.id for model in client.models.list()] == ["hermes-agent"]

answer = ask("say hello")
assert answer.choices[0].message.content == "Hello wörld 日本", answer
assert answer.choices[0].finish_reason == "stop"
assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens

# Streaming with tool progress: every chunk must be readable by the strict client.
words, finish, roles = [], None, []
for chunk in ask("use a tool", stream=True, stream_options={"include_usage": True}):
    for choice in chunk.choices:
        words.append(choice.delta.content or "")
        roles.append(choice.delta.role)
        finish = choice.finish_reason or finish
assert "".join(words).strip() == "The file says hi.", words
assert finish == "stop" and roles[0] == "assistant"

# Several messages with parts, as front ends send them.
parts = client.chat.completions.create(
    model="hermes-agent",
    messages=[
        {"role": "system", "content": "Answer briefly."},
        {"role": "user", "content": [{"type": "text", "text": "say hello"}]},
    ],
)
assert parts.choices[0].message.content == "Hello wörld 日本"

first = client.responses.create(model="hermes-agent", input="say hello", instructions="Be kind.")
assert first.output_text == "Hello wörld 日本" and first.status == "completed", first
second = client.responses.create(model="hermes-agent", input="how many words?", previous_response_id=first.id)
assert second.output_text == "Two words.", second
assert client.responses.retrieve(first.id).output_text == first.output_text
used = client.responses.create(model="hermes-agent", input="use a tool")
assert [item.type for item in used.output] == ["mcp_call", "message"], used.output
with client.responses.stream(model="hermes-agent", input="say hello") as stream:
    text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
    assert text == "Hello wörld 日本" and stream.get_final_response().status == "completed"
client.responses.delete(first.id)
try:
    client.responses.retrieve(first.id)
    raise AssertionError("it should be gone")
except NotFoundError:
    pass

try:
    client.chat.completions.create(model="hermes-agent", messages=[])
    raise AssertionError("no messages is no question")
except BadRequestError as error:
    assert error.param == "messages", error
try:
    OpenAI(base_url=url, api_key="wrong", max_retries=0).models.list()
    raise AssertionError("a wrong key must not open")
except AuthenticationError as error:
    assert error.code == "invalid_api_key"
try:
    ask("break upstream")
    raise AssertionError("an upstream failure is no answer")
except APIStatusError as error:
    assert error.status_code == 502, error

# A client that leaves in the middle.
stream = ask("talk for ever", stream=True)
for chunk in stream:
    if chunk.choices and chunk.choices[0].delta.content:
        break
stream.close()
print("openai python all well")
