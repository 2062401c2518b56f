"""Tests of the server through its protocol, without a network: pip install pytest pytest-asyncio."""

import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError

from server import NOTES, mcp

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def empty():
    NOTES.clear()


async def test_finds_what_was_added():
    async with Client(mcp) as client:
        await client.call_tool("add_note", {"name": "milk", "body": "Buy milk\ntomorrow"})
        found = await client.call_tool("search_notes", {"text": "MILK"})
        assert found.data == [{"name": "milk", "first_line": "Buy milk"}]
        assert (await client.read_resource("note://milk"))[0].text == "Buy milk\ntomorrow"


async def test_refuses_to_replace():
    async with Client(mcp) as client:
        await client.call_tool("add_note", {"name": "milk", "body": "one"})
        with pytest.raises(ToolError, match="replace"):
            await client.call_tool("add_note", {"name": "milk", "body": "two"})
        assert NOTES["milk"] == "one"


@pytest.mark.parametrize("arguments", [{"text": ""}, {"text": "x", "limit": 0}, {}])
async def test_refuses_wrong_arguments(arguments):
    async with Client(mcp) as client:
        with pytest.raises(ToolError):
            await client.call_tool("search_notes", arguments)
