"""A stand-in for Modal's package: sandboxes are folders of this machine, and what runs in them runs here.

It takes the arguments Modal's package takes and no others, refuses what that refuses, and writes down each call. Its world
is the folder MODAL_STANDIN: `sandboxes/ID` is a sandbox's home, and `alive` beside it says that it runs; `images/ID` is a
snapshot; `calls` is the list of calls. Files there named after a trouble cause it.
"""

import asyncio
import functools
import inspect
import json
import os
import pathlib
import shutil
import signal
import sys
import uuid

from . import exception
from .exception import AuthError, ConflictError, ConnectionError, InvalidError, NotFoundError, RemoteError

__version__ = "stand-in"

_WORLD = pathlib.Path(os.environ["MODAL_STANDIN"])
_LONGEST_ARGUMENTS = 2**16
_BUFFER = 2 * 1024 * 1024

# The package may say something while it is imported.
print("a word on the standard output", flush=True)
print("and one of complaint", file=sys.stderr, flush=True)


def _note(call, **what):
    with open(_WORLD / "calls", "a") as log:
        log.write(json.dumps({"call": call, "pid": os.getpid(), **what}) + "\n")


_note("import", argv=sys.orig_argv[2:], token=os.environ.get("MODAL_TOKEN_ID"), directory=os.getcwd())


def _trouble(name):
    return (_WORLD / name).exists()


def _check(value, kind, name):
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{name} must be {kind}, not {type(value).__name__}")


def _authenticate():
    pair = os.environ.get("MODAL_TOKEN_ID"), os.environ.get("MODAL_TOKEN_SECRET")
    file = pathlib.Path(os.environ.get("MODAL_CONFIG_PATH") or pathlib.Path.home() / ".modal.toml")
    if pair == (None, None) and file.exists():
        return
    if pair != ("ak-right", "as-right"):
        raise AuthError(f"Token {pair[0]} with secret {pair[1]} is not valid")


class _Both:
    """A function that blocks, with one in `aio` that does not."""

    def __init__(self, work):
        self.aio = work
        self.__signature__ = inspect.signature(work)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("it would block the loop")


class _method:
    def __init__(self, work):
        self.work = work

    def __get__(self, instance, owner):
        return _Both(functools.partial(self.work, instance) if instance is not None else self.work)


def _static(work):
    return staticmethod(_Both(work))


class App:
    @_static
    async def lookup(name, *, client=None, environment_name=None, create_if_missing=False):
        _check(name, str, "name")
        _authenticate()
        _note("App.lookup", name=name, create_if_missing=create_if_missing)
        if not create_if_missing:
            raise NotFoundError(f"App {name} not found")
        return App()


class Image:
    def __init__(self, tag=None, object_id=None):
        self.tag = tag
        self.object_id = object_id

    @staticmethod
    def from_registry(
        tag, secret=None, *, setup_dockerfile_commands=[], force_build=False, add_python=None, **kwargs
    ):
        _check(tag, str, "tag")
        _check(setup_dockerfile_commands, list, "setup_dockerfile_commands")
        return Image(tag=tag)

    @staticmethod
    def from_id(image_id, client=None):
        _check(image_id, str, "image_id")
        return Image(object_id=image_id)


