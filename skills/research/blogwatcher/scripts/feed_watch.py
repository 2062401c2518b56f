#!/usr/bin/env python3
"""Watches RSS and Atom feeds and prints new entries. Keeps feeds and known entries in one JSON file."""
import argparse
import html
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from pathlib import Path

MOST_BYTES = 10_000_000
MOST_KNOWN = 2000


def fail(text):
    sys.exit(f"feed_watch: {text}")


def fetch(url, agent):
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("only http and https addresses")
    request = urllib.request.Request(url, headers={"User-Agent": agent, "Accept": "application/atom+xml, application/rss+xml, text/html;q=0.8, */*;q=0.5"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        data = answer.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError("the answer is too large")
        return data, answer.geturl()


def plain(text, limit=400):
    text = html.unescape(re.sub(r"<[^>]+>", " ", text or ""))
    text = " ".join(text.split())
    return text[:limit] + ("…" if len(text) > limit else "")


def moment(text):
    """Returns an ISO time for the date formats of feeds, or an empty text."""
    text = (text or "").strip()
    for parse in (lambda value: datetime.fromisoformat(value.replace("Z", "+00:00")), parsedate_to_datetime):
        try:
            time = parse(text)
        except (ValueError, TypeError, IndexError):
            continue
        return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).astimezone(timezone.utc).isoformat(timespec="seconds")
    return ""


def parse_feed(data, base):
    """Returns the entries of an RSS or Atom feed, newest first as the feed has them."""
    if b"<!ENTITY" in data[:4000]:
        raise ValueError("the feed declares entities")
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise ValueError(f"not a feed: {error}") from error
    entries = []
    for element in root.iter():
        if element.tag.rsplit("}", 1)[-1] not in ("item", "entry"):
            continue
        fields = {}
        for child in element:
            name = child.tag.rsplit("}", 1)[-1]
            if name == "link" and child.get("href"):
                if child.get("rel", "alternate") == "alternate":
                    fields.setdefault("link", child.get("href"))
            else:
                fields.setdefault(name, "".join(child.itertext()))
        link = urllib.parse.urljoin(base, fields.get("link", "").strip())
        key = (fields.get("id") or fields.get("guid") or link or fields.get("title", "")).strip()
        if key:
            date = fields.get("published") or fields.get("pubDate") or fields.get("updated") or fields.get("date")
            summary = fields.get("summary") or fields.get("description") or fields.get("encoded") or fields.get("content")
            entries.append({"key": key, "title": plain(fields.get("title"), 200) or "(no title)", "link": link,
                            "date": moment(date), "summary": plain(summary)})
    if not entries and root.tag.rsplit("}", 1)[-1] not in ("rss", "feed", "RDF"):
        raise ValueError("not a feed")
    return entries


class FeedLinks(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links = []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        kind = (values.get("type") or "").lower()
        if tag == "link" and values.get("href") and ("rss" in kind or "atom" in kind):
            self.links.append((values["href"], values.get("title") or kind))


def find(url, agent):
    data, final = fetch(url, agent)
    try:
        parse_feed(data, final)
        return [(final, "this address is a feed")]
    except ValueError:
        pass
    parser = FeedLinks()
    parser.feed(data.decode("utf-8", "replace"))
    found = [(urllib.parse.urljoin(final, href), title) for href, title in parser.links]
    if found:
        return found
    for guess in ("feed", "rss.xml", "atom.xml", "feed.xml", "index.xml", "rss"):
        candidate = urllib.parse.urljoin(final if final.endswith("/") else final + "/", guess)
        try:
            data, reached = fetch(candidate, agent)
            parse_feed(data, reached)
            return [(reached, "guessed")]
        except (OSError, ValueError):
            continue
    return []


def load(path):
    if not path.exists():
        return {"feeds": {}}
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        state["feeds"].items()
        return state
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        fail(f"{path} cannot be read ({error}); repair it or move it away")


def save(path, state):
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(state, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(path)


def scan(state, agent, report_existing):
    """Reads all feeds. Returns new entries and failures, and adds what it saw to the state."""
    fresh, failures = [], []
    for name, feed in state["feeds"].items():
        try:
            data, final = fetch(feed["url"], agent)
            entries = parse_feed(data, final)
        except (OSError, ValueError) as error:
            failures.append(f"{name}: {getattr(error, 'reason', None) or error}")
            continue
        known = set(feed.get("known", []))
        first = feed.get("scanned") is None and not report_existing
        for entry in entries:
            if entry["key"] in known:
                continue
            known.add(entry["key"])
            feed.setdefault("known", []).append(entry["key"])
            if not first:
                fresh.append({"feed": name, **entry})
        # Entries that are still in the feed must stay known, however many there are.
        keep = max(MOST_KNOWN, 2 * len(entries))
        feed["known"] = feed.get("known", [])[-keep:]
        feed["scanned"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
        feed["recent"] = [{key: entry[key] for key in ("title", "link", "date")} for entry in entries[:30]]
    fresh.sort(key=lambda entry: entry["date"], reverse=True)
    return fresh, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, default=Path("feeds.json"), help="state file (default: %(default)s)")
    parser.add_argument("--user-agent", default="hermes-feed-watch/1.0")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("find", help="find the feeds of a page").add_argument("url")
    adder = commands.add_parser("add", help="add a feed")
    adder.add_argument("name")
    adder.add_argument("url")
    commands.add_parser("remove", help="remove a feed").add_argument("name")
    commands.add_parser("list", help="list the feeds")
    scanner = commands.add_parser("scan", help="read all feeds and print what is new")
    scanner.add_argument("--json", action="store_true")
    scanner.add_argument("--dry-run", action="store_true", help="do not remember what was printed")
    scanner.add_argument("--report-existing", action="store_true", help="report all entries of a feed at its first scan")
    commands.add_parser("recent", help="list entries of the last days, without network").add_argument("--days", type=int, default=7)
    arguments = parser.parse_args()
    try:
        if arguments.command == "find":
            found = find(arguments.url, arguments.user_agent)
            print("\n".join(f"{url}  ({title})" for url, title in found) or "no feed found")
            return
    except (OSError, ValueError) as error:
        fail(f"{arguments.url}: {getattr(error, 'reason', None) or error}")
    state = load(arguments.state)
    feeds = state["feeds"]
    if arguments.command == "add":
        if arguments.name in feeds:
            fail(f"there is a feed `{arguments.name}`; remove it first")
        try:
            data, final = fetch(arguments.url, arguments.user_agent)
            count = len(parse_feed(data, final))
        except (OSError, ValueError) as error:
            fail(f"{arguments.url}: {getattr(error, 'reason', None) or error}; `find` looks for the feed of a page")
        feeds[arguments.name] = {"url": arguments.url, "known": [], "scanned": None}
        save(arguments.state, state)
        print(f"added {arguments.name}: {count} entries")
    elif arguments.command == "remove":
        if feeds.pop(arguments.name, None) is None:
            fail(f"there is no feed `{arguments.name}`")
        save(arguments.state, state)
        print(f"removed {arguments.name}")
    elif arguments.command == "list":
        for name, feed in feeds.items():
            print(f"{name}  {feed['url']}  last scan {feed.get('scanned') or 'never'}, {len(feed.get('known', []))} known")
    elif arguments.command == "recent":
        limit = (datetime.now(timezone.utc) - timedelta(days=arguments.days)).isoformat(timespec="seconds")
        entries = [(entry["date"], name, entry) for name, feed in feeds.items() for entry in feed.get("recent", []) if entry["date"] >= limit]
        for moment_text, name, entry in sorted(entries, key=lambda row: row[0], reverse=True):
            print(f"{moment_text[:10]}  [{name}] {entry['title']}\n    {entry['link']}")
    else:
        fresh, failures = scan(state, arguments.user_agent, arguments.report_existing)
        if not arguments.dry_run:
            save(arguments.state, state)
        if arguments.json:
            print(json.dumps({"new": fresh, "failed": failures}, indent=2, ensure_ascii=False))
        else:
            for entry in fresh:
                print(f"{entry['date'][:10] or '----------'}  [{entry['feed']}] {entry['title']}\n    {entry['link']}\n    {entry['summary']}")
            for failure in failures:
                print(f"failed: {failure}")
            if not fresh:
                print("nothing new")
        if failures and len(failures) == len(feeds):
            sys.exit(1)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
