#!/usr/bin/env python3
"""Looks up public records of domains: registration, DNS, mail settings, certificates, hosting."""
import argparse
import ipaddress
import json
import re
import socket
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime, timezone

PARTS = ["rdap", "dns", "mail", "certificates", "tls", "http", "network"]
SECURITY_HEADERS = ["strict-transport-security", "content-security-policy", "x-content-type-options", "x-frame-options", "referrer-policy"]


class Unavailable(Exception):
    """A source that gave no answer, with the reason."""


def fetch(url, accept="application/json", timeout=30):
    request = urllib.request.Request(url, headers={"User-Agent": "hermes-domain-intel/1.0", "Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.read(20_000_000)
    except urllib.error.HTTPError as error:
        raise Unavailable(f"HTTP {error.code}") from error
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        raise Unavailable(str(getattr(error, "reason", error))) from error


def fetch_json(url, accept="application/json", timeout=30):
    try:
        return json.loads(fetch(url, accept, timeout))
    except ValueError as error:
        raise Unavailable("the answer is not JSON") from error


def card_name(entity):
    for field in (entity.get("vcardArray") or [None, []])[1]:
        if field and field[0] == "fn":
            return field[3]
    return entity.get("handle", "")


def rdap(servers, domain):
    """Asks for the name, then for its parents, until a registry knows it."""
    labels = domain.split(".")
    last = Unavailable("no registry answered")
    for start in range(len(labels) - 1):
        name = ".".join(labels[start:])
        try:
            data = fetch_json(f"{servers['rdap']}/domain/{name}", "application/rdap+json")
        except Unavailable as error:
            last = error
            if "404" in str(error) or "400" in str(error):
                continue
            raise
        events = {event.get("eventAction"): (event.get("eventDate") or "")[:10] for event in data.get("events", [])}
        roles = {role: card_name(entity) for entity in data.get("entities", []) for role in entity.get("roles", [])}
        return {
            "name": (data.get("ldhName") or name).lower(),
            "registrar": roles.get("registrar", ""),
            "registrant": roles.get("registrant", "") or "not public",
            "created": events.get("registration", ""),
            "changed": events.get("last changed", ""),
            "expires": events.get("expiration", ""),
            "status": data.get("status", []),
            "name_servers": sorted((server.get("ldhName") or "").lower() for server in data.get("nameservers", [])),
            "dnssec": bool((data.get("secureDNS") or {}).get("delegationSigned")),
        }
    raise last


def resolve(servers, name, kind):
    data = fetch_json(f"{servers['doh']}?{urllib.parse.urlencode({'name': name, 'type': kind})}", "application/dns-json")
    numbers = {"A": 1, "NS": 2, "SOA": 6, "MX": 15, "TXT": 16, "AAAA": 28, "CAA": 257}
    answers = [entry["data"] for entry in data.get("Answer", []) if entry.get("type") == numbers[kind]]
    if kind == "TXT":
        answers = ["".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)) or text for text in answers]
    return sorted(answers), bool(data.get("AD"))


def dns(servers, domain):
    result = {}
    for kind in ("A", "AAAA", "NS", "MX", "TXT", "CAA", "SOA"):
        result[kind], validated = resolve(servers, domain, kind)
        if kind == "A":
            result["dnssec_validated"] = validated
    return result


def mail(servers, domain):
    spf = [text for text in resolve(servers, domain, "TXT")[0] if text.lower().startswith("v=spf1")]
    dmarc = [text for text in resolve(servers, f"_dmarc.{domain}", "TXT")[0] if text.lower().startswith("v=dmarc1")]
    mx = resolve(servers, domain, "MX")[0]
    sts = [text for text in resolve(servers, f"_mta-sts.{domain}", "TXT")[0] if text.lower().startswith("v=stsv1")]
    policy = re.search(r"\bp=(\w+)", dmarc[0]) if dmarc else None
    notes = []
    if not spf:
        notes.append("no SPF: anybody can send in its name")
    elif len(spf) > 1:
        notes.append("several SPF records: invalid")
    elif "+all" in spf[0]:
        notes.append("SPF allows every sender")
    if not dmarc:
        notes.append("no DMARC")
    elif policy and policy.group(1) == "none":
        notes.append("DMARC only reports (p=none)")
    if not mx:
        notes.append("no MX: receives no mail")
    return {"mx": mx, "spf": spf, "dmarc": dmarc, "mta_sts": bool(sts), "notes": notes}


