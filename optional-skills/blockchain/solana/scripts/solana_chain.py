#!/usr/bin/env python3
"""Reads the Solana chain over JSON-RPC: balances, tokens, transactions, stake, network state. Sends nothing."""
import argparse
import json
import re
import sys
import urllib.error
import urllib.request
from datetime import datetime, timezone
from decimal import Decimal

DEFAULT_RPC = "https://api.mainnet-beta.solana.com"
PRICES = "https://coins.llama.fi"  # DefiLlama, no key
LAMPORTS = Decimal(10) ** 9
WRAPPED_SOL = "So11111111111111111111111111111111111111112"
MINTS = {
    "SOL": WRAPPED_SOL,
    "USDC": "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
    "USDT": "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB",
    "JUP": "JUPyiwrYJFskUPiHa7hkeR8VUtAeFoSYbKedZNsDvCN",
    "BONK": "DezXAZ8z7PnrnRJjz3wXBoRgixCa6xjnB7YaB1pPB263",
    "JitoSOL": "J1toso1uCk3RLmjorhTtrVwY9HJ7X8V9yYac6Y7kGCPn",
    "mSOL": "mSoLzYCxHdYgdzU16g5QSh3i5K3z3KZK7ytfqcJm7So",
}
NAMES = {mint: symbol for symbol, mint in MINTS.items()}
TOKEN_PROGRAMS = ("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
STAKE_PROGRAM = "Stake11111111111111111111111111111111111111"
BASE58 = re.compile(r"[1-9A-HJ-NP-Za-km-z]+")


def fail(text):
    sys.exit(f"solana: {text}")


def fetch(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "hermes-solana-skill/1.0"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers), timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        hint = "; the public node limits requests: wait, or use another --rpc" if error.code in (403, 429) else ""
        fail(f"HTTP {error.code} from {url.split('?')[0]}{hint}")
    except (urllib.error.URLError, TimeoutError) as error:
        fail(f"{url.split('?')[0]}: {getattr(error, 'reason', error)}")
    except ValueError:
        fail(f"{url.split('?')[0]}: the answer is not JSON")


class Chain:
    def __init__(self, rpc, prices):
        self.rpc = rpc
        self.prices = prices

    def call(self, method, *params):
        answer = fetch(self.rpc, {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)})
        if answer.get("error"):
            fail(f"{method}: {answer['error'].get('message', answer['error'])}")
        return answer.get("result")

    def prices_of(self, mints):
        """Returns dollars by mint."""
        keys = ",".join(f"solana:{mint}" for mint in mints)
        coins = fetch(f"{self.prices}/prices/current/{keys}").get("coins", {})
        return {key.split(":", 1)[1]: Decimal(str(coin["price"])) for key, coin in coins.items() if coin.get("price") is not None}


def address(text):
    found = MINTS.get(text, text)
    if not BASE58.fullmatch(found) or not 32 <= len(found) <= 44:
        raise argparse.ArgumentTypeError(f"{text} is not a Solana address (32 to 44 base58 characters) or a known symbol")
    return found


def signature(text):
    if not BASE58.fullmatch(text) or not 64 <= len(text) <= 90:
        raise argparse.ArgumentTypeError(f"{text} is not a transaction signature")
    return text


def plain(value):
    return f"{Decimal(value).normalize():f}"


def sol(lamports):
    return plain(Decimal(lamports) / LAMPORTS)


def when(seconds):
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc).isoformat()


def show(arguments, rows, data):
    if arguments.json:
        print(json.dumps(data, indent=2, ensure_ascii=False))
        return
    for row in rows:
        print("  ".join("" if cell is None else str(cell) for cell in row))


