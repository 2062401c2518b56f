"""A homeserver and a user of it, for the tests of Matrix.

`matrix.py server FOLDER PORT [slow]` becomes a Synapse in a folder. `matrix.py user FOLDER URL NAME` is a
user with the password `pw-NAME`: it reads a JSON command per line and answers with a line of JSON.
"""

import asyncio
import base64
import hashlib
import io
import json
import os
import sys




def serve(folder, port, slow):
    rate = "{per_second: 2, burst_count: 2}" if slow else "{per_second: 1000, burst_count: 1000}"
    free = "{per_second: 1000, burst_count: 1000}"
    with open(os.path.join(folder, "log.yaml"), "w") as file:
        file.write(
            "version: 1\ndisable_existing_loggers: false\nhandlers: {console: {class: logging.StreamHandler}}\n"
            "root: {level: WARNING, handlers: [console]}\n"
        )
    config = os.path.join(folder, "hs.yaml")
    with open(config, "w") as file:
        file.write(
            f"""
server_name: localhost
public_baseurl: http://127.0.0.1:{port}/
listeners: [{{port: {port}, bind_addresses: ["127.0.0.1"], type: http, tls: false, resources: [{{names: [client]}}]}}]
database: {{name: sqlite3, args: {{database: "{folder}/db.sqlite"}}}}
media_store_path: {folder}/media
signing_key_path: {folder}/key
log_config: {folder}/log.yaml
registration_shared_secret: testsecret
macaroon_secret_key: a
form_secret: b
report_stats: false
trusted_key_servers: []
federation_domain_whitelist: []
rc_message: {rate}
rc_login: {{address: {free}, account: {free}, failed_attempts: {free}}}
rc_joins: {{local: {free}}}
rc_invites: {{per_room: {free}, per_user: {free}}}
"""
        )
    os.chdir(folder)
    program = [sys.executable, "-m", "synapse.app.homeserver", "-c", config]
    if os.spawnv(os.P_WAIT, sys.executable, program + ["--generate-keys"]) != 0:
        sys.exit("no keys")
    os.execv(sys.executable, program)


