#!/usr/bin/env python3
"""Uses Gmail, Calendar, Drive, Docs and Sheets of a Google account.

Reads GOOGLE_CLIENT_ID, GOOGLE_CLIENT_SECRET and GOOGLE_REFRESH_TOKEN from the environment. `login` gets a refresh token.
"""
import argparse
import base64
import csv
import hashlib
import html
import http.server
import io
import json
import mimetypes
import re
import secrets
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime, timedelta, timezone
from email.message import EmailMessage
from os import environ
from pathlib import Path

HOSTS = {"gmail": "https://gmail.googleapis.com", "api": "https://www.googleapis.com", "docs": "https://docs.googleapis.com",
         "sheets": "https://sheets.googleapis.com", "token": "https://oauth2.googleapis.com"}
SCOPES = {name: f"https://www.googleapis.com/auth/{value}" for name, value in {
    "gmail": "gmail.modify", "gmail.readonly": "gmail.readonly", "calendar": "calendar", "calendar.readonly": "calendar.readonly",
    "drive": "drive", "drive.readonly": "drive.readonly", "drive.file": "drive.file"}.items()}


def fail(text):
    sys.exit(f"google_workspace: {text}")


def variable(name):
    value = environ.get(name, "")
    if not value:
        fail(f"{name} is not set; references/setup.md of this skill says how to get it, and terminal.env_passthrough must name it")
    return value


def read_text(path):
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}")


class Google:
    """Calls the APIs with an access token that is fetched once."""

    def __init__(self, base):
        self.base = base.rstrip("/") if base else None
        self.token = None

    def url(self, service, path, parameters):
        query = urllib.parse.urlencode({key: value for key, value in parameters.items() if value is not None}, doseq=True)
        return (self.base or HOSTS[service]) + path + ("?" + query if query else "")

    def send(self, request):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            text = error.read().decode("utf-8", "replace")
            try:
                parsed = json.loads(text)
                detail = parsed.get("error_description") or parsed["error"]
                text = detail if isinstance(detail, str) else detail.get("message", text)
            except (ValueError, KeyError, AttributeError):
                pass
            fail(f"HTTP {error.code}: {text[:400]}")
        except (urllib.error.URLError, TimeoutError) as error:
            fail(f"{urllib.parse.urlsplit(request.full_url).netloc}: {getattr(error, 'reason', error)}")

    def exchange(self, **fields):
        fields.update(client_id=variable("GOOGLE_CLIENT_ID"), client_secret=variable("GOOGLE_CLIENT_SECRET"))
        request = urllib.request.Request(self.url("token", "/token", {}), data=urllib.parse.urlencode(fields).encode(), method="POST")
        return json.loads(self.send(request))

    def call(self, service, path, method="GET", body=None, raw=None, kind=None, binary=False, **parameters):
        if self.token is None:
            answer = self.exchange(grant_type="refresh_token", refresh_token=variable("GOOGLE_REFRESH_TOKEN"))
            self.token = answer["access_token"]
        headers = {"Authorization": f"Bearer {self.token}"}
        data = raw
        if body is not None:
            data, kind = json.dumps(body).encode(), "application/json"
        if kind:
            headers["Content-Type"] = kind
        answer = self.send(urllib.request.Request(self.url(service, path, parameters), data=data, method=method, headers=headers))
        return answer if binary else json.loads(answer) if answer else {}


