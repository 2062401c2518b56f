#!/usr/bin/env python3
"""Numbers, text messages and calls through Twilio. Reads TWILIO_ACCOUNT_SID, TWILIO_AUTH_TOKEN and TWILIO_PHONE_NUMBER."""
import argparse
import base64
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from os import environ
from pathlib import Path
from xml.sax.saxutils import escape

DEFAULT_API = "https://api.twilio.com"
NUMBER = re.compile(r"\+[1-9]\d{6,14}")
MOST_TEXT_CHARS = 1600


def fail(text):
    sys.exit(f"phone: {text}")


class Twilio:
    def __init__(self, api):
        self.account = environ.get("TWILIO_ACCOUNT_SID", "")
        token = environ.get("TWILIO_AUTH_TOKEN", "")
        if not self.account or not token:
            fail("TWILIO_ACCOUNT_SID and TWILIO_AUTH_TOKEN are not set; both are on the first page of the Twilio console")
        self.base = f"{api.rstrip('/')}/2010-04-01/Accounts/{urllib.parse.quote(self.account, safe='')}"
        self.credentials = base64.b64encode(f"{self.account}:{token}".encode()).decode()

    def open(self, url, fields=None):
        data = urllib.parse.urlencode(fields, doseq=True).encode() if fields is not None else None
        headers = {"Authorization": f"Basic {self.credentials}", "User-Agent": "hermes-telephony-skill/1.0"}
        try:
            return urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers), timeout=60)
        except urllib.error.HTTPError as error:
            body = error.read().decode("utf-8", "replace")
            try:
                parsed = json.loads(body)
                body = f"{parsed.get('message')} (code {parsed.get('code')})"
            except (ValueError, AttributeError):
                pass
            fail(f"HTTP {error.code}: {body[:300]}")
        except (urllib.error.URLError, TimeoutError) as error:
            fail(str(getattr(error, "reason", error)))

    def get(self, path, **query):
        pairs = {name: value for name, value in query.items() if value not in (None, "")}
        with self.open(f"{self.base}/{path}" + (f"?{urllib.parse.urlencode(pairs)}" if pairs else "")) as answer:
            return json.load(answer)

    def post(self, path, fields):
        with self.open(f"{self.base}/{path}", fields) as answer:
            return json.load(answer)


def number(text):
    cleaned = re.sub(r"[\s()./-]", "", text)
    if not NUMBER.fullmatch(cleaned):
        raise argparse.ArgumentTypeError(f"{text} is not a number like +4930123456 (plus sign and country code)")
    return cleaned


def sender(arguments):
    given = getattr(arguments, "sender", None) or environ.get("TWILIO_PHONE_NUMBER", "")
    if not given:
        fail("no sender: give --from or set TWILIO_PHONE_NUMBER to one of your numbers (`numbers` lists them)")
    return given


def text_of(given, file):
    if file == "-":
        return sys.stdin.read()
    if file:
        try:
            return Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            fail(f"cannot read {file}: {error}")
    return given


def account(twilio, arguments):
    with twilio.open(f"{twilio.base}.json") as answer:
        found = json.load(answer)
    data = {name: found.get(name) for name in ("friendly_name", "type", "status")}
    money = twilio.get("Balance.json")
    data["balance"] = f"{money['balance']} {money['currency']}"
    return list(data.items()), data


def numbers(twilio, arguments):
    data = twilio.get("IncomingPhoneNumbers.json", PageSize=50)["incoming_phone_numbers"]
    return [(entry["phone_number"], "+".join(name for name, can in entry["capabilities"].items() if can), entry["friendly_name"]) for entry in data], data


def search(twilio, arguments):
    query = {"AreaCode": arguments.area, "Contains": arguments.contains, "SmsEnabled": "true" if arguments.sms else None, "VoiceEnabled": "true" if arguments.voice else None, "PageSize": arguments.limit}
    data = twilio.get(f"AvailablePhoneNumbers/{arguments.country.upper()}/{arguments.kind}.json", **query)["available_phone_numbers"]
    return [(entry["phone_number"], entry.get("locality") or "", entry.get("region") or "", "+".join(name for name, can in entry["capabilities"].items() if can)) for entry in data], data


def buy(twilio, arguments):
    if not arguments.yes:
        fail("buying costs money every month: ask the user, then repeat with --yes")
    data = twilio.post("IncomingPhoneNumbers.json", {"PhoneNumber": arguments.number})
    return [("bought", data["phone_number"], data["sid"])], data


def sms(twilio, arguments):
    text = text_of(arguments.text, arguments.text_file)
    if not text and not arguments.media:
        fail("no text")
    if len(text or "") > MOST_TEXT_CHARS:
        fail(f"the text has {len(text)} characters; {MOST_TEXT_CHARS} at most")
    fields = {"From": sender(arguments), "To": arguments.to, "Body": text or "", "MediaUrl": arguments.media or []}
    data = twilio.post("Messages.json", fields)
    return [(data["sid"], data["status"], f"{data.get('num_segments')} segment(s)")], data


