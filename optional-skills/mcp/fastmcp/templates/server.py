"""A server of the Model Context Protocol. Rename it, replace the tools, keep the shape."""

from typing import Annotated

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from pydantic import Field

mcp = FastMCP(
    "notes",
    instructions="Short notes by name. Search before adding one.",
)

NOTES: dict[str, str] = {}


@mcp.tool(annotations={"readOnlyHint": True})
def search_notes(
    text: Annotated[str, Field(description="words that the note must contain", min_length=1, max_length=200)],
    limit: Annotated[int, Field(description="most results", ge=1, le=50)] = 10,
) -> list[dict[str, str]]:
    """Find notes by their text. Returns name and first line of each."""
    words = text.lower().split()
    found = [(name, body) for name, body in NOTES.items() if all(word in f"{name}\n{body}".lower() for word in words)]
    return [{"name": name, "first_line": body.split("\n", 1)[0][:200]} for name, body in found[:limit]]


@mcp.tool(annotations={"destructiveHint": False, "idempotentHint": True})
def add_note(
    name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,64}$", description="lowercase letters, digits, hyphens")],
    body: Annotated[str, Field(min_length=1, max_length=20_000)],
    replace: bool = False,
) -> str:
    """Store a note. Refuses to replace one unless `replace` is true."""
    if name in NOTES and not replace:
        raise ToolError(f"there is a note {name}; set replace to true to overwrite it")
    NOTES[name] = body
    return f"stored {name}"


@mcp.resource("note://{name}")
def read_note(name: str) -> str:
    """The text of one note."""
    if name not in NOTES:
        raise ValueError(f"no note {name}")
    return NOTES[name]


if __name__ == "__main__":
    mcp.run()