def login(google, arguments):
    names = [name.strip() for name in arguments.scopes.split(",")]
    unknown = [name for name in names if name not in SCOPES]
    if unknown:
        fail(f"unknown scope {unknown[0]}; possible are {', '.join(SCOPES)}")
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(16)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    received = {}

    class Callback(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            received.update(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"You can close this page.")

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Callback)
    redirect = f"http://127.0.0.1:{server.server_port}"
    query = {"client_id": variable("GOOGLE_CLIENT_ID"), "redirect_uri": redirect, "response_type": "code", "access_type": "offline", "prompt": "consent",
             "scope": " ".join(["openid", "email"] + [SCOPES[name] for name in names]), "state": state, "code_challenge": challenge, "code_challenge_method": "S256"}
    print("Open this address, sign in and agree:\n\nhttps://accounts.google.com/o/oauth2/v2/auth?" + urllib.parse.urlencode(query) + "\n")
    if arguments.paste:
        pasted = input("Paste the address of the page you arrived at: ").strip()
        received.update(urllib.parse.parse_qsl(urllib.parse.urlsplit(pasted).query))
    else:
        server.timeout = 300
        server.handle_request()
    server.server_close()
    if received.get("state") != state or "code" not in received:
        fail(f"no valid answer arrived ({received.get('error', 'nothing within five minutes, or another sign-in')})")
    answer = google.exchange(grant_type="authorization_code", code=received["code"], redirect_uri=redirect, code_verifier=verifier)
    if not answer.get("refresh_token"):
        fail("Google sent no refresh token; remove the app at https://myaccount.google.com/connections and try again")
    hermes = shutil.which("hermes")
    if arguments.print or not hermes:
        print(f"GOOGLE_REFRESH_TOKEN={answer['refresh_token']}")
        return
    stored = subprocess.run([hermes, "config", "set", "GOOGLE_REFRESH_TOKEN", answer["refresh_token"]], capture_output=True, text=True)
    if stored.returncode != 0:
        fail(f"`hermes config set` failed: {stored.stderr.strip()}; run login again with --print")
    print("Signed in; GOOGLE_REFRESH_TOKEN is stored.")


def header(message, name):
    headers = message.get("payload", {}).get("headers", [])
    return next((entry["value"] for entry in headers if entry["name"].lower() == name.lower()), "")


def decode(data):
    return base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))


def parts_of(payload):
    yield payload
    for part in payload.get("parts", []):
        yield from parts_of(part)


def body_of(payload):
    found = {}
    for part in parts_of(payload):
        if part.get("body", {}).get("data") and not part.get("filename"):
            found.setdefault(part.get("mimeType"), decode(part["body"]["data"]).decode("utf-8", "replace"))
    if "text/plain" in found:
        return found["text/plain"]
    text = re.sub(r"(?is)<(script|style).*?</\1>", " ", found.get("text/html", ""))
    text = re.sub(r"(?i)<br\s*/?>|</p>|</div>|</tr>", "\n", text)
    return re.sub(r"\n\s*\n+", "\n\n", html.unescape(re.sub(r"<[^>]+>", " ", text))).strip()


