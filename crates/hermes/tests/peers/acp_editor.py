"""An editor made with the published Python SDK of the protocol: drives `hermes acp` through every method it offers.

Usage: acp_editor.py PROGRAM HOME FOLDER. Prints "all well" at the end.
"""

import asyncio
import base64
import os
import sys

import acp
from acp.schema import AllowedOutcome, RequestPermissionResponse

PROGRAM, HOME, FOLDER = sys.argv[1:4]
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


class Editor(acp.Client):
    def __init__(self):
        self.updates = []
        self.asked = []
        self.option = "deny"

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append((session_id, update))

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.asked.append((tool_call, options))
        assert self.option in [option.option_id for option in options], options
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=self.option))

    def answer(self, session_id):
        chunks = [u for s, u in self.updates if s == session_id and u.session_update == "agent_message_chunk"]
        return "".join(chunk.content.text for chunk in chunks)

    def kinds(self, session_id):
        return [update.session_update for session, update in self.updates if session == session_id]


async def main():
    editor = Editor()
    env = {"HERMES_HOME": HOME, "HOME": HOME, "PATH": "/usr/bin:/bin", "TZ": "UTC"}
    async with acp.spawn_agent_process(lambda _agent: editor, PROGRAM, "acp", env=env, cwd=FOLDER) as (agent, process):
        begun = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert begun.agent_info.name == "hermes-agent", begun
        capabilities = begun.agent_capabilities
        assert capabilities.load_session and capabilities.prompt_capabilities.image, begun
        assert capabilities.prompt_capabilities.embedded_context, begun
        sessions = capabilities.session_capabilities
        assert sessions.list is not None and sessions.resume is not None and sessions.fork is not None, begun

        opened = await agent.new_session(cwd=FOLDER, mcp_servers=[])
        session = opened.session_id
        assert [mode.id for mode in opened.modes.available_modes] == ["default", "dont_ask"], opened
        assert opened.config_options[0].id == "model", opened

        async def say(text, *more, to=session):
            return await agent.prompt(session_id=to, prompt=[acp.text_block(text), *more])

        picture = await say("pictureword", acp.image_block(PNG, "image/png"))
        assert picture.stop_reason == "end_turn", picture
        assert "a picture" in editor.answer(session), editor.updates
        assert "available_commands_update" in editor.kinds(session), editor.updates

        resource = acp.resource_block(acp.embedded_text_resource("file:///notes.md", "the embedded text"))
        await say("fileword", resource)
        assert "read the file" in editor.answer(session), editor.updates

        # Refused, then allowed.
        os.mkdir(os.path.join(FOLDER, "made"))
        await say("denyword")
        assert os.path.isdir(os.path.join(FOLDER, "made")) and len(editor.asked) == 1, editor.asked
        editor.option = "allow_once"
        await say("allowword")
        assert not os.path.exists(os.path.join(FOLDER, "made")) and len(editor.asked) == 2, editor.asked
        assert "tool_call" in editor.kinds(session) and "tool_call_update" in editor.kinds(session)

        # Cancelled in the middle.
        running = asyncio.ensure_future(say("slowword"))
        while "slow begins" not in editor.answer(session):
            await asyncio.sleep(0.01)
        await agent.cancel(session_id=session)
        assert (await running).stop_reason == "cancelled"

        mode = await agent.set_session_mode(session_id=session, mode_id="dont_ask")
        assert mode is not None
        while "config_option_update" not in editor.kinds(session):
            await asyncio.sleep(0.01)
        options = await agent.set_config_option(session_id=session, config_id="model", value="custom:other-model")
        assert options.config_options[0].current_value == "custom:other-model", options
        try:
            await agent.set_config_option(session_id=session, config_id="model", value="custom:none")
            raise AssertionError("an unknown model was taken")
        except acp.RequestError:
            pass
        await say("modelword")
        assert "from the other model" in editor.answer(session), editor.updates

        fork = await agent.fork_session(session_id=session, cwd=FOLDER)
        assert fork.session_id != session
        await say("forkword", to=fork.session_id)
        assert "in the fork" in editor.answer(fork.session_id), editor.updates

        listed = await agent.list_sessions()
        assert {entry.session_id for entry in listed.sessions} == {session, fork.session_id}, listed
        await agent.resume_session(session_id=session, cwd=FOLDER)
        before = len(editor.updates)
        await agent.load_session(cwd=FOLDER, session_id=session, mcp_servers=[])
        replayed = [update.session_update for _, update in editor.updates[before:]]
        assert "user_message_chunk" in replayed, replayed
        try:
            await agent.load_session(cwd=FOLDER, session_id="no-such-session", mcp_servers=[])
            raise AssertionError("an unknown session was loaded")
        except acp.RequestError:
            pass
    print("all well")


asyncio.run(asyncio.wait_for(main(), 60))