def certificates(servers, domain):
    data = fetch_json(f"{servers['crt']}/?{urllib.parse.urlencode({'q': '%.' + domain, 'output': 'json', 'exclude': 'expired'})}", timeout=60)
    names, issuers = set(), {}
    for entry in data:
        for name in str(entry.get("name_value", "")).lower().split():
            if name == domain or name.endswith("." + domain):
                names.add(name)
        issuer = re.search(r"O=\"?([^,\"]+)", entry.get("issuer_name", ""))
        if issuer:
            issuers[issuer.group(1)] = issuers.get(issuer.group(1), 0) + 1
    return {"names": sorted(names), "count": len(data), "issuers": issuers}


def public_address(host):
    """Returns a public address of the host; refuses private ones."""
    try:
        found = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unavailable(f"{host} has no address ({error})") from error
    addresses = [entry[4][0] for entry in found]
    if not all(ipaddress.ip_address(address).is_global for address in addresses):
        raise Unavailable(f"{host} has a private address; not queried")
    return addresses[0]


def tls(servers, domain):
    public_address(domain)
    context = ssl.create_default_context()
    problem = ""
    try:
        with socket.create_connection((domain, 443), timeout=15) as raw, context.wrap_socket(raw, server_hostname=domain) as connection:
            certificate = connection.getpeercert()
            version = connection.version()
    except ssl.SSLCertVerificationError as error:
        return {"valid": False, "problem": error.verify_message}
    except OSError as error:
        raise Unavailable(f"no connection to port 443: {error}") from error
    flat = {key: value for part in certificate.get("issuer", ()) for key, value in part}
    ends = datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), timezone.utc)
    return {
        "valid": True, "problem": problem, "version": version, "issuer": flat.get("organizationName", flat.get("commonName", "")),
        "expires": ends.date().isoformat(), "days_left": (ends - datetime.now(timezone.utc)).days,
        "names": sorted(value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"),
    }


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows at most five redirects to public addresses, and remembers them."""

    def __init__(self):
        self.steps = []

    def redirect_request(self, request, file, code, message, headers, new_url):
        self.steps.append(f"{code} {new_url}")
        if len(self.steps) > 5:
            raise Unavailable("too many redirects")
        public_address(urllib.parse.urlsplit(new_url).hostname or "")
        return super().redirect_request(request, file, code, message, headers, new_url)


def http(servers, domain):
    public_address(domain)
    redirects = Redirects()
    opener = urllib.request.build_opener(redirects)
    request = urllib.request.Request(f"https://{domain}/", headers={"User-Agent": "hermes-domain-intel/1.0"})
    try:
        with opener.open(request, timeout=20) as answer:
            status, headers, final = answer.status, answer.headers, answer.geturl()
            title = re.search(rb"<title[^>]*>(.*?)</title>", answer.read(200_000), re.IGNORECASE | re.DOTALL)
    except urllib.error.HTTPError as error:
        status, headers, final, title = error.code, error.headers, error.geturl(), None
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        raise Unavailable(str(getattr(error, "reason", error))) from error
    present = [name for name in SECURITY_HEADERS if headers.get(name)]
    return {
        "status": status, "final": final, "redirects": redirects.steps, "server": headers.get("server", ""),
        "title": " ".join(title.group(1).decode("utf-8", "replace").split())[:120] if title else "",
        "security_headers": present, "missing_headers": [name for name in SECURITY_HEADERS if name not in present],
    }


def network(servers, domain):
    addresses = resolve(servers, domain, "A")[0] or resolve(servers, domain, "AAAA")[0]
    if not addresses:
        raise Unavailable("the name has no address")
    data = fetch_json(f"{servers['rdap']}/ip/{addresses[0]}", "application/rdap+json")
    owners = [card_name(entity) for entity in data.get("entities", []) if "registrant" in entity.get("roles", [])]
    return {"address": addresses[0], "network": data.get("name", ""), "owner": owners[0] if owners else "", "country": data.get("country", ""),
            "range": f"{data.get('startAddress', '')} - {data.get('endAddress', '')}"}


def days_until(day):
    try:
        return (datetime.fromisoformat(day).replace(tzinfo=timezone.utc) - datetime.now(timezone.utc)).days
    except ValueError:
        return None


def normalize(text):
    host = urllib.parse.urlsplit(text if "//" in text else "//" + text).hostname or ""
    try:
        host = host.rstrip(".").encode("idna").decode()
    except UnicodeError:
        host = ""
    if not re.fullmatch(r"([a-z0-9_-]{1,63}\.)+[a-z0-9-]{2,63}", host):
        sys.exit(f"domain_intel: `{text}` is not a domain")
    return host


def show(value, indent="  "):
    for key, entry in value.items():
        if isinstance(entry, dict):
            entry = ", ".join(f"{name}: {number}" for name, number in entry.items())
        if isinstance(entry, list) and len(entry) > 1:
            print(f"{indent}{key}:")
            for line in entry[:60]:
                print(f"{indent}  {line}")
            if len(entry) > 60:
                print(f"{indent}  … {len(entry) - 60} more (--json shows all)")
            continue
        if isinstance(entry, list):
            entry = entry[0] if entry else "-"
        print(f"{indent}{key}: {entry if entry not in ('', None) else '-'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("domains", nargs="+")
    parser.add_argument("--only", default=",".join(PARTS), help=f"comma list of {', '.join(PARTS)}, or expiry")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rdap", default="https://rdap.org", metavar="URL", help="RDAP server (default: %(default)s)")
    parser.add_argument("--doh", default="https://dns.google/resolve", metavar="URL", help="DNS over HTTPS with JSON (default: %(default)s)")
    parser.add_argument("--crt", default="https://crt.sh", metavar="URL", help="certificate logs (default: %(default)s)")
    arguments = parser.parse_args()
    parts = [part.strip() for part in arguments.only.split(",") if part.strip()]
    unknown = set(parts) - set(PARTS) - {"expiry"}
    if unknown:
        parser.error(f"unknown part: {', '.join(sorted(unknown))}")
    servers = {"rdap": arguments.rdap.rstrip("/"), "doh": arguments.doh, "crt": arguments.crt.rstrip("/")}
    functions = {"rdap": rdap, "dns": dns, "mail": mail, "certificates": certificates, "tls": tls, "http": http, "network": network}
    wanted = [part for part in PARTS if part in parts or ("expiry" in parts and part in ("rdap", "tls"))]
    reports, answered = [], False
    for domain in map(normalize, arguments.domains):
        report = {"domain": domain, "queried": datetime.now(timezone.utc).isoformat(timespec="seconds")}
        for part in wanted:
            try:
                report[part] = functions[part](servers, domain)
                answered = True
            except Unavailable as error:
                report[part] = {"unavailable": str(error)}
        if "expiry" in parts:
            report = {"domain": domain, "domain_expires": report["rdap"].get("expires") or report["rdap"].get("unavailable", ""),
                      "domain_days": days_until(report["rdap"].get("expires", "")),
                      "certificate_expires": report["tls"].get("expires") or report["tls"].get("problem") or report["tls"].get("unavailable", ""),
                      "certificate_days": report["tls"].get("days_left")}
        reports.append(report)
    if arguments.json:
        print(json.dumps(reports, indent=2, ensure_ascii=False))
    else:
        for report in reports:
            print(f"== {report['domain']}")
            for key, value in report.items():
                if isinstance(value, dict):
                    print(key)
                    show(value)
                elif key != "domain":
                    print(f"{key}: {value}")
    sys.exit(0 if answered else 1)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
