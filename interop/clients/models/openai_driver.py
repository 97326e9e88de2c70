"""The official OpenAI client for Python. It checks every event against its types."""

import json

from ask import FORMAT, QUESTION, URL, ask_all, tools
from openai import APIStatusError, ContentFilterFinishReasonError, LengthFinishReasonError, OpenAI


def client(retries):
    return OpenAI(base_url=f"{URL}/v1", api_key="test", max_retries=retries, _strict_response_validation=True)


class Chat:
    request = {
        "model": "scripted",
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": tools(
            lambda name, description, schema: {
                "type": "function",
                "function": {"name": name, "description": description, "parameters": schema},
            }
        ),
    }

    def report(self, completion, thinking=None):
        [choice] = completion.choices
        message, usage = choice.message, completion.usage
        read, written = usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens_details.cache_write_tokens
        return {
            "thinking": thinking or getattr(message, "reasoning_content", None),
            "text": message.content,
            "refusal": message.refusal,
            "calls": [
                {"id": call.id, "name": call.function.name, "arguments": json.loads(call.function.arguments)}
                for call in message.tool_calls or []
            ],
            "usage": {
                "input": usage.prompt_tokens - read - written,
                "cacheRead": read,
                "cacheWrite": written,
                "output": usage.completion_tokens,
                "thinking": usage.completion_tokens_details.reasoning_tokens,
            },
            "stop": choice.finish_reason,
        }

    def stream(self, retries):
        request = {**self.request, "stream_options": {"include_usage": True}}
        thinking = ""
        with client(retries).chat.completions.stream(**request) as stream:
            for event in stream:
                if event.type == "chunk" and event.chunk.choices:
                    thinking += getattr(event.chunk.choices[0].delta, "reasoning_content", None) or ""
            try:
                return self.report(stream.get_final_completion(), thinking)
            except (ContentFilterFinishReasonError, LengthFinishReasonError) as error:
                # The client's way of saying that there may be more.
                return self.report(error.completion, thinking)

    def whole(self):
        return self.report(client(0).chat.completions.create(**self.request))


class Responses:
    request = {
        "model": "scripted",
        "input": QUESTION,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tools": tools(
            lambda name, description, schema: {
                "type": "function",
                "name": name,
                "description": description,
                "parameters": schema,
                "strict": False,
            }
        ),
    }

    def report(self, response):
        items = lambda kind: [item for item in response.output if item.type == kind]
        reasoning, usage = next(iter(items("reasoning")), None), response.usage
        read, written = usage.input_tokens_details.cached_tokens, usage.input_tokens_details.cache_write_tokens
        refusals = [part.refusal for item in items("message") for part in item.content if part.type == "refusal"]
        details = response.incomplete_details
        return {
            "thinking": "".join(part.text for part in reasoning.summary) if reasoning else None,
            "seal": reasoning.encrypted_content if reasoning else None,
            "text": response.output_text,
            "refusal": "".join(refusals),
            "calls": [
                {"id": call.call_id, "name": call.name, "arguments": json.loads(call.arguments)}
                for call in items("function_call")
            ],
            "usage": {
                "input": usage.input_tokens - read - written,
                "cacheRead": read,
                "cacheWrite": written,
                "output": usage.output_tokens,
                "thinking": usage.output_tokens_details.reasoning_tokens,
            },
            "stop": f"{response.status}: {details.reason}" if details else response.status,
        }

    def stream(self, retries):
        text, last = "", None
        with client(retries).responses.stream(**self.request) as stream:
            for number, event in enumerate(stream):
                assert event.sequence_number == number, event
                last = event
                if event.type == "response.output_text.delta":
                    text += event.delta
        if last.type == "error":
            return {"error": {"class": type(last).__name__, "code": last.code, "message": last.message}}
        if last.type == "response.failed":
            error = last.response.error
            return {"error": {"class": last.type, "code": error.code, "message": error.message}}
        # The client's own function for the end knows completed responses only.
        assert last.type in ("response.completed", "response.incomplete"), last
        found = self.report(last.response)
        assert text == found["text"], text
        return found

    def whole(self):
        return self.report(client(0).responses.create(**self.request))


api = {"chat": Chat, "responses": Responses}[FORMAT]()
ask_all(
    {
        "stream": lambda: api.stream(0),
        "retry": lambda: api.stream(2),
        "whole": api.whole,
        "models": lambda: {"models": [model.id for model in client(0).models.list().data]},
    },
    lambda error: getattr(error, "body", None),
    lambda error: isinstance(error, APIStatusError),
)