def gmail(google, arguments):
    user = "/gmail/v1/users/me"
    if arguments.action == "search":
        found = google.call("gmail", f"{user}/messages", q=arguments.query, maxResults=arguments.max).get("messages", [])
        messages = [google.call("gmail", f"{user}/messages/{entry['id']}", format="metadata", metadataHeaders=["From", "Subject", "Date"]) for entry in found]
        lines = [f"{message['id']}  {header(message, 'Date')[:25]}  {'* ' if 'UNREAD' in message.get('labelIds', []) else ''}"
                 f"{header(message, 'From')}  |  {header(message, 'Subject')}\n    {html.unescape(message.get('snippet', ''))[:160]}" for message in messages]
        return messages, "\n".join(lines) or "nothing found"
    if arguments.action == "read":
        message = google.call("gmail", f"{user}/messages/{arguments.id}", format="full")
        files = [part["filename"] for part in parts_of(message["payload"]) if part.get("filename")]
        head = "\n".join(f"{name}: {header(message, name)}" for name in ("From", "To", "Cc", "Date", "Subject") if header(message, name))
        return message, head + (f"\nAttachments: {', '.join(files)}" if files else "") + "\n\n" + body_of(message["payload"])
    if arguments.action == "attachments":
        message = google.call("gmail", f"{user}/messages/{arguments.id}", format="full")
        arguments.out.mkdir(parents=True, exist_ok=True)
        saved = []
        for part in parts_of(message["payload"]):
            if part.get("filename") and part.get("body", {}).get("attachmentId"):
                data = google.call("gmail", f"{user}/messages/{arguments.id}/attachments/{part['body']['attachmentId']}")["data"]
                path = arguments.out / (re.sub(r"[^\w. -]", "_", Path(part["filename"]).name).lstrip(".") or "attachment")
                path.write_bytes(decode(data))
                saved.append(str(path))
        return saved, "\n".join(saved) or "no attachments"
    if arguments.action == "labels":
        labels = google.call("gmail", f"{user}/labels").get("labels", [])
        return labels, "\n".join(f"{label['id']}  {label['name']}" for label in labels)
    if arguments.action == "modify":
        answer = google.call("gmail", f"{user}/messages/{arguments.id}/modify", "POST", {"addLabelIds": arguments.add, "removeLabelIds": arguments.remove})
        return answer, f"{answer['id']}: {', '.join(answer.get('labelIds', []))}"
    mail, thread = EmailMessage(), None
    if arguments.reply_to:
        original = google.call("gmail", f"{user}/messages/{arguments.reply_to}", format="metadata",
                               metadataHeaders=["From", "Reply-To", "Subject", "Message-ID", "References"])
        thread = original["threadId"]
        subject = header(original, "Subject")
        arguments.subject = arguments.subject or (subject if subject.lower().startswith("re:") else f"Re: {subject}")
        arguments.to = arguments.to or [header(original, "Reply-To") or header(original, "From")]
        mail["In-Reply-To"] = header(original, "Message-ID")
        mail["References"] = f"{header(original, 'References')} {header(original, 'Message-ID')}".strip()
    if not arguments.to or not arguments.subject:
        fail("--to and --subject are needed, or --reply-to")
    mail["To"], mail["Subject"] = ", ".join(arguments.to), arguments.subject
    if arguments.cc:
        mail["Cc"] = ", ".join(arguments.cc)
    mail.set_content(read_text(arguments.body_file))
    for name in arguments.attach:
        kind, _, subtype = (mimetypes.guess_type(name)[0] or "application/octet-stream").partition("/")
        try:
            mail.add_attachment(Path(name).read_bytes(), maintype=kind, subtype=subtype, filename=Path(name).name)
        except OSError as error:
            fail(f"cannot read {name}: {error.strerror}")
    message = {"raw": base64.urlsafe_b64encode(mail.as_bytes()).decode()}
    if thread:
        message["threadId"] = thread
    if arguments.draft:
        answer = google.call("gmail", f"{user}/drafts", "POST", {"message": message})
        return answer, f"draft {answer['id']} to {mail['To']}: {mail['Subject']}"
    answer = google.call("gmail", f"{user}/messages/send", "POST", message)
    return answer, f"sent {answer['id']} to {mail['To']}: {mail['Subject']}"


def moment(text, zone):
    """Returns a time in the form of the calendar: a day, or a time with offset or zone."""
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return {"date": text}
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        fail(f"`{text}` is not a time; write 2026-03-05 or 2026-03-05T09:00")
    result = {"dateTime": time.isoformat()}
    if time.tzinfo is None and zone:
        result["timeZone"] = zone
    return result


def calendar(google, arguments):
    base = "/calendar/v3"
    events = f"{base}/calendars/{urllib.parse.quote(arguments.calendar, safe='')}/events"
    own_zone = None
    if arguments.action in ("add", "free") and not arguments.zone:
        own_zone = google.call("api", f"{base}/calendars/{urllib.parse.quote(arguments.calendar, safe='')}").get("timeZone")
    if arguments.action == "list":
        now = datetime.now(timezone.utc)
        found = google.call("api", events, timeMin=now.isoformat(), timeMax=(now + timedelta(days=arguments.days)).isoformat(), singleEvents="true",
                            orderBy="startTime", maxResults=arguments.max, q=arguments.query).get("items", [])
        lines = []
        for event in found:
            start, end = (event[key].get("dateTime", event[key].get("date", "")) for key in ("start", "end"))
            lines.append(f"{start} - {end}  {event.get('summary', '(no title)')}" + (f"  @ {event['location']}" if event.get("location") else "") + f"\n    id {event['id']}")
        return found, "\n".join(lines) or "no events"
    if arguments.action == "delete":
        google.call("api", f"{events}/{arguments.id}", "DELETE")
        return {"deleted": arguments.id}, f"deleted {arguments.id}"
    zone = arguments.zone or own_zone
    if arguments.action == "free":
        span = {"timeMin": moment(arguments.start, None)["dateTime"], "timeMax": moment(arguments.end, None)["dateTime"]}
        for key, value in span.items():
            if not re.search(r"([+-]\d\d:\d\d)$", value):
                try:
                    from zoneinfo import ZoneInfo
                    span[key] = datetime.fromisoformat(value).replace(tzinfo=ZoneInfo(zone or "UTC")).isoformat()
                except (ImportError, KeyError, ValueError):
                    fail(f"unknown zone `{zone}`; write times with an offset: 2026-03-05T09:00+01:00")
        found = google.call("api", f"{base}/freeBusy", "POST", {**span, "timeZone": zone, "items": [{"id": arguments.calendar}]})
        busy = [entry for value in found.get("calendars", {}).values() for entry in value.get("busy", [])]
        return busy, "\n".join(f"busy {entry['start']} - {entry['end']}" for entry in busy) or "free"
    event = {"summary": arguments.title, "start": moment(arguments.start, zone), "end": moment(arguments.end, zone)}
    if set(event["start"]) & {"date"} != set(event["end"]) & {"date"}:
        fail("start and end must both be days, or both be times")
    for key, value in (("location", arguments.location), ("description", arguments.description)):
        if value:
            event[key] = value
    if arguments.attendee:
        event["attendees"] = [{"email": address} for address in arguments.attendee]
    answer = google.call("api", events, "POST", event, sendUpdates="all" if arguments.attendee else "none")
    return answer, f"added {answer['id']}: {answer.get('htmlLink', '')}"


