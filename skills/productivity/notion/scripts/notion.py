#!/usr/bin/env python3
"""Reads and changes Notion pages and databases. Reads NOTION_API_KEY from the environment."""
import argparse
import json
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from os import environ
from pathlib import Path

MOST_TEXT, MOST_BLOCKS = 2000, 100


def fail(text):
    sys.exit(f"notion: {text}")


def read_text(path):
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}")


def identity(text):
    found = re.findall(r"[0-9a-f]{32}", text.split("?")[0].replace("-", "").lower())
    if not found:
        fail(f"`{text}` is not an id or a link of Notion")
    return found[-1]


class Notion:
    def __init__(self, base):
        self.base = base.rstrip("/")
        self.key = environ.get("NOTION_API_KEY", "")
        if not self.key:
            fail("NOTION_API_KEY is not set; make an integration at https://www.notion.so/profile/integrations")
        self.version = environ.get("NOTION_VERSION", "2022-06-28")

    def request(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.key}", "Notion-Version": self.version, "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body is not None else None
        for attempt in range(4):
            try:
                with urllib.request.urlopen(urllib.request.Request(self.base + path, data=data, method=method, headers=headers), timeout=60) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code == 429 and attempt < 3:
                    time.sleep(min(30.0, float(error.headers.get("Retry-After") or 2)))
                    continue
                text = error.read().decode("utf-8", "replace")
                try:
                    text = json.loads(text)["message"]
                except (ValueError, KeyError):
                    pass
                hint = "; is the page shared with the integration?" if error.code == 404 else ""
                fail(f"{method} {path}: HTTP {error.code}: {text[:400]}{hint}")
            except (urllib.error.URLError, TimeoutError) as error:
                fail(str(getattr(error, "reason", error)))
            except ValueError:
                fail("the answer is not JSON")
        return {}

    def children(self, block):
        found, cursor = [], ""
        while True:
            answer = self.request("GET", f"/blocks/{block}/children?page_size=100{cursor}")
            found += answer["results"]
            if not answer.get("has_more"):
                return found
            cursor = f"&start_cursor={answer['next_cursor']}"


def plain(texts):
    return "".join(text.get("plain_text", "") for text in texts or [])


def markdown(texts):
    parts = []
    for text in texts or []:
        content, notes = text.get("plain_text", ""), text.get("annotations", {})
        if notes.get("code"):
            content = f"`{content}`"
        if notes.get("bold"):
            content = f"**{content}**"
        if notes.get("italic"):
            content = f"*{content}*"
        parts.append(f"[{content}]({text['href']})" if text.get("href") else content)
    return "".join(parts)


def title_of(thing):
    if thing.get("object") in ("database", "data_source"):
        return plain(thing.get("title")) or "(no title)"
    for value in thing.get("properties", {}).values():
        if value.get("type") == "title":
            return plain(value["title"]) or "(no title)"
    return "(no title)"


def value_of(value):
    """Returns a property value as text."""
    kind = value["type"]
    content = value.get(kind)
    if content is None:
        return ""
    if kind in ("title", "rich_text"):
        return plain(content)
    if kind in ("select", "status"):
        return content["name"]
    if kind in ("multi_select", "people", "files"):
        return ", ".join(entry.get("name") or entry.get("id", "") for entry in content)
    if kind == "date":
        return content["start"] + (f" - {content['end']}" if content.get("end") else "")
    if kind == "relation":
        return ", ".join(entry["id"] for entry in content)
    if kind == "formula":
        return str(content.get(content.get("type"), ""))
    if kind == "unique_id":
        return "-".join(str(part) for part in (content.get("prefix"), content.get("number")) if part is not None)
    return json.dumps(content) if isinstance(content, (dict, list)) else str(content)


