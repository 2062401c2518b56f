#!/usr/bin/env python3
"""Finds places near a location in OpenStreetMap (Nominatim for addresses, Overpass for places)."""
import argparse
import json
import math
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime

KINDS = {
    "atm": "amenity=atm", "bakery": "shop=bakery", "bank": "amenity=bank", "bar": "amenity=bar", "bike-rental": "amenity=bicycle_rental",
    "bus-stop": "highway=bus_stop", "cafe": "amenity=cafe", "charging": "amenity=charging_station", "cinema": "amenity=cinema",
    "clinic": "amenity=clinic", "dentist": "amenity=dentist", "doctor": "amenity=doctors", "drinking-water": "amenity=drinking_water",
    "fast-food": "amenity=fast_food", "fuel": "amenity=fuel", "gym": "leisure=fitness_centre", "hospital": "amenity=hospital",
    "hotel": "tourism=hotel", "ice-cream": "amenity=ice_cream", "library": "amenity=library", "museum": "tourism=museum",
    "park": "leisure=park", "parking": "amenity=parking", "pharmacy": "amenity=pharmacy", "playground": "leisure=playground",
    "police": "amenity=police", "post": "amenity=post_office", "pub": "amenity=pub", "restaurant": "amenity=restaurant",
    "sight": "tourism=attraction", "supermarket": "shop=supermarket", "swimming": "leisure=swimming_pool", "theatre": "amenity=theatre",
    "toilets": "amenity=toilets", "train": "railway=station", "viewpoint": "tourism=viewpoint",
}
DAYS = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"]


def fail(text):
    sys.exit(f"find_nearby: {text}")