def upload(google, name, data, kind, target=None, parent=None):
    boundary = secrets.token_hex(16)
    meta = {"name": name}
    if target:
        meta["mimeType"] = target
    if parent:
        meta["parents"] = [parent]
    raw = (f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(meta)}\r\n--{boundary}\r\nContent-Type: {kind}\r\n\r\n").encode()
    raw += data + f"\r\n--{boundary}--\r\n".encode()
    return google.call("api", "/upload/drive/v3/files", "POST", raw=raw, kind=f"multipart/related; boundary={boundary}", uploadType="multipart",
                       fields="id,name,webViewLink", supportsAllDrives="true")


def drive(google, arguments):
    if arguments.action == "search":
        query = arguments.query if re.search(r"\b(contains|in|has)\b|[=<>]", arguments.query) else f"fullText contains '{arguments.query}' and trashed = false"
        found = google.call("api", "/drive/v3/files", q=query, pageSize=arguments.max, supportsAllDrives="true", includeItemsFromAllDrives="true",
                            fields="files(id,name,mimeType,modifiedTime,size,webViewLink)").get("files", [])
        return found, "\n".join(f"{file['id']}  {file['modifiedTime'][:10]}  {file['name']}  ({file['mimeType'].split('.')[-1]})\n    {file.get('webViewLink', '')}"
                                for file in found) or "nothing found"
    if arguments.action == "upload":
        path = Path(arguments.file)
        try:
            data = path.read_bytes()
        except OSError as error:
            fail(f"cannot read {path}: {error.strerror}")
        answer = upload(google, path.name, data, mimetypes.guess_type(path.name)[0] or "application/octet-stream", parent=arguments.parent)
        return answer, f"uploaded {answer['id']}  {answer['name']}  {answer.get('webViewLink', '')}"
    if arguments.export:
        data = google.call("api", f"/drive/v3/files/{arguments.id}/export", binary=True, mimeType=arguments.export)
    else:
        data = google.call("api", f"/drive/v3/files/{arguments.id}", binary=True, alt="media", supportsAllDrives="true")
    arguments.out.write_bytes(data)
    return {"path": str(arguments.out), "bytes": len(data)}, f"{arguments.out}  {len(data)} bytes"


def docs(google, arguments):
    if arguments.action == "read":
        text = google.call("api", f"/drive/v3/files/{arguments.id}/export", binary=True, mimeType="text/markdown").decode("utf-8", "replace")
        return {"text": text}, text
    text = read_text(arguments.file)
    if arguments.action == "create":
        answer = upload(google, arguments.title, text.encode(), "text/markdown", "application/vnd.google-apps.document", arguments.parent)
        return answer, f"created {answer['id']}  {answer.get('webViewLink', '')}"
    body = {"requests": [{"insertText": {"endOfSegmentLocation": {}, "text": "\n" + text}}]}
    answer = google.call("docs", f"/v1/documents/{arguments.id}:batchUpdate", "POST", body)
    return answer, f"appended {len(text)} characters"


