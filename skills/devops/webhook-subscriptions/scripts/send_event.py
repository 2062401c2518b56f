#!/usr/bin/env python3
"""Sends a JSON event to a webhook, signed with HMAC-SHA256 of the body.

The secret is read from the variable WEBHOOK_SECRET. The payload comes from a file or from standard input.
"""
import argparse
import hashlib
import hmac
import json
import sys
import urllib.error
import urllib.request
import uuid
from os import environ
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="address of the route: https://HOST/webhooks/NAME")
    parser.add_argument("--file", help="JSON payload; - or nothing is standard input", default="-")
    parser.add_argument("--event", default="", help="event name, sent as X-GitHub-Event")
    parser.add_argument("--style", choices=["github", "generic"], default="github",
                        help="X-Hub-Signature-256 or X-Webhook-Signature (default: %(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="print the request instead of sending it, without the signature")
    arguments = parser.parse_args()

    secret = environ.get("WEBHOOK_SECRET", "")
    if not secret and not arguments.dry_run:
        sys.exit("send_event: set WEBHOOK_SECRET to the secret of the route")
    try:
        text = sys.stdin.read() if arguments.file == "-" else Path(arguments.file).read_text(encoding="utf-8")
        body = json.dumps(json.loads(text), separators=(",", ":")).encode()
    except OSError as error:
        sys.exit(f"send_event: cannot read {arguments.file}: {error.strerror}")
    except ValueError as error:
        sys.exit(f"send_event: the payload is not JSON: {error}")
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {"Content-Type": "application/json", "X-GitHub-Delivery": str(uuid.uuid4())}
    if arguments.event:
        headers["X-GitHub-Event"] = arguments.event
    if arguments.dry_run:
        print(json.dumps({"url": arguments.url, "headers": headers, "bytes": len(body)}, indent=2))
        return
    if arguments.style == "github":
        headers["X-Hub-Signature-256"] = f"sha256={signature}"
    else:
        headers["X-Webhook-Signature"] = signature
    request = urllib.request.Request(arguments.url, data=body, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            print(answer.status, answer.read().decode("utf-8", "replace").strip())
    except urllib.error.HTTPError as error:
        sys.exit(f"send_event: HTTP {error.code}: {error.read().decode('utf-8', 'replace').strip()[:300]}")
    except (urllib.error.URLError, ValueError) as error:
        sys.exit(f"send_event: {getattr(error, 'reason', error)}")


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
