"""The official Anthropic client for Python. It checks every event against its types."""

from anthropic import Anthropic, APIStatusError
from ask import QUESTION, URL, ask_all, tools


def client(retries):
    return Anthropic(base_url=URL, api_key="test", max_retries=retries, _strict_response_validation=True)


REQUEST = {
    "model": "scripted",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": QUESTION}],
    "tools": tools(
        lambda name, description, schema: {"name": name, "description": description, "input_schema": schema}
    ),
}


def report(message):
    joined = lambda kind, key: "".join(getattr(block, key) for block in message.content if block.type == kind)
    usage = message.usage
    return {
        "thinking": joined("thinking", "thinking"),
        "seal": joined("thinking", "signature") + joined("redacted_thinking", "data"),
        "text": joined("text", "text"),
        "calls": [
            {"id": block.id, "name": block.name, "arguments": block.input}
            for block in message.content
            if block.type == "tool_use"
        ],
        "usage": {
            "input": usage.input_tokens,
            "cacheRead": usage.cache_read_input_tokens,
            "cacheWrite": usage.cache_creation_input_tokens,
            "output": usage.output_tokens,
            "thinking": usage.output_tokens_details.thinking_tokens,
        },
        "stop": message.stop_reason,
    }


def stream(retries):
    with client(retries).messages.stream(**REQUEST) as stream:
        text = "".join(stream.text_stream)
        found = report(stream.get_final_message())
    assert text == found["text"], text
    return found


ask_all(
    {
        "stream": lambda: stream(0),
        "retry": lambda: stream(2),
        "whole": lambda: report(client(0).messages.create(**REQUEST)),
        "models": lambda: {"models": [model.id for model in client(0).models.list().data]},
    },
    lambda error: (getattr(error, "body", None) or {}).get("error"),
    # An error in the middle of a stream has the status with which the stream began.
    lambda error: isinstance(error, APIStatusError) and error.status_code >= 400,
)