def sheets(google, arguments):
    path = f"/v4/spreadsheets/{arguments.id}/values/{urllib.parse.quote(arguments.range, safe='')}"
    if arguments.action == "read":
        values = google.call("sheets", path).get("values", [])
        out = io.StringIO()
        if arguments.csv:
            csv.writer(out, lineterminator="\n").writerows(values)
        else:
            out.write("\n".join(" | ".join(str(cell) for cell in row) for row in values))
        return values, out.getvalue().rstrip("\n") or "empty"
    rows = list(csv.reader(io.StringIO(read_text(arguments.file))))
    if arguments.action == "append":
        answer = google.call("sheets", f"{path}:append", "POST", {"values": rows}, valueInputOption="USER_ENTERED", insertDataOption="INSERT_ROWS")
        return answer, f"appended {len(rows)} rows at {answer.get('updates', {}).get('updatedRange', '')}"
    answer = google.call("sheets", path, "PUT", {"values": rows}, valueInputOption="USER_ENTERED")
    return answer, f"updated {answer.get('updatedCells', 0)} cells at {answer.get('updatedRange', '')}"


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the data of the API")
    parser.add_argument("--base-url", help="one server for all services (proxy or test)")
    groups = parser.add_subparsers(dest="group", required=True)
    signer = groups.add_parser("login", help="get a refresh token; run it in your own terminal")
    signer.add_argument("--scopes", default="gmail,calendar,drive", help="comma list of " + ", ".join(SCOPES))
    signer.add_argument("--paste", action="store_true", help="the browser runs on another machine")
    signer.add_argument("--print", action="store_true", help="print the token instead of storing it")
    groups.add_parser("whoami", help="show the account")

    def action(group, name, *positional, **options):
        one = group.add_parser(name)
        for word in positional:
            one.add_argument(word)
        for key, value in options.items():
            one.add_argument("--" + key.replace("_", "-"), **value)
        return one

    group = groups.add_parser("gmail").add_subparsers(dest="action", required=True)
    action(group, "search", "query", max={"type": int, "default": 10})
    action(group, "read", "id")
    action(group, "attachments", "id", out={"type": Path, "default": Path(".")})
    action(group, "labels")
    action(group, "modify", "id", add={"action": "append", "default": []}, remove={"action": "append", "default": []})
    action(group, "send", to={"action": "append"}, cc={"action": "append"}, subject={}, body_file={"required": True}, attach={"action": "append", "default": []},
           reply_to={}, draft={"action": "store_true"})
    group = groups.add_parser("calendar").add_subparsers(dest="action", required=True)
    where = {"calendar": {"default": "primary"}}
    action(group, "list", days={"type": int, "default": 7}, max={"type": int, "default": 50}, query={}, **where)
    span = {"start": {"required": True}, "end": {"required": True}, "zone": {}}
    action(group, "add", title={"required": True}, location={}, description={}, attendee={"action": "append"}, **span, **where)
    action(group, "free", **span, **where)
    action(group, "delete", "id", **where)
    group = groups.add_parser("drive").add_subparsers(dest="action", required=True)
    action(group, "search", "query", max={"type": int, "default": 10})
    action(group, "get", "id", out={"type": Path, "required": True}, export={"metavar": "TYPE"})
    action(group, "upload", "file", parent={"metavar": "FOLDER_ID"})
    group = groups.add_parser("docs").add_subparsers(dest="action", required=True)
    action(group, "read", "id")
    action(group, "create", "title", file={"required": True}, parent={"metavar": "FOLDER_ID"})
    action(group, "append", "id", file={"required": True})
    group = groups.add_parser("sheets").add_subparsers(dest="action", required=True)
    action(group, "read", "id", "range", csv={"action": "store_true"})
    action(group, "append", "id", "range", file={"required": True})
    action(group, "update", "id", "range", file={"required": True})
    return parser.parse_args()


def main():
    arguments = parse()
    google = Google(arguments.base_url)
    if arguments.group == "login":
        login(google, arguments)
        return
    if arguments.group == "whoami":
        data = google.call("api", "/oauth2/v2/userinfo")
        text = data.get("email", "")
    else:
        functions = {"gmail": gmail, "calendar": calendar, "drive": drive, "docs": docs, "sheets": sheets}
        data, text = functions[arguments.group](google, arguments)
    print(json.dumps(data, indent=2, ensure_ascii=False) if arguments.json else text)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
