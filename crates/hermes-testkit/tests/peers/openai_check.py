"""Asks the scripted server through the official OpenAI SDK and checks what the SDK made of the answers."""
import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="k", max_retries=0)
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}


def chat(text):
    return {"model": "peer-model", "messages": [{"role": "user", "content": text}]}


assert [m.id for m in client.models.list()] == ["peer-model"]

# Chat, plain.
answer = client.chat.completions.create(**chat("say hello"))
assert answer.choices[0].message.content == "Hello wörld 日本", answer
assert answer.choices[0].message.reasoning_content == "A greeting is due."
assert answer.choices[0].finish_reason == "stop"
assert answer.usage.total_tokens == 60 and answer.usage.prompt_tokens_details.cached_tokens == 20

# Chat, streamed through the helper that accumulates.
with client.chat.completions.stream(**chat("say hello"), stream_options={"include_usage": True}) as stream:
    kinds = [event.type for event in stream]
    final = stream.get_final_completion()
assert final.choices[0].message.content == "Hello wörld 日本"
assert final.choices[0].message.role == "assistant"
assert final.usage.completion_tokens == 10
# The empty text beside the role counts as a delta, as it does with the real service.
assert kinds.count("content.delta") == 4 and "content.done" in kinds, kinds

# Chat, tool calls streamed.
with client.chat.completions.stream(**chat("call a tool"), tools=[TOOL]) as stream:
    kinds = [event.type for event in stream]
    message = stream.get_final_completion().choices[0].message
assert [c.function.name for c in message.tool_calls] == ["get_weather", "get_time"]
assert [c.id for c in message.tool_calls] == ["call_a", "call_b"]
assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Zürich"}
assert json.loads(message.tool_calls[1].function.arguments) == {"zone": "UTC"}
plain = client.chat.completions.create(**chat("call a tool"), tools=[TOOL])
assert plain.choices[0].finish_reason == "tool_calls" and plain.choices[0].message.content == "Calling."

# Responses, plain and streamed.
answer = client.responses.create(model="peer-model", input="say hello")
assert answer.output_text == "Hello wörld 日本" and answer.status == "completed"
with client.responses.stream(model="peer-model", input="say hello") as stream:
    numbers = [event.sequence_number for event in stream]
    final = stream.get_final_response()
assert numbers == list(range(len(numbers))), numbers
assert final.output_text == "Hello wörld 日本"
assert final.output[0].type == "reasoning" and final.output[0].encrypted_content == "ZW5j"
assert final.output[0].summary[0].text == "A greeting is due."
assert final.usage.input_tokens_details.cached_tokens == 20

with client.responses.stream(model="peer-model", input="call a tool") as stream:
    done = [event for event in stream if event.type == "response.function_call_arguments.done"]
    final = stream.get_final_response()
calls = [item for item in final.output if item.type == "function_call"]
assert [c.call_id for c in calls] == ["call_a", "call_b"] and len(done) == 2
assert json.loads(calls[0].arguments) == {"city": "Zürich"}

events = list(client.responses.create(model="peer-model", input="run out", stream=True))
assert events[-1].type == "response.incomplete"
assert events[-1].response.incomplete_details.reason == "max_output_tokens"

# Errors become the SDK's own.
for ask in (lambda: client.chat.completions.create(**chat("be limited")),
            lambda: client.responses.create(model="peer-model", input="be limited")):
    try:
        ask()
        raise SystemExit("no error")
    except openai.RateLimitError as error:
        assert error.response.headers["retry-after"] == "3" and "slow down" in str(error)
        assert error.code == "rate_limit_exceeded"
print("openai", openai.__version__, "all well")
