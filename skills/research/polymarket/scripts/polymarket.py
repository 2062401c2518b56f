#!/usr/bin/env python3
"""Reads public data of Polymarket: search, events, markets, price history, order book. Read only."""
import argparse
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime, timezone


def fail(text):
    sys.exit(f"polymarket: {text}")


def fetch(base, path, **parameters):
    url = f"{base.rstrip('/')}{path}?{urllib.parse.urlencode(parameters)}"
    request = urllib.request.Request(url, headers={"User-Agent": "hermes-polymarket-skill/1.0", "Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        hint = "; wait a minute" if error.code == 429 else "; the service may not be available in this country" if error.code == 403 else ""
        fail(f"{base}{path}: HTTP {error.code}{hint}")
    except (urllib.error.URLError, TimeoutError) as error:
        fail(f"{base}{path}: {getattr(error, 'reason', error)}")
    except ValueError:
        fail(f"{base}{path}: the answer is not JSON")


def decoded(value):
    """Returns a list that may be given as JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return []
    return value or []


def number(value):
    try:
        return float(value or 0)
    except (TypeError, ValueError):
        return 0.0


def money(value):
    value = number(value)
    return f"${value / 1e6:.1f}M" if value >= 1e6 else f"${value / 1e3:.0f}K" if value >= 1e3 else f"${value:.0f}"


def simple_market(market):
    outcomes, prices, tokens = (decoded(market.get(key)) for key in ("outcomes", "outcomePrices", "clobTokenIds"))
    rows = []
    for index, outcome in enumerate(outcomes):
        rows.append({"outcome": outcome, "price": number(prices[index]) if index < len(prices) else None,
                     "token_id": tokens[index] if index < len(tokens) else None})
    return {"question": market.get("question", ""), "slug": market.get("slug", ""), "outcomes": rows, "volume": number(market.get("volume")),
            "liquidity": number(market.get("liquidity")), "ends": (market.get("endDate") or "")[:10], "closed": bool(market.get("closed")),
            "condition_id": market.get("conditionId", ""), "description": market.get("description", "")}


def simple_event(event):
    return {"title": event.get("title", ""), "slug": event.get("slug", ""), "volume": number(event.get("volume")),
            "volume_24h": number(event.get("volume24hr")), "ends": (event.get("endDate") or "")[:10], "closed": bool(event.get("closed")),
            "markets": [simple_market(market) for market in event.get("markets", []) if market.get("question")]}


def show_market(market, details=False):
    prices = "  ".join(f"{row['outcome']} {row['price']:.1%}" for row in market["outcomes"] if row["price"] is not None)
    state = "closed" if market["closed"] else f"ends {market['ends'] or '?'}"
    print(f"  {market['question']}\n    {prices or 'no prices'}  | volume {money(market['volume'])}, {state}, slug {market['slug']}")
    if details:
        for row in market["outcomes"]:
            print(f"    token {row['outcome']}: {row['token_id']}")
        print(f"    liquidity {money(market['liquidity'])}, condition {market['condition_id']}\n\n{market['description'].strip()}")


def show_event(event, most):
    print(f"{event['title']}  (volume {money(event['volume'])}, {'closed' if event['closed'] else 'ends ' + (event['ends'] or '?')})")
    print(f"  https://polymarket.com/event/{event['slug']}")
    def best(market):
        return -(market["outcomes"][0]["price"] or 0) if market["outcomes"] else 0
    markets = sorted(event["markets"], key=lambda market: (market["closed"], best(market)))
    for market in markets[:most]:
        show_market(market)
    if len(markets) > most:
        print(f"  … {len(markets) - most} more markets (`event {event['slug']}`)")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gamma", default="https://gamma-api.polymarket.com", metavar="URL")
    parser.add_argument("--clob", default="https://clob.polymarket.com", metavar="URL")
    parser.add_argument("--json", action="store_true", help="print JSON")
    commands = parser.add_subparsers(dest="command", required=True)
    finder = commands.add_parser("search", help="search events")
    finder.add_argument("query")
    trending = commands.add_parser("trending", help="open events with most volume in 24 hours")
    for one in (finder, trending):
        one.add_argument("--limit", type=int, default=5)
    commands.add_parser("event", help="an event with all markets").add_argument("slug")
    commands.add_parser("market", help="a market with rules and token ids").add_argument("slug")
    history = commands.add_parser("history", help="price history of an outcome")
    history.add_argument("token_id")
    history.add_argument("--interval", choices=["1h", "6h", "1d", "1w", "1m", "max"], default="1w")
    history.add_argument("--points", type=int, default=20, help="lines to print (default: %(default)s)")
    commands.add_parser("book", help="order book of an outcome").add_argument("token_id")
    # --json is accepted after the command too.
    words = sys.argv[1:]
    if "--json" in words:
        words = ["--json"] + [word for word in words if word != "--json"]
    arguments = parser.parse_args(words)

    if arguments.command in ("search", "trending"):
        if arguments.command == "search":
            found = fetch(arguments.gamma, "/public-search", q=arguments.query, limit_per_type=arguments.limit, events_status="active")
            events = found.get("events") or []
        else:
            events = fetch(arguments.gamma, "/events", closed="false", order="volume24hr", ascending="false", limit=arguments.limit)
        result = [simple_event(event) for event in events[: arguments.limit]]
    elif arguments.command == "event":
        result = [simple_event(event) for event in fetch(arguments.gamma, "/events", slug=arguments.slug)]
        if not result:
            fail(f"there is no event `{arguments.slug}`")
    elif arguments.command == "market":
        result = [simple_market(market) for market in fetch(arguments.gamma, "/markets", slug=arguments.slug)]
        if not result:
            fail(f"there is no market `{arguments.slug}`; `event` and `search` show the slugs")
    elif arguments.command == "history":
        fidelity = {"1h": 1, "6h": 5, "1d": 15, "1w": 60, "1m": 240, "max": 1440}[arguments.interval]
        found = fetch(arguments.clob, "/prices-history", market=arguments.token_id, interval=arguments.interval, fidelity=fidelity)
        result = [{"time": datetime.fromtimestamp(point["t"], timezone.utc).isoformat(timespec="minutes"), "price": point["p"]}
                  for point in found.get("history", [])]
    else:
        found = fetch(arguments.clob, "/book", token_id=arguments.token_id)
        result = {"bids": sorted(found.get("bids", []), key=lambda row: -number(row["price"]))[:10],
                  "asks": sorted(found.get("asks", []), key=lambda row: number(row["price"]))[:10]}

    if arguments.json:
        print(json.dumps(result, indent=2, ensure_ascii=False))
    elif arguments.command in ("search", "trending", "event"):
        if not result:
            print("nothing found")
        for event in result:
            show_event(event, 200 if arguments.command == "event" else 4)
    elif arguments.command == "market":
        for market in result:
            show_market(market, details=True)
    elif arguments.command == "history":
        if not result:
            print("no history")
        step = max(1, -(-len(result) // max(1, arguments.points)))
        chosen = result[::step]
        if result and chosen[-1] is not result[-1]:
            chosen.append(result[-1])
        for point in chosen:
            print(f"{point['time']}  {point['price']:.1%}")
    else:
        for side in ("asks", "bids"):
            print(side)
            for row in reversed(result[side]) if side == "asks" else result[side]:
                print(f"  {number(row['price']):.3f}  {number(row['size']):.0f}")
        if result["bids"] and result["asks"]:
            print(f"spread {number(result['asks'][0]['price']) - number(result['bids'][0]['price']):.3f}")


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
