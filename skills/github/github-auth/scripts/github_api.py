#!/usr/bin/env python3
"""Calls the GitHub REST API and prints the JSON answer.

The token is read from GH_TOKEN or GITHUB_TOKEN; without one, the call is anonymous. GITHUB_API_URL selects another server.
"""
import argparse
import json
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from os import environ
from pathlib import Path

MOST_PAGES = 20


def fail(text):
    print(f"github_api: {text}", file=sys.stderr)
    sys.exit(1)


def parse_fields(texts, typed):
    """Returns the fields as a mapping. Typed values can be `@file`, numbers, true, false and null; `key[]` makes a list."""
    fields = {}
    for pair, is_typed in [(pair, False) for pair in texts] + [(pair, True) for pair in typed]:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            fail(f"`{pair}` is not key=value")
        if is_typed and value.startswith("@"):
            try:
                value = Path(value[1:]).read_text(encoding="utf-8")
            except OSError as error:
                fail(f"cannot read {value[1:]}: {error.strerror}")
        elif is_typed and value in ("true", "false", "null") or is_typed and re.fullmatch(r"-?\d+", value):
            value = json.loads(value)
        if key.endswith("[]"):
            fields.setdefault(key[:-2], []).append(value)
        else:
            fields[key] = value
    return fields


def request(method, url, token, body, accept):
    headers = {"Accept": accept, "User-Agent": "hermes-github-skill", "X-GitHub-Api-Version": "2022-11-28"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    call = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(call, timeout=60) as answer:
            return answer.read().decode("utf-8", "replace"), answer.headers
    except urllib.error.HTTPError as error:
        text = error.read().decode("utf-8", "replace")
        try:
            parsed = json.loads(text)
            text = parsed.get("message", text) + "".join(f"; {entry}" for entry in parsed.get("errors", []))
        except (ValueError, AttributeError):
            pass
        hint = ""
        if error.code == 401:
            hint = " (the token is not valid)"
        elif error.code == 403 and error.headers.get("X-RateLimit-Remaining") == "0":
            hint = " (rate limit used up; a token raises it)"
        elif error.code == 404 and not token:
            hint = " (private data needs GITHUB_TOKEN)"
        fail(f"{method} {url}: HTTP {error.code}: {text.strip()[:500]}{hint}")
    except (urllib.error.URLError, TimeoutError) as error:
        fail(f"{method} {url}: {getattr(error, 'reason', error)}")


def next_page(headers):
    match = re.search(r'<([^>]+)>;\s*rel="next"', headers.get("Link") or "")
    return match.group(1) if match else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("method", choices=["GET", "POST", "PATCH", "PUT", "DELETE"])
    parser.add_argument("path", help="path such as /repos/OWNER/REPO/issues")
    parser.add_argument("-f", "--field", action="append", default=[], metavar="KEY=VALUE",
                        help="text: query parameter of GET, else body field; KEY[]=V repeats")
    parser.add_argument("-F", "--typed", action="append", default=[], metavar="KEY=VALUE",
                        help="the same for numbers, true, false, null and @FILE (the text of a file)")
    parser.add_argument("--body", metavar="FILE", help="JSON file with the body; - is standard input")
    parser.add_argument("--accept", default="application/vnd.github+json",
                        help="media type, for instance application/vnd.github.diff (default: %(default)s)")
    parser.add_argument("--all", action="store_true", help=f"follow up to {MOST_PAGES} pages of a list")
    parser.add_argument("--jq", metavar="EXPRESSION", help="filter the answer with jq")
    arguments = parser.parse_args()

    base = environ.get("GITHUB_API_URL", "https://api.github.com").rstrip("/")
    token = environ.get("GH_TOKEN") or environ.get("GITHUB_TOKEN")
    url = base + "/" + arguments.path.lstrip("/")
    fields = parse_fields(arguments.field, arguments.typed)
    body = None
    if arguments.body:
        try:
            text = sys.stdin.read() if arguments.body == "-" else Path(arguments.body).read_text(encoding="utf-8")
            body = json.loads(text)
        except (OSError, ValueError) as error:
            fail(f"--body: {error}")
    if arguments.method == "GET":
        if fields:
            url += ("&" if "?" in url else "?") + urllib.parse.urlencode(fields, doseq=True)
    elif fields:
        body = {**(body or {}), **fields}

    text, headers = request(arguments.method, url, token, body, arguments.accept)
    pages = [text]
    while arguments.all and next_page(headers) and len(pages) < MOST_PAGES:
        following = next_page(headers)
        if urllib.parse.urlsplit(following).netloc != urllib.parse.urlsplit(base).netloc:
            fail(f"the next page is on another host: {following}")
        text, headers = request("GET", following, token, None, arguments.accept)
        pages.append(text)
    try:
        parsed = [json.loads(page) for page in pages if page.strip()]
    except ValueError:
        print("".join(pages))
        return
    if not parsed:
        return
    answer = parsed[0]
    if len(parsed) > 1:
        if all(isinstance(page, list) for page in parsed):
            answer = [entry for page in parsed for entry in page]
        else:
            answer = {**parsed[0], "items": [entry for page in parsed for entry in page.get("items", [])]}
    output = json.dumps(answer, indent=2, ensure_ascii=False)
    if arguments.jq:
        if not shutil.which("jq"):
            fail("--jq needs the program jq")
        run = subprocess.run(["jq", "-r", arguments.jq], input=output, text=True)
        sys.exit(run.returncode)
    print(output)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
