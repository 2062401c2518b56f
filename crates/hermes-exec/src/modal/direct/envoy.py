"""Speaks with Modal for Hermes.

A request is a line of JSON with an `id`, an `act` and what that needs; the answers to it carry its `id`: any number of `out`
and `err`, which are pieces of output in base64, and one `done` or `failed`. Nothing else is ever written to the standard
output. When the input ends, whatever was made here is terminated.
"""

import asyncio
import base64
import inspect
import json
import os
import sys
import threading

PIECE = 128 * 1024
TERMINATE_LIMIT = 15
# What is left to do after the input has ended may take this long, whatever hangs.
LAST_LIMIT = 20
# The package installs itself into an image with that image's pip, which some images lack.
REPAIR_PIP = "RUN python3 -m pip --version >/dev/null 2>&1 || python3 -m ensurepip --upgrade --default-pip || true"

# What the package prints must not get between our lines.
channel = os.dup(1)
nowhere = os.open(os.devnull, os.O_RDWR)
os.dup2(nowhere, 1)
os.dup2(nowhere, 2)
saying = threading.Lock()


def say(answer):
    line = (json.dumps(answer) + "\n").encode()
    with saying:
        try:
            while line:
                line = line[os.write(channel, line) :]
        except OSError:
            pass  # Nobody listens any more; the input ends at the same time.


def words(error):
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    for name in ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"):
        value = os.environ.get(name)
        if value:
            text = text.replace(value, f"[{name}]")
    return text[:2000]


try:
    import modal
    import modal.exception

    # A folder of that name would be imported just as well.
    modal.App, modal.Image, modal.Sandbox
except Exception as error:
    say({"missing": words(error)})
    sys.exit(1)

# An id that cannot be used: it is not there any more, it never was one, or it belongs to somebody else.
UNUSABLE = tuple(
    getattr(modal.exception, name)
    for name in ("NotFoundError", "InvalidError", "PermissionDeniedError")
    if hasattr(modal.exception, name)
)

# Something else is in the way; the id may well be good.
CONFLICT = getattr(modal.exception, "ConflictError", ())

sandboxes = {}
running = {}
# Nobody else holds these until they are done.
leaving = set()


class TooSlow(Exception):
    pass


async def within(limit, work):
    try:
        return await asyncio.wait_for(work, limit)
    except asyncio.TimeoutError:
        raise TooSlow(f"no answer within {limit} s") from None


def image_of(request):
    return modal.Image.from_registry(request["image"], setup_dockerfile_commands=[REPAIR_PIP])


def resources(request):
    chosen = {"timeout": request["life"]}
    if request["cpu"] > 0:
        chosen["cpu"] = float(request["cpu"])
    if request["memory"] > 0:
        chosen["memory"] = request["memory"]
    # Not every release takes it.
    if request["disk"] > 0 and "ephemeral_disk" in inspect.signature(modal.Sandbox.create).parameters:
        chosen["ephemeral_disk"] = request["disk"]
    return chosen


async def make(request):
    app = await modal.App.lookup.aio(request["app"], create_if_missing=True)
    options = resources(request)
    snapshot, unusable = request["snapshot"], None
    if snapshot:
        try:
            # Some releases ask Modal already here, and block meanwhile.
            image = await asyncio.get_running_loop().run_in_executor(None, modal.Image.from_id, snapshot)
            return await modal.Sandbox.create.aio("sleep", "infinity", app=app, image=image, **options), None
        except UNUSABLE as error:
            if isinstance(error, CONFLICT):
                raise
            unusable = words(error)
    image = image_of(request)
    return await modal.Sandbox.create.aio("sleep", "infinity", app=app, image=image, **options), unusable


def terminate_unwanted(making):
    """One that was made after nobody wanted it any more."""
    if not making.cancelled() and making.exception() is None:
        task = asyncio.ensure_future(terminate_quietly(making.result()[0]))
        leaving.add(task)
        task.add_done_callback(leaving.discard)


