"""Hermes' tools for a script.

Each function has Hermes run the tool of its name, with the same permissions as if the model had called it, and returns
the answer: a dict in most cases, with the key "error" when it failed. Safe to use from threads and forked processes.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import threading
import time
from typing import Any, Callable, Dict, List, Optional, TypeVar

_T = TypeVar("_T")
_PATIENCE = 300
_PIECE = 65536

_lock = threading.Lock()
_connection: Optional[socket.socket] = None


def _forget() -> None:
    """A forked process must neither share its parent's connection nor wait for a lock nobody there will open."""
    global _lock, _connection
    _lock = threading.Lock()
    _connection = None


os.register_at_fork(after_in_child=_forget)


def _exchange(line: bytes) -> bytes:
    """Sends one line and reads one."""
    global _connection
    if _connection is None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_PATIENCE)
        connection.connect(os.environ["HERMES_RPC_SOCKET"])
        _connection = connection
    try:
        _connection.sendall(line)
        answer = bytearray()
        while not answer.endswith(b"\n"):
            piece = _connection.recv(_PIECE)
            if not piece:
                raise RuntimeError("Hermes ended the connection")
            answer += piece
        return bytes(answer)
    except BaseException:
        # An answer may still be under way; the next call must not take it for its own.
        _connection.close()
        _connection = None
        raise


def _call(tool: str, args: Dict[str, Any]) -> Any:
    given = {name: value for name, value in args.items() if value is not None}
    request = {"tool": tool, "args": given, "token": os.environ.get("HERMES_RPC_TOKEN", "")}
    line = json.dumps(request).encode("ascii") + b"\n"
    with _lock:
        answer = _exchange(line)
    value = json.loads(answer.decode("utf-8"))
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


# tool: web_search
def web_search(query: str, limit: int = 5) -> Dict[str, Any]:
    """Search the web. Returns {"data": {"web": [{"title", "url", "description"}]}}."""
    return _call("web_search", {"query": query, "limit": limit})


# end
# tool: web_extract
def web_extract(urls: List[str]) -> Dict[str, Any]:
    """Read pages. Returns {"results": [{"url", "title", "content", "error"}]}."""
    return _call("web_extract", {"urls": urls})


# end
# tool: read_file
def read_file(path: str, offset: int = 1, limit: int = 500) -> Dict[str, Any]:
    """Read lines of a text file. Returns {"content", "total_lines"}; each line of content begins with its number and a bar."""
    return _call("read_file", {"path": path, "offset": offset, "limit": limit})


# end
# tool: write_file
def write_file(path: str, content: str) -> Dict[str, Any]:
    """Write a whole file. Returns {"bytes_written"}."""
    return _call("write_file", {"path": path, "content": content})


# end
# tool: search_files
def search_files(
    pattern: str,
    target: str = "content",
    path: str = ".",
    file_glob: Optional[str] = None,
    limit: int = 50,
    offset: int = 0,
    output_mode: str = "content",
    context: int = 0,
) -> Dict[str, Any]:
    """Search contents by regular expression (target "content") or names by glob (target "files").

    Returns {"matches": [{"path", "line", "content"}]} or {"files": [...]}.
    """
    return _call(
        "search_files",
        {
            "pattern": pattern,
            "target": target,
            "path": path,
            "file_glob": file_glob,
            "limit": limit,
            "offset": offset,
            "output_mode": output_mode,
            "context": context,
        },
    )


search = search_files


# end
# tool: patch
def patch(
    path: Optional[str] = None,
    old_string: Optional[str] = None,
    new_string: Optional[str] = None,
    replace_all: bool = False,
    mode: str = "replace",
    patch: Optional[str] = None,
) -> Dict[str, Any]:
    """Replace text in a file, or apply a patch of several files (mode "patch"). Returns {"success", "diff"}."""
    return _call(
        "patch",
        {
            "path": path,
            "old_string": old_string,
            "new_string": new_string,
            "replace_all": replace_all,
            "mode": mode,
            "patch": patch,
        },
    )


# end
# tool: terminal
def terminal(command: str, timeout: Optional[int] = None, workdir: Optional[str] = None) -> Dict[str, Any]:
    """Run a shell command and wait for it. Returns {"output", "exit_code"}."""
    return _call("terminal", {"command": command, "timeout": timeout, "workdir": workdir})


# end
def json_parse(text: str) -> Any:
    """Read JSON that may hold bare control characters, as the output of commands often does."""
    return json.loads(text, strict=False)


def shell_quote(s: str) -> str:
    """A word the shell reads as exactly this text."""
    return shlex.quote(s)


def retry(fn: Callable[[], _T], max_attempts: int = 3, delay: float = 2) -> _T:
    """Call fn until it does not raise, waiting twice as long each time; the last error is raised."""
    for attempt in range(1, max_attempts + 1):
        try:
            return fn()
        except Exception:
            if attempt >= max_attempts:
                raise
            time.sleep(delay)
            delay *= 2
    raise ValueError("max_attempts must be at least 1")