def page_markdown(notion, block, depth=0):
    lines = []
    for child in notion.children(block):
        kind = child["type"]
        content = child.get(kind, {})
        text, indent = markdown(content.get("rich_text")), "  " * depth
        if kind.startswith("heading_"):
            lines.append(f"\n{'#' * int(kind[-1])} {text}")
        elif kind == "bulleted_list_item":
            lines.append(f"{indent}- {text}")
        elif kind == "numbered_list_item":
            lines.append(f"{indent}1. {text}")
        elif kind == "to_do":
            lines.append(f"{indent}- [{'x' if content.get('checked') else ' '}] {text}")
        elif kind in ("quote", "callout"):
            lines.append(f"{indent}> {text}")
        elif kind == "code":
            lines.append(f"```{content.get('language', '')}\n{plain(content.get('rich_text'))}\n```")
        elif kind == "divider":
            lines.append("---")
        elif kind in ("child_page", "child_database"):
            lines.append(f"{indent}[{kind}: {content.get('title', '')}] {child['id']}")
        elif kind == "table_row":
            lines.append(indent + "| " + " | ".join(markdown(cell) for cell in content.get("cells", [])) + " |")
        elif kind in ("image", "file", "pdf", "video", "bookmark", "embed"):
            address = content.get("url") or content.get("external", {}).get("url") or content.get("file", {}).get("url", "")
            lines.append(f"{indent}[{kind}]({address})")
        elif kind != "table" or text:
            lines.append(indent + text)
        if child.get("has_children") and kind not in ("child_page", "child_database") and depth < 5:
            lines += page_markdown(notion, child["id"], depth + (kind not in ("table", "column_list", "column")))
    return lines


def rich(text):
    """Converts inline Markdown to rich text."""
    pieces = re.split(r"(\*\*[^*]+\*\*|\*[^*\s][^*]*\*|`[^`]+`|\[[^\]]+\]\(https?://[^)\s]+\))", text)
    result = []
    for piece in filter(None, pieces):
        notes, link = {}, None
        match = re.fullmatch(r"\[([^\]]+)\]\((https?://[^)\s]+)\)", piece)
        if match:
            piece, link = match.group(1), {"url": match.group(2)}
        elif re.fullmatch(r"\*\*[^*]+\*\*", piece):
            piece, notes = piece[2:-2], {"bold": True}
        elif re.fullmatch(r"`[^`]+`", piece):
            piece, notes = piece[1:-1], {"code": True}
        elif re.fullmatch(r"\*[^*\s][^*]*\*", piece):
            piece, notes = piece[1:-1], {"italic": True}
        for start in range(0, len(piece), MOST_TEXT):
            text_part = {"content": piece[start:start + MOST_TEXT]}
            if link:
                text_part["link"] = link
            result.append({"type": "text", "text": text_part, "annotations": notes})
    return result


def blocks_of(text):
    """Converts Markdown to blocks."""
    blocks, paragraph, code = [], [], None

    def add(kind, content, **more):
        blocks.append({"type": kind, kind: {"rich_text": rich(content), **more}})

    def flush():
        if paragraph:
            add("paragraph", " ".join(paragraph))
            paragraph.clear()

    for line in text.split("\n"):
        fence = re.match(r"\s*```(\w*)", line)
        if code is not None:
            if fence:
                content = "\n".join(code[1])
                texts = [{"type": "text", "text": {"content": content[start:start + MOST_TEXT]}} for start in range(0, len(content), MOST_TEXT)]
                blocks.append({"type": "code", "code": {"rich_text": texts, "language": code[0]}})
                code = None
            else:
                code[1].append(line)
            continue
        patterns = [(r"(#{1,3})\s+(.*)", None), (r"\s*[-*]\s+\[([ xX])\]\s+(.*)", "to_do"), (r"\s*[-*]\s+(.*)", "bulleted_list_item"),
                    (r"\s*\d+[.)]\s+(.*)", "numbered_list_item"), (r">\s?(.*)", "quote")]
        if fence:
            flush()
            code = (fence.group(1) or "plain text", [])
        elif re.fullmatch(r"\s*(-{3,}|\*{3,})\s*", line):
            flush()
            blocks.append({"type": "divider", "divider": {}})
        elif not line.strip():
            flush()
        else:
            for pattern, kind in patterns:
                match = re.fullmatch(pattern, line)
                if match:
                    flush()
                    if kind is None:
                        add(f"heading_{len(match.group(1))}", match.group(2))
                    elif kind == "to_do":
                        add(kind, match.group(2), checked=match.group(1) != " ")
                    else:
                        add(kind, match.group(1))
                    break
            else:
                paragraph.append(line.strip())
    flush()
    if code is not None:
        fail("a code block is not closed")
    return blocks


