"""A small Modal for its own package to speak with: python server.py FOLDER.

Prints its address and serves until its input ends. Sandboxes are folders, what runs in them runs here, and snapshots are
copies. It knows what the package asks for a sandbox, and refuses all else as a server does that lacks it.
"""

import asyncio
import base64
import json
import os
import pathlib
import shutil
import signal
import sys
import time
import uuid

from grpclib import GRPCError, Status
from grpclib.server import Server
from modal_proto import api_pb2, task_command_router_pb2 as router_pb2
from modal_proto.api_grpc import ModalClientBase
from modal_proto.task_command_router_grpc import TaskCommandRouterBase

WORLD = pathlib.Path(sys.argv[1])
SUCCESS = api_pb2.GenericResult(status=api_pb2.GenericResult.GENERIC_STATUS_SUCCESS)
TERMINATED = api_pb2.GenericResult(status=api_pb2.GenericResult.GENERIC_STATUS_TERMINATED)


def web_token():
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'exp': int(time.time()) + 3600})}.x"


async def lacking(self, stream):
    raise GRPCError(Status.UNIMPLEMENTED, "this small Modal cannot do that")


def answers(service):
    """A class for a service whose methods take a request and return the answer."""

    def wrap(work):
        async def method(self, stream):
            for name in ("x-modal-token-id", "x-modal-token-secret"):
                if service is ModalClientBase and not str(stream.metadata.get(name, "")).endswith("-right"):
                    raise GRPCError(Status.UNAUTHENTICATED, "the token is not valid")
            await stream.send_message(await work(await stream.recv_message()))

        return method

    def decorate(ours):
        methods = dict.fromkeys(service.__abstractmethods__, lacking)
        for name, work in vars(ours).items():
            if name in methods:
                methods[name] = work if getattr(work, "streams", False) else wrap(work)
        return type(ours.__name__, (service,), methods)

    return decorate


class Exec:
    def __init__(self, process):
        self.process = process
        self.output = {1: bytearray(), 2: bytearray()}
        self.ended = {1: False, 2: False}
        self.news = asyncio.Condition()
        self.written = 0

    async def gather(self, number, pipe):
        while data := await pipe.read(64 * 1024):
            async with self.news:
                self.output[number] += data
                self.news.notify_all()
        async with self.news:
            self.ended[number] = True
            self.news.notify_all()


address = ""
sandboxes, execs = {}, {}


def home_of(sandbox):
    if sandbox not in sandboxes:
        raise GRPCError(Status.NOT_FOUND, f"Sandbox {sandbox} not found")
    return WORLD / "sandboxes" / sandbox


def exec_of(request):
    if request.exec_id not in execs:
        raise GRPCError(Status.NOT_FOUND, "no such exec")
    return execs[request.exec_id]