def fetch(url, data=None):
    request = urllib.request.Request(url, data=data, headers={"User-Agent": "hermes-find-nearby/1.0", "Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        hint = "; the server is busy, wait a minute" if error.code in (429, 504) else ""
        fail(f"{url.split('?')[0]}: HTTP {error.code}{hint}")
    except (urllib.error.URLError, TimeoutError) as error:
        fail(f"{url.split('?')[0]}: {getattr(error, 'reason', error)}")
    except ValueError:
        fail(f"{url.split('?')[0]}: the answer is not JSON")


def locate(server, text):
    query = urllib.parse.urlencode({"q": text, "format": "jsonv2", "limit": 1})
    found = fetch(f"{server.rstrip('/')}/search?{query}")
    if not found:
        fail(f"`{text}` was not found; add the city or the country")
    return float(found[0]["lat"]), float(found[0]["lon"]), found[0].get("display_name", text)


def tag(text):
    key, separator, value = text.partition("=")
    if not separator or not re.fullmatch(r"[\w:-]+", key) or re.search(r"[\"\\\]]", value):
        fail(f"`{text}` is not key=value, and not one of the kinds of --list-kinds")
    return f'["{key}"]' if value in ("", "*") else f'["{key}"="{value}"]'


def distance(lat1, lon1, lat2, lon2):
    """Returns the distance in meters (great circle)."""
    p1, p2 = math.radians(lat1), math.radians(lat2)
    half = math.sin((p2 - p1) / 2) ** 2 + math.cos(p1) * math.cos(p2) * math.sin(math.radians(lon2 - lon1) / 2) ** 2
    return 2 * 6_371_000 * math.asin(math.sqrt(half))


def days_of(text):
    """Returns the weekday numbers of `Mo-Fr,Su`, or None if it is anything else."""
    days = set()
    for part in text.split(","):
        match = re.fullmatch(r"(Mo|Tu|We|Th|Fr|Sa|Su)(?:-(Mo|Tu|We|Th|Fr|Sa|Su))?", part.strip())
        if not match:
            return None
        first = DAYS.index(match.group(1))
        last = DAYS.index(match.group(2)) if match.group(2) else first
        days.update((first + step) % 7 for step in range((last - first) % 7 + 1))
    return days


def is_open(hours, now):
    """Returns True, False, or None if the text is not one of the simple forms."""
    if not hours:
        return None
    if hours.strip() == "24/7":
        return True
    minute, result = now.hour * 60 + now.minute, False
    for rule in filter(None, (rule.strip() for rule in hours.split(";"))):
        if re.match(r"PH|SH", rule):
            continue
        match = re.fullmatch(r"((?:Mo|Tu|We|Th|Fr|Sa|Su)[A-Za-z,\s-]*?)?\s*(off|closed|\d.*)", rule)
        if not match:
            return None
        days = days_of(match.group(1)) if match.group(1) else set(range(7))
        if days is None:
            return None
        if match.group(2) in ("off", "closed"):
            if now.weekday() in days:
                result = False
            continue
        spans = []
        for span in match.group(2).split(","):
            times = re.fullmatch(r"\s*(\d\d?):(\d\d)\s*-\s*(\d\d?):(\d\d)\s*", span)
            if not times:
                return None
            h1, m1, h2, m2 = map(int, times.groups())
            spans.append((h1 * 60 + m1, h2 * 60 + m2))
        if now.weekday() in days:
            result = any(start <= minute < (1440 if end <= start else end) for start, end in spans)
        if (now.weekday() - 1) % 7 in days and any(end <= start and minute < end for start, end in spans):
            result = True
    return result


def address(tags):
    street = " ".join(filter(None, [tags.get("addr:street"), tags.get("addr:housenumber")]))
    city = " ".join(filter(None, [tags.get("addr:postcode"), tags.get("addr:city")]))
    return ", ".join(filter(None, [street, city]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", nargs="?", help="a kind of --list-kinds, or key=value")
    parser.add_argument("--near", help="address or place name")
    parser.add_argument("--lat", type=float)
    parser.add_argument("--lon", type=float)
    parser.add_argument("--radius", type=int, default=800, help="meters, at most 20000 (default: %(default)s)")
    parser.add_argument("--where", action="append", default=[], metavar="KEY=VALUE", help="further condition; repeatable")
    parser.add_argument("--open", action="store_true", help="leave out what is closed now; unknown hours come last")
    parser.add_argument("--now", type=datetime.fromisoformat, default=None, help="time for --open: 2026-03-02T18:30")
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list-kinds", action="store_true")
    parser.add_argument("--overpass", default="https://overpass-api.de/api/interpreter", metavar="URL")
    parser.add_argument("--nominatim", default="https://nominatim.openstreetmap.org", metavar="URL")
    arguments = parser.parse_args()
    if arguments.list_kinds:
        print("\n".join(f"{name:<16}{value}" for name, value in sorted(KINDS.items())))
        return
    if not arguments.kind:
        parser.error("a kind is needed")
    if not 1 <= arguments.radius <= 20_000:
        parser.error("--radius must be 1 to 20000")
    if arguments.near:
        lat, lon, name = locate(arguments.nominatim, arguments.near)
    elif arguments.lat is not None and arguments.lon is not None:
        lat, lon, name = arguments.lat, arguments.lon, f"{arguments.lat}, {arguments.lon}"
    else:
        parser.error("--near, or --lat and --lon are needed")
    conditions = tag(KINDS.get(arguments.kind, arguments.kind)) + "".join(tag(text) for text in arguments.where)
    query = f"[out:json][timeout:50];nwr{conditions}(around:{arguments.radius},{lat},{lon});out center tags 200;"
    found = fetch(arguments.overpass, urllib.parse.urlencode({"data": query}).encode())
    now = arguments.now or datetime.now()
    places = []
    for element in found.get("elements", []):
        tags = element.get("tags", {})
        point = element if "lat" in element else element.get("center", {})
        if "lat" not in point:
            continue
        hours = tags.get("opening_hours")
        state = is_open(hours, now)
        if arguments.open and state is False:
            continue
        places.append({
            "name": tags.get("name") or tags.get("brand") or "(no name)",
            "distance_m": round(distance(lat, lon, point["lat"], point["lon"])),
            "open": state,
            "opening_hours": hours,
            "cuisine": tags.get("cuisine"),
            "address": address(tags) or None,
            "phone": tags.get("phone") or tags.get("contact:phone"),
            "website": tags.get("website") or tags.get("contact:website"),
            "lat": point["lat"],
            "lon": point["lon"],
            "link": f"https://www.openstreetmap.org/{element['type']}/{element['id']}",
        })
    places.sort(key=lambda place: (arguments.open and place["open"] is None, place["distance_m"]))
    places = places[: arguments.limit]
    if arguments.json:
        print(json.dumps({"location": name, "lat": lat, "lon": lon, "radius": arguments.radius, "places": places}, indent=2, ensure_ascii=False))
        return
    print(f"Near {name}, within {arguments.radius} m:")
    if not places:
        print("nothing found")
    for place in places:
        state = {True: "open", False: "closed", None: "hours unknown"}[place["open"]]
        details = [f"{place['distance_m']} m", place["cuisine"], state, place["opening_hours"], place["address"], place["phone"]]
        print(f"- {place['name']}: " + "; ".join(filter(None, details)))
        print(f"  {place['link']}" + (f"  {place['website']}" if place["website"] else ""))


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