def messages(twilio, arguments):
    query = {"PageSize": arguments.limit, "To": arguments.to, "From": arguments.sender, "DateSent>": arguments.since}
    data = twilio.get("Messages.json", **query)["messages"]
    return [(entry.get("date_sent") or "", entry["direction"], entry["from"], "->", entry["to"], entry["status"], (entry.get("body") or "").replace("\n", " / ")) for entry in data], data


def call(twilio, arguments):
    text = text_of(arguments.say, arguments.say_file)
    if not text:
        fail("no text to say")
    voice = f' voice="{escape(arguments.voice, {chr(34): ""})}"' if arguments.voice else ""
    language = f' language="{escape(arguments.language, {chr(34): ""})}"' if arguments.language else ""
    once = f"<Say{voice}{language}>{escape(text)}</Say>"
    twiml = f"<Response><Pause length=\"1\"/>{once}" + (f"<Pause length=\"1\"/>{once}" if arguments.twice else "") + "</Response>"
    if len(twiml) > 4000:
        fail("the text is too long for a call: 4,000 characters with its marks")
    fields = {"From": sender(arguments), "To": arguments.to, "Twiml": twiml, "Timeout": str(arguments.ring)}
    if arguments.record:
        fields["Record"] = "true"
    data = twilio.post("Calls.json", fields)
    return [(data["sid"], data["status"])], data


def state(twilio, arguments):
    kind = {"CA": "Calls", "SM": "Messages", "MM": "Messages"}.get(arguments.sid[:2])
    if not kind or not re.fullmatch(r"[A-Z]{2}[0-9a-f]{32}", arguments.sid):
        fail("the id begins with CA (call), SM or MM (message) and has 32 hexadecimal digits")
    data = twilio.get(f"{kind}/{arguments.sid}.json")
    rows = [(name, data.get(name)) for name in ("status", "from", "to", "duration", "answered_by", "error_code", "error_message", "price", "price_unit") if data.get(name) is not None]
    return rows, data


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--api", default=DEFAULT_API, help="address of the service (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the data")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, run, text):
        one = commands.add_parser(name, help=text)
        one.set_defaults(run=run)
        return one

    command("account", account, "type, status and balance of the account")
    command("numbers", numbers, "own numbers")
    one = command("search", search, "numbers that can be bought")
    one.add_argument("country", help="two letters, for instance US or DE")
    one.add_argument("--kind", choices=("Local", "Mobile", "TollFree"), default="Local")
    one.add_argument("--area", help="area code (US and Canada)")
    one.add_argument("--contains", help="digits, * for any")
    one.add_argument("--sms", action="store_true", help="must take text messages")
    one.add_argument("--voice", action="store_true", help="must take calls")
    one.add_argument("--limit", type=int, default=10)
    one = command("buy", buy, "buy a number (costs money each month)")
    one.add_argument("number", type=number)
    one.add_argument("--yes", action="store_true", help="the user agreed")
    one = command("sms", sms, "send a text message")
    one.add_argument("to", type=number)
    one.add_argument("text", nargs="?", default="")
    one.add_argument("--text-file", help="file with the text; - is standard input")
    one.add_argument("--media", action="append", help="public address of a picture (MMS, US and Canada)")
    one.add_argument("--from", dest="sender", type=number)
    one = command("messages", messages, "newest messages, both ways")
    one.add_argument("--to", type=number)
    one.add_argument("--from", dest="sender", type=number)
    one.add_argument("--since", help="day, as 2026-01-31")
    one.add_argument("--limit", type=int, default=20)
    one = command("call", call, "call and speak a text")
    one.add_argument("to", type=number)
    one.add_argument("say", nargs="?", default="")
    one.add_argument("--say-file", help="file with the text; - is standard input")
    one.add_argument("--voice", help="for instance Polly.Joanna")
    one.add_argument("--language", help="for instance en-GB or de-DE")
    one.add_argument("--twice", action="store_true", help="say it twice")
    one.add_argument("--record", action="store_true", help="record the call; in many places the other side must agree")
    one.add_argument("--ring", type=int, default=30, help="seconds to ring (default: %(default)s)")
    one.add_argument("--from", dest="sender", type=number)
    one = command("status", state, "what became of a message or call")
    one.add_argument("sid")
    arguments = parser.parse_args()
    try:
        rows, data = arguments.run(Twilio(arguments.api), arguments)
    except (KeyError, TypeError, ValueError) as error:
        fail(f"unexpected answer of the service: {error!r}")
    if arguments.json:
        print(json.dumps(data, indent=2, ensure_ascii=False))
        return
    for row in rows:
        print("  ".join("" if cell is None else str(cell) for cell in row))
    if not rows:
        print("nothing found")


if __name__ == "__main__":
    main()