async def create(request, _):
    making = asyncio.ensure_future(make(request))
    try:
        sandbox, unusable = await within(request["limit"], asyncio.shield(making))
    except (TooSlow, asyncio.CancelledError):
        making.add_done_callback(terminate_unwanted)
        raise
    sandboxes[sandbox.object_id] = sandbox
    return {"sandbox": sandbox.object_id, "unusable": unusable}


async def attach(request):
    """The sandbox it is about, which an envoy before this one may have made."""
    name = request["sandbox"]
    if name not in sandboxes:
        sandboxes[name] = await modal.Sandbox.from_id.aio(name)
    return sandboxes[name]


async def feed(stdin, data):
    for start in range(0, len(data), PIECE):
        stdin.write(data[start : start + PIECE])
        await stdin.drain.aio()
    stdin.write_eof()
    await stdin.drain.aio()


async def forward(stream, say_piece):
    async for data in stream:
        for start in range(0, len(data), PIECE):
            say_piece(data[start : start + PIECE])


async def execute(request, state):
    def piece(kind):
        return lambda data: say({"id": request["id"], kind: base64.b64encode(data).decode()})

    sandbox = await attach(request)
    process = await sandbox.exec.aio(*request["words"], text=False)
    # Until its script arrives the shell does nothing.
    state["begun"] = True
    feeding = asyncio.ensure_future(feed(process.stdin, base64.b64decode(request["input"])))
    try:
        await asyncio.gather(forward(process.stdout, piece("out")), forward(process.stderr, piece("err")))
        return {"code": await process.wait.aio()}
    finally:
        # A command need not read its input to the end.
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)


async def poll(request, _):
    try:
        sandbox = await attach(request)
        return {"alive": await within(request["limit"], sandbox.poll.aio()) is None}
    except UNUSABLE:
        return {"alive": False}


async def snapshot(request, _):
    sandbox = await attach(request)
    image = await within(request["limit"], sandbox.snapshot_filesystem.aio())
    return {"image": image.object_id}


async def terminate(request, _):
    try:
        sandbox = await attach(request)
        await within(request["limit"], sandbox.terminate.aio())
    except UNUSABLE:
        pass  # It is gone already.
    sandboxes.pop(request["sandbox"], None)
    return {}


async def terminate_quietly(sandbox):
    try:
        await within(TERMINATE_LIMIT, sandbox.terminate.aio())
    except Exception:
        pass


ACTS = {"create": create, "execute": execute, "poll": poll, "snapshot": snapshot, "terminate": terminate}


async def answer(request):
    state = {"begun": False}
    try:
        say({"id": request["id"], "done": await ACTS[request["act"]](request, state)})
    except Exception as error:
        say({"id": request["id"], "failed": {"why": words(error), "begun": state["begun"]}})
    finally:
        running.pop(request["id"], None)


async def serve():
    requests = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def listen():
        for line in sys.stdin.buffer:
            loop.call_soon_threadsafe(requests.put_nowait, line)
        end = threading.Timer(LAST_LIMIT, os._exit, [1])
        end.daemon = True
        end.start()
        loop.call_soon_threadsafe(requests.put_nowait, None)

    threading.Thread(target=listen, daemon=True).start()
    say({"ready": getattr(modal, "__version__", "")})
    while True:
        line = await requests.get()
        if line is None:
            break
        request = json.loads(line)
        if request["act"] == "stop":
            if request["of"] in running:
                running[request["of"]].cancel()
        else:
            running[request["id"]] = asyncio.ensure_future(answer(request))
    # A creation that is cancelled terminates what comes of it.
    for task in list(running.values()):
        task.cancel()
    await asyncio.gather(*list(running.values()), return_exceptions=True)
    await asyncio.gather(*map(terminate_quietly, list(sandboxes.values())))
    while True:
        unwanted = asyncio.all_tasks() - {asyncio.current_task()}
        if not unwanted:
            break
        await asyncio.wait(unwanted)


asyncio.run(serve())
os._exit(0)