class User:
    def __init__(self, folder, url, name):
        import nio
        import nio.crypto.sas

        self.nio = nio
        self.url = url
        store = os.path.join(folder, name)
        os.makedirs(store, exist_ok=True)
        config = nio.AsyncClientConfig(encryption_enabled=True, max_limit_exceeded=0, store_sync_tokens=True)
        self.client = nio.AsyncClient(url, f"@{name}:localhost", store_path=store, config=config)
        self.name = name
        # What others said, in order: each with its edits applied.
        self.messages = {}
        self.events = []
        self.verifications = {}

        def check_commitment(sas, key):
            # This release of the library compares a hexadecimal digest; the specification has unpadded base64.
            content = nio.Api.to_canonical_json(sas.start_verification().content)
            digest = hashlib.sha256(key.encode() + content.encode()).digest()
            return sas.commitment == base64.b64encode(digest).decode().rstrip("=")

        sas = nio.crypto.sas.Sas
        sas._check_commitment = check_commitment
        # What it calculates is the second version of the method, under the name of the first.
        sas._mac_normal = "hkdf-hmac-sha256.v2"
        sas._mac_v1 = [sas._mac_normal]

    async def start(self):
        answer = await self.client.login("pw-" + self.name)
        if not isinstance(answer, self.nio.LoginResponse):
            sys.exit(f"no login: {answer}")
        await self.client.keys_upload()
        self.client.add_event_callback(self.take, self.nio.Event)

    async def take(self, room, event):
        if event.sender == self.client.user_id:
            return
        source = event.source.get("content", {})
        entry = {
            "id": event.event_id, "room": room.room_id, "sender": event.sender, "type": event.source.get("type"),
            "encrypted": bool(getattr(event, "decrypted", False)), "content": source, "kind": type(event).__name__,
        }
        if not any(known["id"] == entry["id"] for known in self.events):
            self.events.append(entry)

    async def sync(self):
        client = self.client
        await client.sync(timeout=300, full_state=client.next_batch is None)
        if client.should_upload_keys:
            await client.keys_upload()
        if client.should_query_keys:
            await client.keys_query()
        for room in list(client.invited_rooms):
            await client.join(room)
        # A key may come after its message.
        for entry in self.events:
            if entry["kind"] == "MegolmEvent":
                event = self.nio.Event.parse_encrypted_event(
                    {"content": entry["content"], "event_id": entry["id"], "sender": entry["sender"],
                     "origin_server_ts": 0, "type": "m.room.encrypted", "room_id": entry["room"]}
                )
                event.room_id = entry["room"]
                try:
                    plain = client.decrypt_event(event)
                except self.nio.EncryptionError:
                    continue
                entry.update(content=plain.source["content"], type=plain.source["type"], encrypted=True, kind="Decrypted")

    async def run(self, command):
        client = self.client
        name = command["do"]
        if name == "room":
            state = []
            if command.get("encrypted"):
                content = {"algorithm": "m.megolm.v1.aes-sha2"}
                state.append({"type": "m.room.encryption", "state_key": "", "content": content})
            answer = await client.room_create(
                name=command.get("name"), invite=command.get("invite", []), initial_state=state,
                is_direct=bool(command.get("direct")),
            )
            await self.sync()
            return {"room": answer.room_id}
        if name == "members":
            answer = await client.joined_members(command["room"])
            return {"members": [member.user_id for member in answer.members]}
        if name == "send":
            await self.sync()
            answer = await client.room_send(
                command["room"], command.get("type", "m.room.message"), command["content"], ignore_unverified_devices=True
            )
            if not hasattr(answer, "event_id"):
                return {"error": str(answer)}
            return {"id": answer.event_id}
        if name == "share":
            data = bytes.fromhex(command["bytes"])
            encrypted = client.rooms[command["room"]].encrypted
            answer, keys = await client.upload(
                io.BytesIO(data), content_type=command["mime"], filename=command["name"], encrypt=encrypted,
                filesize=len(data),
            )
            content = {
                "msgtype": command["msgtype"], "body": command.get("text") or command["name"], "filename": command["name"],
                "info": {"mimetype": command["mime"], "size": len(data)},
            }
            if encrypted:
                content["file"] = {**keys, "url": answer.content_uri}
            else:
                content["url"] = answer.content_uri
            return await self.run({"do": "send", "room": command["room"], "content": content})
        if name == "fetch":
            file = command.get("file")
            address = file["url"] if file else command["url"]
            answer = await client.download(address)
            data = answer.body
            if file:
                from nio.crypto.attachments import decrypt_attachment

                data = decrypt_attachment(data, file["key"]["k"], file["hashes"]["sha256"], file["iv"])
            return {"bytes": data.hex()}
        if name == "look":
            await self.sync()
            return {"events": self.events}
        if name == "devices":
            await client.keys_query() if client.should_query_keys else None
            devices = client.device_store.active_user_devices(command["user"])
            return {"devices": {device.device_id: device.ed25519 for device in devices}}
        if name == "verify":
            device = next(iter(client.device_store.active_user_devices(command["user"])))
            answer = await client.start_key_verification(device)
            if not isinstance(answer, self.nio.ToDeviceResponse):
                return {"error": str(answer)}
            open_ones = [id for id, sas in client.key_verifications.items() if not sas.canceled and not sas.verified]
            # What is cancelled is forgotten by the library.
            self.verifications[open_ones[-1]] = client.key_verifications[open_ones[-1]]
            return {"id": open_ones[-1]}
        if name == "verification":
            await self.sync()
            await client.send_to_device_messages()
            sas = self.verifications[command["id"]]
            has_keys = sas.state.name in ("key_received", "mac_received")
            # This release of the library takes the indices of the emoji for bytes that are to be cut into indices.
            indices = sas.established_sas.bytes(sas._extra_info).emoji_indices if has_keys else []
            emoji = [sas.emoji[index] for index in indices]
            if command.get("confirm"):
                await client.confirm_short_auth_string(command["id"])
            return {"emoji": [symbol for symbol, _ in emoji], "numbers": list(sas.get_decimals()) if has_keys else [], "verified": sas.verified, "canceled": sas.canceled}
        if name == "request":
            headers = {"Authorization": f"Bearer {command.get('token') or client.access_token}"}
            import aiohttp

            async with aiohttp.ClientSession() as session:
                method, path = command["method"], self.url + command["path"]
                async with session.request(method, path, json=command.get("body"), headers=headers) as answer:
                    return {"status": answer.status, "body": await answer.json()}
        return {"error": "unknown"}


async def be_user(folder, url, name):
    user = User(folder, url, name)
    await user.start()
    print(json.dumps({"ready": True}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            answer = await user.run(json.loads(line))
        except Exception as error:  # The test shows what went wrong.
            answer = {"error": repr(error)}
        print(json.dumps(answer), flush=True)
    await user.client.close()


def main():
    what, folder = sys.argv[1], sys.argv[2]
    if what == "server":
        serve(folder, sys.argv[3], "slow" in sys.argv[4:])
    elif what == "user":
        asyncio.run(be_user(folder, sys.argv[3], sys.argv[4]))


main()