@answers(ModalClientBase)
class Modal:
    async def ClientHello(request):
        return api_pb2.ClientHelloResponse()

    async def AuthTokenGet(request):
        return api_pb2.AuthTokenGetResponse(token=web_token())

    async def AppGetOrCreate(request):
        return api_pb2.AppGetOrCreateResponse(app_id=f"ap-{request.app_name}")

    async def EnvironmentGetOrCreate(request):
        settings = api_pb2.EnvironmentSettings(image_builder_version="2025.06")
        metadata = api_pb2.EnvironmentMetadata(name="main", settings=settings)
        return api_pb2.EnvironmentGetOrCreateResponse(environment_id="en-1", metadata=metadata)

    async def ImageGetOrCreate(request):
        (WORLD / "dockerfile").write_text("\n".join(request.image.dockerfile_commands))
        return api_pb2.ImageGetOrCreateResponse(image_id="im-base", result=SUCCESS)

    async def ImageFromId(request):
        if not (WORLD / "images" / request.image_id).is_dir():
            raise GRPCError(Status.NOT_FOUND, f"Image {request.image_id} not found")
        return api_pb2.ImageFromIdResponse(image_id=request.image_id)

    async def SandboxCreateV2(request):
        definition = request.definition
        name = f"sb-{uuid.uuid4().hex}"
        home = WORLD / "sandboxes" / name
        if definition.image_id == "im-base":
            home.mkdir(parents=True)
        else:
            shutil.copytree(WORLD / "images" / definition.image_id, home)
        asked = {
            "app": request.app_id,
            "words": list(definition.entrypoint_args),
            "timeout": definition.timeout_secs,
            "memory": definition.resources.memory_mb,
            "milli_cpu": definition.resources.milli_cpu,
        }
        (WORLD / "asked").write_text(json.dumps(asked))
        sandboxes[name] = None
        return api_pb2.SandboxCreateV2Response(sandbox_id=name, task_id=name)

    async def SandboxGetTaskIdV2(request):
        home_of(request.sandbox_id)
        if sandboxes[request.sandbox_id]:
            return api_pb2.SandboxGetTaskIdResponse(task_result=sandboxes[request.sandbox_id])
        return api_pb2.SandboxGetTaskIdResponse(task_id=request.sandbox_id)

    async def SandboxGetCommandRouterAccess(request):
        home_of(request.sandbox_id)
        return api_pb2.SandboxGetCommandRouterAccessResponse(url=address, jwt=web_token())

    async def SandboxWaitV2(request):
        home_of(request.sandbox_id)
        return api_pb2.SandboxWaitResponse(result=sandboxes[request.sandbox_id])

    async def SandboxTerminateV2(request):
        home_of(request.sandbox_id)
        sandboxes[request.sandbox_id] = TERMINATED
        for one in execs.values():
            if one.sandbox == request.sandbox_id:
                try:
                    os.killpg(one.process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        return api_pb2.SandboxTerminateResponse()


def streams(work):
    work.streams = True
    return work


@answers(TaskCommandRouterBase)
class Router:
    async def TaskExecStart(request):
        home = home_of(request.task_id)
        if sandboxes[request.task_id]:
            raise GRPCError(Status.NOT_FOUND, "the task has ended")
        process = await asyncio.create_subprocess_exec(
            *request.command_args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "HOME": str(home)},
            start_new_session=True,
        )
        one = execs[request.exec_id] = Exec(process)
        one.sandbox = request.task_id
        one.tasks = [
            asyncio.ensure_future(one.gather(1, process.stdout)),
            asyncio.ensure_future(one.gather(2, process.stderr)),
        ]
        return router_pb2.TaskExecStartResponse()

    async def TaskExecStdinWrite(request):
        one = exec_of(request)
        new = request.data[one.written - request.offset :]
        one.written += len(new)
        try:
            one.process.stdin.write(new)
            await one.process.stdin.drain()
            if request.eof:
                one.process.stdin.close()
        except OSError as error:
            raise GRPCError(Status.FAILED_PRECONDITION, str(error))
        return router_pb2.TaskExecStdinWriteResponse()

    @streams
    async def TaskExecStdioRead(self, stream):
        request = await stream.recv_message()
        one = exec_of(request)
        stdout = router_pb2.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT
        number = 1 if request.file_descriptor == stdout else 2
        offset = request.offset
        while True:
            async with one.news:
                await one.news.wait_for(lambda: len(one.output[number]) > offset or one.ended[number])
                data = bytes(one.output[number][offset:])
            if not data:
                return
            offset += len(data)
            for start in range(0, len(data), 256 * 1024):
                piece = data[start : start + 256 * 1024]
                await stream.send_message(router_pb2.TaskExecStdioReadResponse(data=piece))

    async def TaskExecWait(request):
        code = await exec_of(request).process.wait()
        if code < 0:
            return router_pb2.TaskExecWaitResponse(signal=-code)
        return router_pb2.TaskExecWaitResponse(code=code)

    async def TaskSnapshotFilesystem(request):
        image = f"im-{uuid.uuid4().hex}"
        shutil.copytree(home_of(request.task_id), WORLD / "images" / image)
        return router_pb2.TaskSnapshotFilesystemResponse(image_id=image)


async def main():
    global address
    server = Server([Modal(), Router()])
    await server.start("127.0.0.1", 0)
    port = server._server.sockets[0].getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    print(address, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)


asyncio.run(main())
