#!/usr/bin/env python3
"""Searches GIFs on Tenor or GIPHY. Reads TENOR_API_KEY or GIPHY_API_KEY from the environment."""
import argparse
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from os import environ
from pathlib import Path

MOST_BYTES = 30_000_000


class Failure(Exception):
    """A request that failed, with the reason."""


def fetch(url):
    request = urllib.request.Request(url, headers={"User-Agent": "hermes-gif-search/1.0"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            data = answer.read(MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise Failure(f"HTTP {error.code}") from error
    except (urllib.error.URLError, TimeoutError, ValueError) as error:
        raise Failure(str(getattr(error, "reason", error))) from error
    if len(data) > MOST_BYTES:
        raise Failure("the answer is too large")
    return data


def fetch_json(url):
    try:
        return json.loads(fetch(url))
    except ValueError as error:
        raise Failure("the answer is not JSON") from error


def tenor(arguments):
    level = {"g": "high", "pg": "medium", "pg-13": "low", "r": "off"}[arguments.rating]
    query = urllib.parse.urlencode({"key": environ["TENOR_API_KEY"], "q": arguments.query, "limit": arguments.limit, "locale": arguments.locale,
                                    "media_filter": "gif,tinygif", "contentfilter": level, "client_key": "hermes"})
    found = []
    for result in fetch_json(f"{arguments.tenor_url}/v2/search?{query}").get("results", []):
        formats = result.get("media_formats", {})
        gif, small = formats.get("gif", {}), formats.get("tinygif", {})
        width, height = (gif.get("dims") or [0, 0])[:2]
        found.append({"title": result.get("content_description", ""), "url": gif.get("url"), "width": width, "height": height,
                      "bytes": gif.get("size", 0), "preview": small.get("url"), "page": result.get("itemurl", "")})
    return found


def giphy(arguments):
    query = urllib.parse.urlencode({"api_key": environ["GIPHY_API_KEY"], "q": arguments.query, "limit": arguments.limit, "rating": arguments.rating,
                                    "lang": arguments.locale[:2]})
    found = []
    for result in fetch_json(f"{arguments.giphy_url}/v1/gifs/search?{query}").get("data", []):
        images = result.get("images", {})
        gif, small = images.get("original", {}), images.get("fixed_height_small", {})
        found.append({"title": result.get("title", ""), "url": (gif.get("url") or "").split("?")[0], "width": int(gif.get("width") or 0),
                      "height": int(gif.get("height") or 0), "bytes": int(gif.get("size") or 0), "preview": (small.get("url") or "").split("?")[0],
                      "page": result.get("url", "")})
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("query")
    parser.add_argument("--service", choices=["auto", "tenor", "giphy"], default="auto")
    parser.add_argument("--limit", type=int, default=5, help="1 to 50 (default: %(default)s)")
    parser.add_argument("--rating", choices=["g", "pg", "pg-13", "r"], default="pg")
    parser.add_argument("--locale", default="en_US")
    parser.add_argument("--download", type=Path, metavar="FILE", help="download the first result")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tenor-url", default="https://tenor.googleapis.com")
    parser.add_argument("--giphy-url", default="https://api.giphy.com")
    arguments = parser.parse_args()
    if not 1 <= arguments.limit <= 50:
        parser.error("--limit must be 1 to 50")
    services = [("tenor", "TENOR_API_KEY", tenor), ("giphy", "GIPHY_API_KEY", giphy)]
    wanted = [service for service in services if arguments.service in ("auto", service[0])]
    usable = [service for service in wanted if environ.get(service[1])]
    if not usable:
        sys.exit(f"gif_search: {' or '.join(service[1] for service in wanted)} is not set")
    found, name = None, ""
    for name, _, search in usable:
        try:
            found = search(arguments)
            break
        except Failure as problem:
            print(f"gif_search: {name}: {problem}", file=sys.stderr)
    if found is None:
        sys.exit(1)
    found = [gif for gif in found if gif["url"]]
    if arguments.download:
        if not found:
            sys.exit("gif_search: nothing found")
        try:
            data = fetch(found[0]["url"])
        except Failure as problem:
            sys.exit(f"gif_search: {found[0]['url']}: {problem}")
        if not data.startswith(b"GIF8"):
            sys.exit("gif_search: the file is not a GIF")
        arguments.download.write_bytes(data)
        print(f"{arguments.download}  {len(data)} bytes  {found[0]['title']}")
    elif arguments.json:
        print(json.dumps({"service": name, "results": found}, indent=2, ensure_ascii=False))
    else:
        for gif in found:
            print(f"{gif['title']}  {gif['width']}x{gif['height']}  {gif['bytes'] // 1024} KB\n    {gif['url']}")
        if not found:
            print("nothing found")


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
