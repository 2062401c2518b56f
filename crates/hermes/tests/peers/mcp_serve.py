"""Talks to `hermes mcp serve` with the protocol's own Python client: program, home."""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

KEY = "agent:main:telegram:dm:7"


async def main() -> None:
    program, home = sys.argv[1], sys.argv[2]
    variables = {"HERMES_HOME": home, "HOME": home, "PATH": "/usr/bin:/bin"}
    server = StdioServerParameters(command=program, args=["mcp", "serve"], env=variables)
    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as session:
        await session.initialize()
        names = [tool.name for tool in (await session.list_tools()).tools]
        assert "messages_read" in names, names
        listed = await session.call_tool("conversations_list", {"limit": 5})
        assert json.loads(listed.content[0].text)["conversations"][0]["session_key"] == KEY, listed
        read = await session.call_tool("messages_read", {"session_key": KEY, "limit": 1})
        assert json.loads(read.content[0].text)["messages"][0]["content"] == "bye", read
    print("all well")


asyncio.run(main())