def wallet(chain, arguments):
    balance = chain.call("getBalance", arguments.address)["value"]
    held = {WRAPPED_SOL: Decimal(balance) / LAMPORTS}
    names = {WRAPPED_SOL: "SOL"}
    wrapped = Decimal(0)
    for program in TOKEN_PROGRAMS:
        accounts = chain.call("getTokenAccountsByOwner", arguments.address, {"programId": program}, {"encoding": "jsonParsed"})["value"]
        for account in accounts:
            info = account["account"]["data"]["parsed"]["info"]
            amount = Decimal(info["tokenAmount"]["uiAmountString"])
            if not amount:
                continue
            if info["mint"] == WRAPPED_SOL:
                wrapped += amount
                continue
            held[info["mint"]] = held.get(info["mint"], Decimal(0)) + amount
    prices = {} if arguments.no_prices else chain.prices_of(list(held)[:60])
    rows, data, total = [], [], Decimal(0)
    for mint, amount in held.items():
        value = amount * prices[mint] if mint in prices else None
        total += value or 0
        symbol = names.get(mint) or NAMES.get(mint) or "?"
        data.append({"symbol": symbol, "mint": mint, "amount": plain(amount), "usd": None if value is None else f"{value:.2f}"})
    data.sort(key=lambda entry: -Decimal(entry["usd"] or 0))
    for entry in data[: arguments.limit]:
        rows.append((entry["symbol"], entry["amount"], "" if entry["usd"] is None else f"${entry['usd']}", entry["mint"]))
    if len(data) > arguments.limit:
        rows.append((f"… {len(data) - arguments.limit} more; --limit shows them",))
    if wrapped:
        rows.append(("wrapped SOL, not counted above", plain(wrapped)))
    if prices:
        rows.append(("total", f"${total:.2f}", "(of the rows with a price)"))
    show(arguments, rows, {"held": data, "wrapped SOL": plain(wrapped)})


def tx(chain, arguments):
    found = chain.call("getTransaction", arguments.signature, {"encoding": "jsonParsed", "maxSupportedTransactionVersion": 0})
    if not found:
        fail("no such transaction; the node may not keep old ones")
    meta, message = found["meta"], found["transaction"]["message"]
    keys = [key["pubkey"] if isinstance(key, dict) else key for key in message["accountKeys"]]
    data = {
        "state": "failed" if meta.get("err") else "succeeded",
        "error": json.dumps(meta["err"]) if meta.get("err") else None,
        "time": when(found.get("blockTime")),
        "slot": found.get("slot"),
        "fee SOL": sol(meta["fee"]),
        "signer": keys[0],
    }
    changes = []
    for key, before, after in zip(keys, meta["preBalances"], meta["postBalances"]):
        if before != after:
            changes.append({"account": key, "token": "SOL", "change": sol(after - before)})
    tokens = {}
    for sign, side in ((-1, "preTokenBalances"), (1, "postTokenBalances")):
        for entry in meta.get(side) or []:
            place = (entry.get("owner") or keys[entry["accountIndex"]], entry["mint"])
            tokens[place] = tokens.get(place, Decimal(0)) + sign * Decimal(entry["uiTokenAmount"]["uiAmountString"])
    for (owner, mint), change in tokens.items():
        if change:
            changes.append({"account": owner, "token": NAMES.get(mint, mint), "change": plain(change)})
    programs = [entry.get("program") or entry.get("programId") for entry in message["instructions"]]
    data["programs"] = ", ".join(dict.fromkeys(programs))
    rows = [row for row in data.items() if row[1] is not None] + [(f"{entry['change']} {entry['token']}", entry["account"]) for entry in changes]
    show(arguments, rows, {**data, "changes": changes})


def activity(chain, arguments):
    found = chain.call("getSignaturesForAddress", arguments.address, {"limit": arguments.limit})
    data = [{"time": when(entry.get("blockTime")), "failed": bool(entry.get("err")), "signature": entry["signature"], "memo": entry.get("memo")} for entry in found]
    show(arguments, [(entry["time"], "failed" if entry["failed"] else "ok", entry["signature"], entry["memo"]) for entry in data], data)


def token(chain, arguments):
    supply = chain.call("getTokenSupply", arguments.mint)["value"]
    account = chain.call("getAccountInfo", arguments.mint, {"encoding": "jsonParsed"})["value"] or {}
    parsed = account.get("data", {})
    info = parsed.get("parsed", {}).get("info", {}) if isinstance(parsed, dict) else {}
    prices = {} if arguments.no_prices else chain.prices_of([arguments.mint])
    data = {
        "symbol": NAMES.get(arguments.mint),
        "supply": plain(supply["uiAmountString"]),
        "decimals": supply["decimals"],
        "mint authority": info.get("mintAuthority") or "none: no more can be made",
        "freeze authority": info.get("freezeAuthority") or "none: nobody can freeze accounts",
        "program": account.get("owner"),
        "usd": f"{prices[arguments.mint]:f}" if arguments.mint in prices else None,
    }
    if arguments.holders:
        largest = chain.call("getTokenLargestAccounts", arguments.mint)["value"][: arguments.holders]
        total = Decimal(supply["uiAmountString"]) or Decimal(1)
        data["largest accounts"] = [{"account": entry["address"], "amount": plain(entry["uiAmountString"]), "share": f"{Decimal(entry['uiAmountString']) / total:.2%}"} for entry in largest]
    rows = [row for row in data.items() if row[1] is not None and row[0] != "largest accounts"]
    rows += [(entry["share"], entry["amount"], entry["account"]) for entry in data.get("largest accounts", [])]
    show(arguments, rows, data)


