"""The common part of the drivers for Python: DRIVER FORMAT URL ASKS, a line of JSON per ask."""

import json
import re
import sys
import traceback

FORMAT, URL, ASKS = sys.argv[1:]
QUESTION = "What is the answer?"
SCHEMA = {"type": "object", "properties": {"code": {"type": "string"}}, "additionalProperties": False}


def tools(shape):
    """Makes the tools with `shape(name, description, schema)`."""
    return [shape(name, f"The tool {name}.", SCHEMA) for name in ("exec", "wait")]


def failed(error, body, has_status):
    """Reports an error of a client. `body` finds the server's words in it."""
    said = body(error) or {}
    found = {key: said.get(key) for key in ("type", "code", "message")}
    found["class"] = type(error).__name__
    if has_status(error):
        found["status"] = error.status_code
        found["retryAfter"] = error.response.headers.get("retry-after")
        found["hasRequestId"] = bool(re.fullmatch(r"req_\d+", error.request_id or ""))
    return found


def without_none(value):
    if isinstance(value, dict):
        return {key: without_none(field) for key, field in value.items() if field is not None}
    return value


def ask_all(how, body, has_status):
    """Asks each of the things in turn; `how` has a function for each."""
    for ask in json.loads(ASKS):
        try:
            found = how["stream" if ask == "broken" else ask]()
        except Exception as error:
            found = {"error": "broken" if ask == "broken" else failed(error, body, has_status)}
            # Something that the server never said is a mistake of the driver, or a complaint of the client.
            if ask != "broken" and found["error"]["message"] is None:
                found["error"]["message"] = traceback.format_exc()
        print(json.dumps(without_none(found)), flush=True)
