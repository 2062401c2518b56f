#!/usr/bin/env python3
"""Searches arXiv, shows papers by id, writes BibTeX entries and downloads PDFs."""
import argparse
import json
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from datetime import date
from pathlib import Path

ATOM = "{http://www.w3.org/2005/Atom}"
EXTRA = "{http://arxiv.org/schemas/atom}"
PAUSE = 3.0
ID = re.compile(r"(?:arxiv:|https?://arxiv\.org/(?:abs|pdf|html)/)?((?:\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(?:v\d+)?)(?:\.pdf)?", re.IGNORECASE)


def fail(text):
    sys.exit(f"arxiv_search: {text}")


def fetch(url, tries=3):
    request = urllib.request.Request(url, headers={"User-Agent": "hermes-arxiv-skill/1.0"})
    for attempt in range(tries):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            if error.code in (429, 503) and attempt + 1 < tries:
                time.sleep(PAUSE * (attempt + 2))
                continue
            fail(f"{url}: HTTP {error.code}")
        except (urllib.error.URLError, TimeoutError) as error:
            fail(f"{url}: {getattr(error, 'reason', error)}")
    return b""


def clean(text):
    return " ".join((text or "").split())


def papers_of(data):
    try:
        feed = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        fail(f"the answer is not a feed: {error}")
    papers = []
    for entry in feed.iter(f"{ATOM}entry"):
        link = clean(entry.findtext(f"{ATOM}id"))
        if "/api/errors" in link:
            fail(clean(entry.findtext(f"{ATOM}summary")))
        primary = entry.find(f"{EXTRA}primary_category")
        papers.append({
            "id": link.rsplit("/abs/", 1)[-1],
            "title": clean(entry.findtext(f"{ATOM}title")),
            "authors": [clean(author.findtext(f"{ATOM}name")) for author in entry.iter(f"{ATOM}author")],
            "published": clean(entry.findtext(f"{ATOM}published"))[:10],
            "updated": clean(entry.findtext(f"{ATOM}updated"))[:10],
            "category": primary.get("term") if primary is not None else "",
            "comment": clean(entry.findtext(f"{EXTRA}comment")),
            "journal": clean(entry.findtext(f"{EXTRA}journal_ref")),
            "doi": clean(entry.findtext(f"{EXTRA}doi")),
            "abstract": clean(entry.findtext(f"{ATOM}summary")),
            "link": link.replace("http://", "https://"),
        })
    return papers


def search(base, query, start, count, sort):
    if not re.search(r"\b(ti|au|abs|cat|co|jr|all|rn):", query):
        words = re.findall(r'"[^"]+"|\S+', query)
        query = " AND ".join(f"all:{word}" for word in words)
    order = {"relevance": "relevance", "date": "submittedDate", "updated": "lastUpdatedDate"}[sort]
    parameters = {"search_query": query, "start": start, "max_results": count, "sortBy": order, "sortOrder": "descending"}
    return papers_of(fetch(f"{base}/api/query?{urllib.parse.urlencode(parameters)}"))


def ids_of(words):
    ids = []
    for word in words:
        match = ID.fullmatch(word)
        if not match:
            fail(f"`{word}` is not an arXiv id")
        ids.append(match.group(1))
    return ids


def by_id(base, words):
    ids = ids_of(words)
    papers = papers_of(fetch(f"{base}/api/query?{urllib.parse.urlencode({'id_list': ','.join(ids), 'max_results': len(ids)})}"))
    if len(papers) < len(ids):
        fail(f"{len(ids) - len(papers)} of {len(ids)} ids do not exist")
    return papers


def show(papers, whole):
    for paper in papers:
        names = paper["authors"]
        author = ", ".join(names) if whole or len(names) <= 4 else ", ".join(names[:3]) + f" and {len(names) - 3} more"
        print(f"{paper['id']}  {paper['published']}  [{paper['category']}]  {paper['title']}")
        print(f"    {author}")
        for field in ("comment", "journal", "doi"):
            if whole and paper[field]:
                print(f"    {field}: {paper[field]}")
        abstract = paper["abstract"] if whole else paper["abstract"][:300] + ("…" if len(paper["abstract"]) > 300 else "")
        print(f"    {abstract}\n    {paper['link']}\n")


def bibtex(paper):
    bare = re.sub(r"v\d+$", "", paper["id"])
    family = re.sub(r"[^a-z]", "", (paper["authors"] or ["unknown"])[0].split()[-1].lower())
    word = next((word.lower() for word in re.findall(r"[A-Za-z]{4,}", paper["title"])), "paper")
    year = paper["published"][:4]
    title = re.sub(r"\b(\w*[A-Z]\w*[A-Z]\w*)\b", r"{\1}", paper["title"])
    lines = [f"@misc{{{family}{year}{word},", f"  title = {{{title}}},", f"  author = {{{' and '.join(paper['authors'])}}},",
             f"  year = {{{year}}},", f"  eprint = {{{bare}}},", "  archivePrefix = {arXiv},", f"  primaryClass = {{{paper['category']}}},"]
    if paper["doi"]:
        lines.append(f"  doi = {{{paper['doi']}}},")
    if paper["journal"]:
        lines.append(f"  note = {{{paper['journal']}}},")
    lines.append(f"  url = {{https://arxiv.org/abs/{bare}}}\n}}\n")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-url", default="https://export.arxiv.org", help="server of the API (default: %(default)s)")
    commands = parser.add_subparsers(dest="command", required=True)
    finder = commands.add_parser("search", help="search by query")
    finder.add_argument("query")
    finder.add_argument("--max", type=int, default=10, help="at most 200 (default: %(default)s)")
    finder.add_argument("--sort", choices=["relevance", "date", "updated"], default="relevance")
    finder.add_argument("--since", type=date.fromisoformat, help="only papers first submitted on this day or later: YYYY-MM-DD")
    getter = commands.add_parser("get", help="show papers with the whole abstract")
    getter.add_argument("ids", nargs="+")
    for one in (finder, getter):
        one.add_argument("--json", action="store_true")
    commands.add_parser("bibtex", help="print BibTeX entries").add_argument("ids", nargs="+")
    loader = commands.add_parser("pdf", help="download PDFs")
    loader.add_argument("ids", nargs="+")
    loader.add_argument("--out", type=Path, default=Path("."))
    arguments = parser.parse_args()
    base = arguments.base_url.rstrip("/")
    if arguments.command == "pdf":
        arguments.out.mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(ids_of(arguments.ids)):
            if number:
                time.sleep(PAUSE)
            host = base.replace("export.arxiv.org", "arxiv.org")
            data = fetch(f"{host}/pdf/{name}")
            if not data.startswith(b"%PDF"):
                fail(f"{name}: the answer is not a PDF")
            path = arguments.out / f"{name.replace('/', '_')}.pdf"
            path.write_bytes(data)
            print(f"{path}  {len(data)} bytes")
        return
    if arguments.command == "search":
        if not 1 <= arguments.max <= 200:
            parser.error("--max must be 1 to 200")
        papers = search(base, arguments.query, 0, arguments.max, arguments.sort)
        if arguments.since:
            papers = [paper for paper in papers if paper["published"] >= arguments.since.isoformat()]
    else:
        papers = by_id(base, arguments.ids)
    if arguments.command == "bibtex":
        print("\n".join(bibtex(paper) for paper in papers), end="")
    elif arguments.json:
        print(json.dumps(papers, indent=2, ensure_ascii=False))
    elif not papers:
        print("nothing found")
    else:
        show(papers, arguments.command == "get")


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