class Sandbox:
    def __init__(self, object_id):
        self.object_id = object_id
        self.home = _WORLD / "sandboxes" / object_id
        self.alive = self.home.with_suffix(".alive")
        self.groups = self.home.with_suffix(".groups")

    @_static
    async def create(
        *args,
        app=None,
        name=None,
        image=None,
        env=None,
        secrets=None,
        timeout=300,
        idle_timeout=None,
        workdir=None,
        cpu=None,
        memory=None,
        client=None,
    ):
        for word in args:
            _check(word, str, "an argument")
        _check(app, App, "app")
        _check(image, Image, "image")
        _check(timeout, int, "timeout")
        if cpu is not None:
            _check(cpu, float, "cpu")
        if memory is not None:
            _check(memory, int, "memory")
        _note(
            "Sandbox.create", args=args, image=image.tag, id=image.object_id, timeout=timeout, cpu=cpu, memory=memory
        )
        while _trouble("creation takes long"):
            await asyncio.sleep(0.01)
        if image.object_id is not None and _trouble("no connection to images"):
            raise ConnectionError("Could not connect to the Modal server.")
        if image.object_id is not None and _trouble("a conflict about images"):
            raise ConflictError("Sandbox already finished")
        sandbox = Sandbox(f"sb-{uuid.uuid4().hex}")
        if image.object_id is not None:
            files = _WORLD / "images" / image.object_id
            if not files.is_dir():
                raise NotFoundError(f"Image {image.object_id} not found")
            shutil.copytree(files, sandbox.home, symlinks=True)
        elif image.tag == "no-such-image":
            raise RemoteError("Image build failed")
        else:
            sandbox.home.mkdir(parents=True)
        sandbox.alive.touch()
        return sandbox

    @_static
    async def from_id(sandbox_id, client=None):
        _note("Sandbox.from_id", id=sandbox_id)
        sandbox = Sandbox(sandbox_id)
        if not sandbox.home.is_dir():
            raise NotFoundError(f"Sandbox {sandbox_id} not found")
        return sandbox

    @_method
    async def exec(
        self, *args, stdout=None, stderr=None, timeout=None, workdir=None, env=None, secrets=None, text=True, bufsize=-1
    ):
        for word in args:
            _check(word, str, "an argument")
        if sum(map(len, args)) > _LONGEST_ARGUMENTS:
            raise InvalidError("Total length of CMD arguments is too long")
        if not self.alive.exists():
            raise NotFoundError(f"Sandbox {self.object_id} has already shut down")
        if _trouble("no bash"):
            args = ("sh", "-c", "echo exec: bash: not found >&2; exit 127")
        process = await asyncio.create_subprocess_exec(
            *args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.home)},
            start_new_session=True,
        )
        with open(self.groups, "a") as groups:
            groups.write(f"{process.pid}\n")
        return _Process(process, text)

    @_method
    async def poll(self):
        return None if self.alive.exists() else 137

    @_method
    async def snapshot_filesystem(self, timeout=55, *, ttl=30 * 24 * 3600):
        if not self.alive.exists():
            raise NotFoundError(f"Sandbox {self.object_id} has already shut down")
        image = Image(object_id=f"im-{uuid.uuid4().hex}")
        shutil.copytree(self.home, _WORLD / "images" / image.object_id, symlinks=True)
        _note("Sandbox.snapshot_filesystem", sandbox=self.object_id, image=image.object_id)
        return image

    @_method
    async def terminate(self, *, wait=False):
        self.alive.unlink(missing_ok=True)
        for group in self.groups.read_text().split() if self.groups.exists() else []:
            try:
                os.killpg(int(group), signal.SIGKILL)
            except ProcessLookupError:
                pass
        _note("Sandbox.terminate", sandbox=self.object_id)


class _Process:
    def __init__(self, process, text):
        self._process = process
        self.stdin = _Writer(process.stdin)
        self.stdout = _Reader(process.stdout, text)
        self.stderr = _Reader(process.stderr, text)

    @_method
    async def wait(self):
        code = await self._process.wait()
        return code if code >= 0 else 128 - code


class _Writer:
    def __init__(self, pipe):
        self._pipe = pipe
        self._buffer = b""
        self._ended = False

    def write(self, data):
        _check(data, (bytes, str), "data")
        if len(self._buffer) + len(data) > _BUFFER:
            raise BufferError("Buffer size exceed limit. Call drain to flush the buffer.")
        self._buffer += data if isinstance(data, bytes) else data.encode()

    def write_eof(self):
        self._ended = True

    @_method
    async def drain(self):
        if _trouble("the envoy dies"):
            os._exit(9)
        self._pipe.write(self._buffer)
        self._buffer = b""
        await self._pipe.drain()
        if self._ended:
            self._pipe.close()


class _Reader:
    def __init__(self, pipe, text):
        self._pipe = pipe
        self._text = text

    async def __aiter__(self):
        while True:
            data = await self._pipe.read(64 * 1024)
            if not data:
                return
            yield data.decode() if self._text else data
