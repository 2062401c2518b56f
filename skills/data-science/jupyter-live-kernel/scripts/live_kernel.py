#!/usr/bin/env python3
"""Runs a Jupyter kernel and sends cells to it.

`serve` starts a kernel and stays in the foreground; `run`, `vars`, `interrupt` and `stop` talk to it through its connection file.
Needs the packages jupyter_client and ipykernel, except for --help.
"""
import argparse
import base64
import re
import signal
import sys
import time
from pathlib import Path
from queue import Empty

DEFAULT_KERNEL = ".hermes/kernel.json"
MOST_CHARS = 20_000
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
LIST_VARIABLES = """
def _hermes_variables():
    import types
    skip = {'In', 'Out', 'exit', 'quit', 'open', 'get_ipython'}
    for name, value in sorted(get_ipython().user_ns.items()):
        if name.startswith('_') or name in skip or isinstance(value, types.ModuleType):
            continue
        size = getattr(value, 'shape', None)
        if size is None and hasattr(value, '__len__'):
            size = len(value)
        print(f"{name:<24} {type(value).__name__:<20} {'' if size is None else size}")
_hermes_variables()
del _hermes_variables
"""


def fail(text):
    sys.exit(f"live_kernel: {text}")


def load(name):
    try:
        import jupyter_client
    except ImportError:
        fail(f"{sys.executable} has no jupyter_client; install it: {sys.executable} -m pip install jupyter_client ipykernel")
    return getattr(jupyter_client, name)


def serve(path):
    manager_type = load("KernelManager")
    if path.exists():
        fail(f"{path} exists: a kernel runs already (`stop` ends it), or one was killed (delete the file)")
    path.parent.mkdir(parents=True, exist_ok=True)
    manager = manager_type(kernel_name="python3", connection_file=str(path.resolve()), ip="127.0.0.1")
    try:
        manager.start_kernel(cwd=str(Path.cwd()))
    except Exception as error:
        fail(f"the kernel did not start: {error}; is ipykernel installed in {sys.executable}?")
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
    except RuntimeError as error:
        manager.shutdown_kernel(now=True)
        path.unlink(missing_ok=True)
        fail(f"the kernel did not answer: {error}")
    client.stop_channels()
    print(f"ready: {path}", flush=True)
    ended = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.append(True))
    while not ended and manager.is_alive():
        time.sleep(0.5)
    if manager.is_alive():
        manager.shutdown_kernel(now=False)
    path.unlink(missing_ok=True)
    print("ended", flush=True)


def connect(path):
    if not path.exists():
        fail(f"{path} does not exist; start a kernel with `serve` in the background")
    client = load("BlockingKernelClient")(connection_file=str(path))
    client.load_connection_file()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=10)
    except RuntimeError:
        client.stop_channels()
        fail(f"the kernel of {path} does not answer: it is busy (`interrupt`) or dead (delete the file and start again)")
    return client


def show(text):
    text = ANSI.sub("", text)
    if len(text) > MOST_CHARS:
        text = text[: MOST_CHARS // 2] + f"\n… {len(text) - MOST_CHARS} characters left out …\n" + text[-MOST_CHARS // 2:]
    print(text, end="" if text.endswith("\n") else "\n", flush=True)


def save_figure(data, figures):
    for kind, suffix in (("image/png", "png"), ("image/jpeg", "jpg"), ("image/svg+xml", "svg")):
        if kind not in data:
            continue
        figures.mkdir(parents=True, exist_ok=True)
        number = 1 + len(list(figures.glob("figure-*")))
        path = (figures / f"figure-{number:03}.{suffix}").resolve()
        raw = data[kind].encode() if suffix == "svg" else base64.decodebytes(data[kind].encode())
        path.write_bytes(raw)
        show(f"[figure: {path}]")
        return True
    return False


def run(client, code, timeout, figures):
    """Runs one cell and prints its output. Returns whether it succeeded."""
    request = client.execute(code, allow_stdin=False)
    ends = time.monotonic() + timeout
    succeeded = True
    while True:
        try:
            message = client.get_iopub_msg(timeout=max(0.1, min(1.0, ends - time.monotonic())))
        except Empty:
            if time.monotonic() > ends:
                fail(f"no end after {timeout} s; the cell keeps running (`interrupt` stops it)")
            continue
        if message["parent_header"].get("msg_id") != request:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "status" and content["execution_state"] == "idle":
            return succeeded
        if kind == "stream":
            show(content["text"])
        elif kind in ("execute_result", "display_data"):
            if not save_figure(content["data"], figures) and "text/plain" in content["data"]:
                show(content["data"]["text/plain"])
        elif kind == "error":
            succeeded = False
            show("\n".join(content["traceback"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", type=Path, default=Path(DEFAULT_KERNEL), help="connection file (default: %(default)s)")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("serve", help="start a kernel and stay in the foreground until it ends")
    runner = commands.add_parser("run", help="run a cell")
    runner.add_argument("file", nargs="?", help="file with the code; - or nothing is standard input")
    runner.add_argument("-c", "--code", help="the code itself")
    runner.add_argument("--timeout", type=float, default=120, help="seconds to wait for the end (default: %(default)s)")
    runner.add_argument("--figures", type=Path, default=Path(".hermes/figures"), help="folder for pictures (default: %(default)s)")
    runner.add_argument("--log", type=Path, help="append the cell to this file if it succeeds")
    commands.add_parser("vars", help="list variables with type and size")
    commands.add_parser("interrupt", help="interrupt the running cell")
    commands.add_parser("stop", help="end the kernel")
    arguments = parser.parse_args()

    if arguments.command == "serve":
        serve(arguments.kernel)
        return
    if arguments.command == "interrupt":
        if not arguments.kernel.exists():
            fail(f"{arguments.kernel} does not exist")
        client = load("BlockingKernelClient")(connection_file=str(arguments.kernel))
        client.load_connection_file()
        client.start_channels(shell=False, iopub=False, stdin=False, hb=False, control=True)
        client.control_channel.send(client.session.msg("interrupt_request", {}))
        time.sleep(0.5)
        client.stop_channels()
        print("interrupt sent")
        return
    code = LIST_VARIABLES if arguments.command == "vars" else None
    if arguments.command == "run":
        if arguments.code is not None:
            code = arguments.code
        elif arguments.file and arguments.file != "-":
            try:
                code = Path(arguments.file).read_text(encoding="utf-8")
            except OSError as error:
                fail(f"cannot read {arguments.file}: {error.strerror}")
        else:
            code = sys.stdin.read()
    client = connect(arguments.kernel)
    if arguments.command == "stop":
        client.shutdown()
        client.stop_channels()
        for _ in range(40):
            if not arguments.kernel.exists():
                break
            time.sleep(0.25)
        print("stopped" if not arguments.kernel.exists() else "shutdown was sent; the server has not ended yet")
        return
    timeout = arguments.timeout if arguments.command == "run" else 30
    figures = arguments.figures if arguments.command == "run" else Path(".")
    succeeded = run(client, code, timeout, figures)
    client.stop_channels()
    if succeeded and arguments.command == "run" and arguments.log:
        with arguments.log.open("a", encoding="utf-8") as log:
            log.write(f"# %%\n{code.strip()}\n\n")
    sys.exit(0 if succeeded else 1)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
