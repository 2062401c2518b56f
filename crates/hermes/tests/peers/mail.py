"""A person with a mailbox on a real server, for tests: sends mails, or prints those that came as JSON.

mail.py CA IMAPS SUBMISSION MX send FROM TO FILE   submits the mails of a JSON list of texts
mail.py CA IMAPS SUBMISSION MX forge FROM TO FILE  hands them to the server from outside, without signing in
mail.py CA IMAPS SUBMISSION MX read               prints the mails in alice's inbox
"""

import email
import email.policy
import imaplib
import json
import smtplib
import ssl
import sys

ca, imaps, submission, mx, what = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
context = ssl.create_default_context(cafile=ca)
ALICE = "alice@example.test"


def send(port, sign_in):
    mails = json.load(open(sys.argv[8]))
    with smtplib.SMTP("localhost", port) as server:
        if sign_in:
            server.starttls(context=context)
            server.login(ALICE, "pw-alice")
        for mail in mails:
            server.sendmail(sys.argv[6], sys.argv[7], mail.replace("\n", "\r\n").encode())


def read():
    box = imaplib.IMAP4_SSL("localhost", imaps, ssl_context=context)
    box.login(ALICE, "pw-alice")
    box.select("INBOX", readonly=True)
    found = []
    for number in box.search(None, "ALL")[1][0].split():
        raw = box.fetch(number, "(BODY.PEEK[])")[1][0][1]
        mail = email.message_from_bytes(raw, policy=email.policy.default)
        body = mail.get_body(("plain",))
        found.append({
            "subject": mail["Subject"],
            "id": mail["Message-ID"],
            "answers": mail["In-Reply-To"],
            "references": mail["References"],
            "text": body.get_content().strip() if body else "",
            "has_markup": mail.get_body(("html",)) is not None,
            "files": [[part.get_filename(), part.get_content()] for part in mail.iter_attachments()],
        })
    json.dump(found, sys.stdout, default=lambda value: value.decode() if isinstance(value, bytes) else str(value))


if what == "read":
    read()
else:
    send(submission if what == "send" else mx, what == "send")
