#!/usr/bin/env python3
"""Reads the Base chain (or another EVM chain) over JSON-RPC: balances, tokens, transactions, contracts, gas. Sends nothing."""
import argparse
import json
import re
import sys
import urllib.error
import urllib.request
from datetime import datetime, timezone
from decimal import Decimal, getcontext

getcontext().prec = 60

DEFAULT_RPC = "https://mainnet.base.org"
PRICES = "https://coins.llama.fi"  # DefiLlama, no key
# Contracts on Base (chain id 8453).
TOKENS = {
    "USDC": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
    "USDbC": "0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA",
    "DAI": "0x50c5725949A6F0c72E6C4a641F24049A917DB0Cb",
    "WETH": "0x4200000000000000000000000000000000000006",
    "cbETH": "0x2Ae3F1Ec7F1F5012CFEab0185bfc7aa3cf0DEc22",
    "cbBTC": "0xcbB7C0000aB88B473b1f5aFd9ef808440eed33Bf",
    "AERO": "0x940181a94A35A4569E4529A3CDfB74e38FD98631",
}
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
HASH = re.compile(r"0x[0-9a-fA-F]{64}")
PROXY_SLOT = "0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc"


def fail(text):
    sys.exit(f"base: {text}")


def fetch(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "hermes-base-skill/1.0"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers), timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        hint = "; too many requests, wait or use another --rpc" if error.code == 429 else ""
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

    def read(self, contract, data):
        """Calls a function of a contract; returns b"" where the contract has no such function."""
        answer = fetch(self.rpc, {"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [{"to": contract, "data": data}, "latest"]})
        return bytes.fromhex((answer.get("result") or "0x")[2:])

    def token(self, contract):
        """Returns symbol, name and decimals of an ERC-20 contract."""
        decimals = self.read(contract, "0x313ce567")
        if len(decimals) < 32:
            fail(f"{contract} does not answer like an ERC-20 token")
        return text_of(self.read(contract, "0x95d89b41")), text_of(self.read(contract, "0x06fdde03")), int.from_bytes(decimals[:32], "big")

    def balance_of(self, contract, owner):
        data = self.read(contract, "0x70a08231" + owner[2:].lower().rjust(64, "0"))
        return int.from_bytes(data[:32], "big")


def text_of(data):
    """Returns an ABI string; old tokens answer with 32 bytes of text."""
    try:
        if len(data) >= 64:
            start = int.from_bytes(data[:32], "big")
            length = int.from_bytes(data[start : start + 32], "big")
            raw = data[start + 32 : start + 32 + length]
        else:
            raw = data.rstrip(b"\0")
        return "".join(c for c in raw.decode("utf-8", "replace") if c.isprintable())[:64]
    except (OverflowError, ValueError):
        return ""


def units(value, decimals):
    number = (Decimal(value) / (Decimal(10) ** min(decimals, 77))).normalize()
    return f"{number:f}"


def address(text):
    found = TOKENS.get(text, text)
    if not ADDRESS.fullmatch(found):
        raise argparse.ArgumentTypeError(f"{text} is not an address (0x and 40 hexadecimal digits) or a known symbol")
    return found


def transaction(text):
    if not HASH.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text} is not a transaction hash (0x and 64 hexadecimal digits)")
    return text


def prices_of(chain, contracts):
    """Returns dollars by lowercase contract; `eth` is the coin itself."""
    keys = {("coingecko:ethereum" if entry == "eth" else f"base:{entry}"): entry for entry in contracts}
    coins = fetch(f"{chain.prices}/prices/current/{','.join(keys)}").get("coins", {})
    lower = {key.lower(): value for key, value in coins.items()}
    return {entry.lower(): Decimal(str(lower[key.lower()]["price"])) for key, entry in keys.items() if key.lower() in lower}


def number(text):
    return int(text, 16) if text else 0


def show(arguments, rows, data):
    if arguments.json:
        print(json.dumps(data, indent=2, ensure_ascii=False))
        return
    for row in rows:
        print("  ".join(str(cell) for cell in row))


def wallet(chain, arguments):
    owner = arguments.address
    held = [("ETH", "eth", number(chain.call("eth_getBalance", owner, "latest")), 18)]
    tokens = list(TOKENS.values()) if not arguments.token else arguments.token
    for contract in tokens:
        raw = chain.balance_of(contract, owner)
        if raw or arguments.token:
            symbol, _, decimals = chain.token(contract)
            held.append((symbol, contract, raw, decimals))
    prices = {} if arguments.no_prices else prices_of(chain, [entry[1] for entry in held])
    rows, data, total = [], [], Decimal(0)
    for symbol, contract, raw, decimals in held:
        amount = units(raw, decimals)
        price = prices.get(contract.lower())
        value = None if price is None else Decimal(amount) * price
        total += value or 0
        rows.append((symbol, amount, "" if value is None else f"${value:.2f}", "" if contract == "eth" else contract))
        data.append({"symbol": symbol, "contract": contract, "amount": amount, "usd": None if value is None else f"{value:.2f}"})
    if prices:
        rows.append(("total", f"${total:.2f}", "(of the rows with a price)"))
    show(arguments, rows, data)


def token(chain, arguments):
    symbol, name, decimals = chain.token(arguments.address)
    supply = int.from_bytes(chain.read(arguments.address, "0x18160ddd")[:32], "big")
    price = {} if arguments.no_prices else prices_of(chain, [arguments.address])
    usd = price.get(arguments.address.lower())
    data = {"symbol": symbol, "name": name, "decimals": decimals, "supply": units(supply, decimals), "usd": None if usd is None else f"{usd:f}", "contract": arguments.address}
    show(arguments, data.items(), data)


def tx(chain, arguments):
    found = chain.call("eth_getTransactionByHash", arguments.hash)
    if not found:
        fail("no such transaction on this chain")
    receipt = chain.call("eth_getTransactionReceipt", arguments.hash)
    fee = number(receipt.get("gasUsed")) * number(receipt.get("effectiveGasPrice")) + number(receipt.get("l1Fee")) if receipt else None
    state = "pending" if not receipt else "succeeded" if number(receipt.get("status")) else "failed"
    data = {
        "state": state,
        "from": found["from"],
        "to": found.get("to") or f"new contract {receipt.get('contractAddress') if receipt else ''}",
        "value ETH": units(number(found.get("value")), 18),
        "fee ETH": None if fee is None else units(fee, 18),
        "nonce": number(found.get("nonce")),
        "selector": (found.get("input") or "0x")[:10],
        "block": number(found.get("blockNumber")) if found.get("blockNumber") else None,
    }
    if receipt:
        block = chain.call("eth_getBlockByNumber", receipt["blockNumber"], False)
        data["time"] = datetime.fromtimestamp(number(block["timestamp"]), timezone.utc).isoformat()
    transfers = []
    for log in (receipt or {}).get("logs", [])[: arguments.limit]:
        if log["topics"][:1] != [TRANSFER] or len(log["topics"]) != 3:
            continue
        symbol, _, decimals = chain.token(log["address"])
        sides = ["0x" + topic[-40:] for topic in log["topics"][1:]]
        transfers.append({"token": symbol, "contract": log["address"], "amount": units(number(log["data"]), decimals), "from": sides[0], "to": sides[1]})
    rows = list(data.items()) + [(f"transfer {entry['amount']} {entry['token']}", entry["from"], "->", entry["to"], entry["contract"]) for entry in transfers]
    show(arguments, rows, {**data, "transfers": transfers})


def contract(chain, arguments):
    code = chain.call("eth_getCode", arguments.address, "latest")
    if code in (None, "0x"):
        show(arguments, [("account without code (a wallet, or nothing yet)",)], {"contract": False})
        return
    slot = chain.call("eth_getStorageAt", arguments.address, PROXY_SLOT, "latest") or "0x"
    target = "0x" + slot[-40:] if number(slot if slot != "0x" else "0x0") else None
    data = {"contract": True, "bytes": (len(code) - 2) // 2, "implementation (ERC-1967 proxy)": target}
    for name, selector in (("owner", "0x8da5cb5b"), ("paused", "0x5c975abb")):
        answer = chain.read(arguments.address, selector)
        if len(answer) == 32:
            data[name] = "0x" + answer[-20:].hex() if name == "owner" else bool(int.from_bytes(answer, "big"))
    show(arguments, data.items(), data)


def status(chain, arguments):
    block = chain.call("eth_getBlockByNumber", "latest", False)
    when = datetime.fromtimestamp(number(block["timestamp"]), timezone.utc)
    gas = number(chain.call("eth_gasPrice"))
    data = {
        "chain id": number(chain.call("eth_chainId")),
        "block": number(block["number"]),
        "time": when.isoformat(),
        "age s": int((datetime.now(timezone.utc) - when).total_seconds()),
        "base fee gwei": units(number(block.get("baseFeePerGas")), 9),
        "gas price gwei": units(gas, 9),
        "transfer of ETH costs about ETH": units(gas * 21000, 18),
    }
    show(arguments, data.items(), data)


def price(chain, arguments):
    wanted = ["eth" if entry.lower() == "eth" else address(entry) for entry in arguments.token]
    found = prices_of(chain, wanted)
    data = {entry: f"{found[entry.lower()]:f}" if entry.lower() in found else None for entry in wanted}
    show(arguments, [(key, "no price" if value is None else f"${value}") for key, value in data.items()], data)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rpc", default=DEFAULT_RPC, help="JSON-RPC address (default: %(default)s)")
    parser.add_argument("--prices", default=PRICES, help="address of the price service (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print data")
    parser.add_argument("--no-prices", action="store_true", help="ask no price service")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("wallet", help="balances of an address: ETH and known or given tokens")
    one.add_argument("address", type=address)
    one.add_argument("--token", action="append", type=address, help="contract or symbol; may be repeated")
    one.set_defaults(run=wallet)
    one = commands.add_parser("token", help="symbol, decimals, supply and price of an ERC-20 contract")
    one.add_argument("address", type=address)
    one.set_defaults(run=token)
    one = commands.add_parser("tx", help="a transaction with its fee and token transfers")
    one.add_argument("hash", type=transaction)
    one.add_argument("--limit", type=int, default=50, help="logs to look at (default: %(default)s)")
    one.set_defaults(run=tx)
    one = commands.add_parser("contract", help="whether an address is a contract, proxy, owner")
    one.add_argument("address", type=address)
    one.set_defaults(run=contract)
    commands.add_parser("status", help="chain id, latest block, gas").set_defaults(run=status)
    one = commands.add_parser("price", help="dollar prices; `eth`, symbols or contracts")
    one.add_argument("token", nargs="+")
    one.set_defaults(run=price)
    arguments = parser.parse_args()
    try:
        arguments.run(Chain(arguments.rpc, arguments.prices), arguments)
    except argparse.ArgumentTypeError as error:
        fail(str(error))
    except (KeyError, TypeError, ValueError) as error:
        fail(f"unexpected answer of the service: {error!r}")


if __name__ == "__main__":
    main()
