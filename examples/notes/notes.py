"""A plugin for Pincer: one JSON-RPC message per line on stdin and stdout. Logs go to stderr."""

import json
import sys

FILE = "notes.jsonl"


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def read_notes():
    try:
        with open(FILE, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


def add_note(text, topic=None):
    with open(FILE, "a", encoding="utf-8") as file:
        file.write(json.dumps({"text": text, "topic": topic}) + "\n")
    return {"count": len(read_notes())}


def list_notes(topic=None):
    return [note for note in read_notes() if topic is None or note["topic"] == topic]


TOOLS = {"add_note": add_note, "list_notes": list_notes}


def handle(method, params):
    global FILE
    if method == "initialize":
        FILE = params["config"].get("file", FILE)
        return {"protocolVersion": 1}
    if method == "tool/call":
        return {"value": TOOLS[params["name"]](**params["input"])}
    if method == "hook/before_tool_call":
        # Somebody should look before a program touches the notes behind our back.
        if params["params"].get("path", "").endswith("notes.jsonl"):
            return {"requireApproval": {"title": "Change the notes themselves?"}}
        return None
    if method == "shutdown":
        return None
    raise ValueError(f"unknown method {method}")


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue  # `cancel` and the like: calls here are over before it could come
    try:
        send({"id": request["id"], "result": handle(request["method"], request["params"])})
    except Exception as error:  # what goes wrong is told, not died of
        send({"id": request["id"], "error": {"code": -32000, "message": str(error)}})
    if request["method"] == "shutdown":
        break