def stake(chain, arguments):
    found = []
    # The withdraw authority is 44 bytes into a stake account.
    filters = [{"memcmp": {"offset": 44, "bytes": arguments.address}}]
    for entry in chain.call("getProgramAccounts", STAKE_PROGRAM, {"encoding": "jsonParsed", "filters": filters}):
        info = entry["account"]["data"]["parsed"]["info"]
        delegation = (info.get("stake") or {}).get("delegation") or {}
        found.append({"account": entry["pubkey"], "SOL": sol(entry["account"]["lamports"]), "validator": delegation.get("voter"), "deactivates in epoch": None if delegation.get("deactivationEpoch") in (None, "18446744073709551615") else delegation["deactivationEpoch"]})
    rows = [(entry["SOL"], "SOL", entry["account"], "at", entry["validator"], "ends" if entry["deactivates in epoch"] else "") for entry in found] or [("no stake accounts",)]
    show(arguments, rows, found)


def status(chain, arguments):
    epoch = chain.call("getEpochInfo")
    samples = chain.call("getRecentPerformanceSamples", 5)
    done = sum(sample["numTransactions"] for sample in samples)
    seconds = sum(sample["samplePeriodSecs"] for sample in samples) or 1
    data = {
        "slot": epoch["absoluteSlot"],
        "epoch": f"{epoch['epoch']} ({epoch['slotIndex'] * 100 // epoch['slotsInEpoch']} % done)",
        "transactions per second, votes included": round(done / seconds),
        "version of the node": chain.call("getVersion").get("solana-core"),
    }
    show(arguments, data.items(), data)


def price(chain, arguments):
    mints = [address(entry) for entry in arguments.token]
    found = chain.prices_of(mints)
    data = {given: f"{found[mint]:f}" if mint in found else None for given, mint in zip(arguments.token, mints)}
    show(arguments, [(key, "no price" if value is None else f"${value}") for key, value in data.items()], data)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rpc", default=DEFAULT_RPC, help="JSON-RPC address (default: %(default)s)")
    parser.add_argument("--prices", default=PRICES, help="address of the price service (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print data")
    parser.add_argument("--no-prices", action="store_true", help="ask no price service")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("wallet", help="SOL and tokens of an address")
    one.add_argument("address", type=address)
    one.add_argument("--limit", type=int, default=25, help="rows (default: %(default)s)")
    one.set_defaults(run=wallet)
    one = commands.add_parser("tx", help="a transaction: state, fee, changes of balances")
    one.add_argument("signature", type=signature)
    one.set_defaults(run=tx)
    one = commands.add_parser("activity", help="the newest transactions of an address")
    one.add_argument("address", type=address)
    one.add_argument("--limit", type=int, default=10, help="rows (default: %(default)s)")
    one.set_defaults(run=activity)
    one = commands.add_parser("token", help="supply, authorities and price of a mint")
    one.add_argument("mint", type=address)
    one.add_argument("--holders", type=int, default=0, help="largest accounts to show, up to 20")
    one.set_defaults(run=token)
    one = commands.add_parser("stake", help="stake accounts that an address can withdraw from")
    one.add_argument("address", type=address)
    one.set_defaults(run=stake)
    commands.add_parser("status", help="slot, epoch, load").set_defaults(run=status)
    one = commands.add_parser("price", help="dollar prices of symbols or mints")
    one.add_argument("token", nargs="+")
    one.set_defaults(run=price)
    arguments = parser.parse_args()
    try:
        arguments.run(Chain(arguments.rpc, arguments.prices), arguments)
    except argparse.ArgumentTypeError as error:
        fail(str(error))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        fail(f"unexpected answer of the service: {error!r}")


if __name__ == "__main__":
    main()
