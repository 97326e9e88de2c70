"""The Python SDK's client against a server of code mode: sdk.py COMMAND ARGS…"""

import asyncio
import os
import re
import sys

from mcp import Client, StdioServerParameters

# The SDK passes on little of the environment by itself; runs are kept where it says.
SERVER = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))


def step(what):
    print(f"ok: {what}", flush=True)


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


async def begin():
    async with Client(SERVER) as client:
        # The client looks for the newest revision first and falls back to a handshake by itself.
        step(f"connected with revision {client.protocol_version}")

        tools = (await client.list_tools()).tools
        assert sorted(tool.name for tool in tools) == ["exec", "wait"], tools
        for tool in tools:
            assert tool.output_schema and tool.output_schema["type"] == "object", tool
        step("two tools, both with an output schema")

        done = await client.call_tool("exec", {"code": "return 6 * 7"})
        assert done.structured_content and done.structured_content["status"] == "completed", done
        assert done.structured_content["value"] == 42, done
        assert text(done), "there is text for clients that do not read structures"
        step("a program returns its value")

        failed = await client.call_tool("exec", {"code": "const a = 1;\nthrow new Error('boom')"})
        assert failed.is_error, failed
        assert "boom" in text(failed) and re.search(r"(line |:)2\b", text(failed)), failed
        step("a program that fails says what and where")

        waiting = await client.call_tool("exec", {"code": "await yield_control('later'); return 'continued'"})
        assert waiting.structured_content and waiting.structured_content["status"] == "waiting", waiting
        step("a program is suspended")
        return waiting.structured_content["runId"]


async def end(run_id):
    async with Client(SERVER) as client:
        await client.list_tools()
        result = await client.call_tool("wait", {"runId": run_id})
        assert result.structured_content and result.structured_content["status"] == "completed", result
        assert result.structured_content["value"] == "continued", result
        step("another process continues it")


asyncio.run(end(asyncio.run(begin())))