def properties_from(schema, pairs):
    result = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or name not in schema:
            fail(f"`{pair}`: there is no property `{name}`; there are: {', '.join(sorted(schema))}")
        kind = schema[name]["type"]
        if kind in ("title", "rich_text"):
            value = rich(text)
        elif kind == "number":
            try:
                value = float(text) if "." in text else int(text)
            except ValueError:
                fail(f"`{name}` needs a number")
        elif kind in ("select", "status"):
            value = {"name": text} if text else None
        elif kind == "multi_select":
            value = [{"name": one.strip()} for one in text.split(",") if one.strip()]
        elif kind == "date":
            start, _, end = text.partition("/")
            value = {"start": start, "end": end or None} if text else None
        elif kind == "checkbox":
            value = text.lower() in ("true", "yes", "1", "x")
        elif kind in ("url", "email", "phone_number"):
            value = text or None
        else:
            fail(f"`{name}` is of type {kind}; use `request` for it")
        result[name] = {kind: value}
    return result


def append(notion, page, blocks):
    for start in range(0, len(blocks), MOST_BLOCKS):
        notion.request("PATCH", f"/blocks/{page}/children", {"children": blocks[start:start + MOST_BLOCKS]})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-url", default="https://api.notion.com/v1", help="address of the API (default: %(default)s)")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("whoami")
    finder = commands.add_parser("search", help="search titles")
    finder.add_argument("text", nargs="?", default="")
    finder.add_argument("--kind", choices=["page", "database"])
    finder.add_argument("--limit", type=int, default=20)
    for name in ("read", "properties", "schema"):
        commands.add_parser(name).add_argument("id")
    asker = commands.add_parser("query", help="rows of a database")
    asker.add_argument("id")
    asker.add_argument("--filter", help="JSON")
    asker.add_argument("--sort", metavar="PROPERTY")
    asker.add_argument("--descending", action="store_true")
    asker.add_argument("--limit", type=int, default=20)
    for name in ("add-row", "set"):
        setter = commands.add_parser(name)
        setter.add_argument("id")
        setter.add_argument("--set", action="append", required=True, metavar="NAME=VALUE")
        if name == "add-row":
            setter.add_argument("--file", help="Markdown for the page of the row")
    creator = commands.add_parser("create", help="create a page")
    creator.add_argument("--parent", required=True)
    creator.add_argument("--title", required=True)
    creator.add_argument("--file", help="Markdown; - is standard input")
    adder = commands.add_parser("append", help="add to the end of a page")
    adder.add_argument("id")
    adder.add_argument("--file", required=True)
    raw = commands.add_parser("request", help="any request")
    raw.add_argument("method", choices=["GET", "POST", "PATCH", "DELETE"])
    raw.add_argument("path")
    raw.add_argument("--body", help="JSON file; - is standard input")
    arguments = parser.parse_args()
    notion = Notion(arguments.base_url)
    command = arguments.command

    if command == "whoami":
        me = notion.request("GET", "/users/me")
        print(f"{me.get('name')} ({(me.get('bot') or {}).get('workspace_name', '')})")
    elif command == "search":
        body = {"query": arguments.text, "page_size": min(100, arguments.limit)}
        if arguments.kind:
            body["filter"] = {"property": "object", "value": arguments.kind}
        found = notion.request("POST", "/search", body)["results"]
        for thing in found:
            print(f"{thing['id']}  {thing['object']}  {thing.get('last_edited_time', '')[:10]}  {title_of(thing)}\n    {thing.get('url', '')}")
        if not found:
            print("nothing found (only what is shared with the integration is searched)")
    elif command == "read":
        page = notion.request("GET", f"/pages/{identity(arguments.id)}")
        print(f"# {title_of(page)}\n{page.get('url', '')}\n")
        print("\n".join(page_markdown(notion, identity(arguments.id))))
    elif command == "properties":
        page = notion.request("GET", f"/pages/{identity(arguments.id)}")
        for name, value in page["properties"].items():
            print(f"{name} ({value['type']}): {value_of(value)}")
    elif command == "schema":
        database = notion.request("GET", f"/databases/{identity(arguments.id)}")
        print(title_of(database))
        for name, value in database.get("properties", {}).items():
            options = [option["name"] for option in (value.get(value["type"]) or {}).get("options", [])] if isinstance(value.get(value["type"]), dict) else []
            print(f"- {name} ({value['type']})" + (f": {', '.join(options)}" if options else ""))
        for source in database.get("data_sources", []):
            print(f"data source {source['id']}: {source.get('name', '')}")
    elif command == "query":
        body = {"page_size": min(100, arguments.limit)}
        if arguments.filter:
            try:
                body["filter"] = json.loads(arguments.filter)
            except ValueError as error:
                fail(f"--filter: {error}")
        if arguments.sort:
            body["sorts"] = [{"property": arguments.sort, "direction": "descending" if arguments.descending else "ascending"}]
        rows, more = [], True
        while more and len(rows) < arguments.limit:
            answer = notion.request("POST", f"/databases/{identity(arguments.id)}/query", body)
            rows += answer["results"]
            more = answer.get("has_more", False)
            body["start_cursor"] = answer.get("next_cursor")
        for row in rows[: arguments.limit]:
            values = [f"{name}={value_of(value)}" for name, value in row["properties"].items() if value["type"] != "title" and value_of(value)]
            print(f"{row['id']}  {title_of(row)}\n    " + " | ".join(values))
        print(f"{min(len(rows), arguments.limit)} rows" + (", there are more (--limit)" if more or len(rows) > arguments.limit else ""))
    elif command == "add-row":
        database = identity(arguments.id)
        schema = notion.request("GET", f"/databases/{database}")["properties"]
        row = notion.request("POST", "/pages", {"parent": {"database_id": database}, "properties": properties_from(schema, arguments.set)})
        if arguments.file:
            append(notion, row["id"], blocks_of(read_text(arguments.file)))
        print(f"{row['id']}  {row.get('url', '')}")
    elif command == "set":
        page = identity(arguments.id)
        schema = notion.request("GET", f"/pages/{page}")["properties"]
        row = notion.request("PATCH", f"/pages/{page}", {"properties": properties_from(schema, arguments.set)})
        print(f"{row['id']}  {row.get('url', '')}")
    elif command == "create":
        blocks = blocks_of(read_text(arguments.file)) if arguments.file else []
        page = notion.request("POST", "/pages", {"parent": {"page_id": identity(arguments.parent)}, "properties": {"title": {"title": rich(arguments.title)}},
                                                 "children": blocks[:MOST_BLOCKS]})
        append(notion, page["id"], blocks[MOST_BLOCKS:])
        print(f"{page['id']}  {page.get('url', '')}")
    elif command == "append":
        blocks = blocks_of(read_text(arguments.file))
        append(notion, identity(arguments.id), blocks)
        print(f"appended {len(blocks)} blocks")
    else:
        body = None
        if arguments.body:
            try:
                body = json.loads(read_text(arguments.body))
            except ValueError as error:
                fail(f"--body: {error}")
        print(json.dumps(notion.request(arguments.method, "/" + arguments.path.lstrip("/"), body), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
