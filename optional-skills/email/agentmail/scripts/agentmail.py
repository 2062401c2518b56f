#!/usr/bin/env python3
"""Reads and sends mail of AgentMail inboxes. Reads AGENTMAIL_API_KEY from the environment. Needs no packages."""
import argparse
import base64
import json
import mimetypes
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from os import environ
from pathlib import Path

DEFAULT_API = "https://api.agentmail.to/v0"
MOST_ATTACHED_BYTES = 4 * 1024 * 1024  # the whole request may have 6 MB, and attachments grow by a third


def fail(text):
    sys.exit(f"agentmail: {text}")


class Mail:
    def __init__(self, api):
        self.api = api.rstrip("/")
        self.key = environ.get("AGENTMAIL_API_KEY", "")
        if not self.key:
            fail("AGENTMAIL_API_KEY is not set; make a key in the console of agentmail.to")

    def call(self, method, *parts, query=None, body=None):
        url = "/".join([self.api, *(urllib.parse.quote(part, safe="") for part in parts)])
        pairs = [(name, value) for name, value in (query or {}).items() if value not in (None, [], False)]
        if pairs:
            url += "?" + urllib.parse.urlencode(pairs, doseq=True)
        headers = {"Authorization": f"Bearer {self.key}", "User-Agent": "hermes-agentmail-skill/1.0"}
        data = None
        if body is not None:
            data = json.dumps({name: value for name, value in body.items() if value not in (None, [])}).encode()
            headers["Content-Type"] = "application/json"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers, method=method), timeout=60) as answer:
                text = answer.read()
                return json.loads(text) if text.strip() else {}
        except urllib.error.HTTPError as error:
            detail = error.read().decode("utf-8", "replace")
            try:
                parsed = json.loads(detail)
                detail = parsed.get("message") or parsed.get("error") or detail
            except (ValueError, AttributeError):
                pass
            hint = {401: " (the key is not valid)", 403: " (the key may not do this)", 404: " (wrong inbox or message?)", 429: " (too many requests)"}
            fail(f"HTTP {error.code}{hint.get(error.code, '')}: {str(detail)[:300]}")
        except (urllib.error.URLError, TimeoutError) as error:
            fail(str(getattr(error, "reason", error)))
        except ValueError:
            fail("the answer is not JSON")


def text_from(arguments):
    if arguments.body is not None:
        return arguments.body
    if arguments.body_file == "-":
        return sys.stdin.read()
    try:
        return Path(arguments.body_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read {arguments.body_file}: {error}")


def attachments_from(paths):
    found, total = [], 0
    for path in map(Path, paths):
        try:
            data = path.read_bytes()
        except OSError as error:
            fail(f"cannot read {path}: {error.strerror}")
        total += len(data)
        if total > MOST_ATTACHED_BYTES:
            fail(f"the attachments have more than {MOST_ATTACHED_BYTES} bytes")
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        found.append({"filename": path.name, "content_type": kind, "content": base64.b64encode(data).decode()})
    return found


def row(message):
    labels = ",".join(message.get("labels") or [])
    return f"{message.get('timestamp', '')[:16]}  {message.get('from', '')}  {message.get('subject') or '(no subject)'}  [{labels}]  {message.get('message_id')}"


def inboxes(mail, arguments):
    return mail.call("GET", "inboxes", query={"limit": 100}), lambda data: [f"{entry.get('email') or entry['inbox_id']}  {entry.get('display_name') or ''}  {entry.get('status') or ''}".rstrip() for entry in data["inboxes"]]


def create(mail, arguments):
    # The client id makes a repeated request return the same inbox instead of a second one.
    body = {"username": arguments.username, "domain": arguments.domain, "display_name": arguments.name, "client_id": arguments.client_id}
    return mail.call("POST", "inboxes", body=body), lambda data: [data.get("email") or data["inbox_id"]]


def listing(mail, arguments):
    labels = ["unread"] if arguments.unread else arguments.label
    query = {"limit": arguments.limit, "labels": labels, "after": arguments.after, "include_spam": "true" if arguments.spam else None}
    data = mail.call("GET", "inboxes", arguments.inbox, "messages", query=query)
    more = "… there are more; raise --limit or use --after" if data.get("next_page_token") else None
    return data, lambda data: [row(message) for message in data["messages"]] + ([more] if more else [])


def read(mail, arguments):
    data = mail.call("GET", "inboxes", arguments.inbox, "messages", arguments.message)

    def lines(data):
        yield from (f"{name}: {', '.join(value) if isinstance(value, list) else value}" for name in ("from", "to", "cc", "subject", "timestamp", "thread_id") if (value := data.get(name)))
        yield from (f"attachment: {part['attachment_id']}  {part.get('filename')}  {part.get('size')} bytes" for part in data.get("attachments") or [])
        yield ""
        yield (data.get("text") if arguments.whole else data.get("extracted_text") or data.get("text")) or "(no text part; --json shows the HTML)"

    return data, lines


def send(mail, arguments):
    body = {"to": arguments.to, "cc": arguments.cc, "bcc": arguments.bcc, "subject": arguments.subject, "text": text_from(arguments), "attachments": attachments_from(arguments.attach)}
    return mail.call("POST", "inboxes", arguments.inbox, "messages", "send", body=body), lambda data: [f"sent {data['message_id']} in thread {data['thread_id']}"]


def reply(mail, arguments):
    body = {"text": text_from(arguments), "attachments": attachments_from(arguments.attach)}
    action = "reply-all" if arguments.all else "reply"
    return mail.call("POST", "inboxes", arguments.inbox, "messages", arguments.message, action, body=body), lambda data: [f"sent {data['message_id']} in thread {data['thread_id']}"]


def label(mail, arguments):
    body = {"add_labels": arguments.add, "remove_labels": arguments.remove}
    if not arguments.add and not arguments.remove:
        fail("give --add or --remove")
    return mail.call("PATCH", "inboxes", arguments.inbox, "messages", arguments.message, body=body), lambda data: ["labels: " + ", ".join(data.get("labels") or [])]


def download(mail, arguments):
    data = mail.call("GET", "inboxes", arguments.inbox, "messages", arguments.message, "attachments", arguments.attachment)
    out = Path(arguments.out)
    if out.exists():
        fail(f"{out} exists")
    try:
        # The address is signed; the key is not sent to it.
        with urllib.request.urlopen(data["download_url"], timeout=120) as answer:
            content = answer.read(50 * 1024 * 1024 + 1)
        if len(content) > 50 * 1024 * 1024:
            fail("the attachment is larger than 50 MiB")
        out.write_bytes(content)
    except (OSError, ValueError) as error:
        fail(f"download: {error}")
    return {"file": str(out), "bytes": len(content)}, lambda data: [f"{data['file']}  {data['bytes']} bytes"]


def wait(mail, arguments):
    """Waits for a message that was not there at the start."""
    deadline = time.monotonic() + arguments.seconds
    path = ("inboxes", arguments.inbox, "messages")
    known = {message["message_id"] for message in mail.call("GET", *path, query={"limit": 50})["messages"]}
    while True:
        fresh = [message for message in mail.call("GET", *path, query={"limit": 50})["messages"] if message["message_id"] not in known]
        fits = [message for message in fresh if arguments.sender.lower() in (message.get("from") or "").lower() and arguments.subject.lower() in (message.get("subject") or "").lower() and "sent" not in (message.get("labels") or [])]
        if fits:
            return {"messages": fits}, lambda data: [row(message) for message in data["messages"]]
        if time.monotonic() >= deadline:
            fail(f"no such message within {arguments.seconds} s")
        time.sleep(min(arguments.every, max(0.1, deadline - time.monotonic())))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--api", default=DEFAULT_API, help="address of the service (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the data")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, run, text, *places):
        one = commands.add_parser(name, help=text)
        for place in places:
            one.add_argument(place)
        one.set_defaults(run=run)
        return one

    def with_text(one):
        text = one.add_mutually_exclusive_group(required=True)
        text.add_argument("--body", help="text of the mail")
        text.add_argument("--body-file", help="file with the text; - is standard input")
        one.add_argument("--attach", action="append", default=[], metavar="FILE")

    command("inboxes", inboxes, "list inboxes")
    one = command("create", create, "make an inbox")
    one.add_argument("--username", help="part before the @ (default: random)")
    one.add_argument("--domain", help="verified domain (default: agentmail.to)")
    one.add_argument("--name", help="display name")
    one.add_argument("--client-id", help="own id; a repeated request with it makes no second inbox")
    one = command("list", listing, "list messages, newest first", "inbox")
    one.add_argument("--unread", action="store_true", help="only messages with the label unread")
    one.add_argument("--label", action="append", default=[])
    one.add_argument("--after", help="only after this time, as 2026-01-31T00:00:00Z")
    one.add_argument("--limit", type=int, default=20)
    one.add_argument("--spam", action="store_true", help="spam too")
    one = command("read", read, "show a message without quoted text", "inbox", "message")
    one.add_argument("--whole", action="store_true", help="with quoted text")
    one = command("send", send, "send a mail", "inbox")
    for name in ("to", "cc", "bcc"):
        one.add_argument(f"--{name}", action="append", default=[], required=name == "to", metavar="ADDRESS")
    one.add_argument("--subject", required=True)
    with_text(one)
    one = command("reply", reply, "answer a message in its thread", "inbox", "message")
    one.add_argument("--all", action="store_true", help="to all recipients")
    with_text(one)
    one = command("label", label, "change labels, for instance --remove unread", "inbox", "message")
    one.add_argument("--add", action="append", default=[])
    one.add_argument("--remove", action="append", default=[])
    one = command("download", download, "save an attachment", "inbox", "message", "attachment")
    one.add_argument("--out", required=True)
    one = command("wait", wait, "wait for a new message", "inbox")
    one.add_argument("--sender", default="", help="text that the sender must have")
    one.add_argument("--subject", default="", help="text that the subject must have")
    one.add_argument("--seconds", type=float, default=120)
    one.add_argument("--every", type=float, default=5, help="seconds between looks (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        data, lines = arguments.run(Mail(arguments.api), arguments)
        if arguments.json:
            print(json.dumps(data, indent=2, ensure_ascii=False))
        else:
            print("\n".join(lines(data)))
    except (KeyError, TypeError) as error:
        fail(f"unexpected answer of the service: {error!r}")


if __name__ == "__main__":
    main()
