"""Starts a Home Assistant with a bell and a lamp in a folder, at a port of loopback. Its token is in the file `token`."""

import json
import os
import sys
import time

import jwt

folder, port = sys.argv[1], sys.argv[2]
storage = os.path.join(folder, ".storage")
os.makedirs(storage)
with open(os.path.join(folder, "configuration.yaml"), "w") as file:
    file.write(
        f"""
homeassistant: {{name: Test, latitude: 52.5, longitude: 13.4, elevation: 30, unit_system: metric, time_zone: UTC, country: DE}}
http: {{server_host: 127.0.0.1, server_port: {port}}}
api:
websocket_api:
input_boolean: {{bell: {{name: Bell}}, lamp: {{name: Lamp}}}}
"""
    )


def put(name, version, data):
    with open(os.path.join(storage, name), "w") as file:
        json.dump({"version": version, "minor_version": 1, "key": name, "data": data}, file)


key, now = "k" * 64, int(time.time())
user = {
    "id": "u1", "group_ids": ["system-admin"], "is_owner": True, "is_active": True, "name": "Test",
    "system_generated": False, "local_only": False,
}
token = {
    "id": "t1", "user_id": "u1", "client_id": None, "client_name": "ci", "client_icon": None,
    "token_type": "long_lived_access_token", "created_at": "2024-01-01T00:00:00+00:00",
    "access_token_expiration": 3.2e8, "token": "x" * 128, "jwt_key": key, "last_used_at": None, "last_used_ip": None,
}
groups = [{"id": "system-admin", "name": "Administrators"}]
put("auth", 1, {"credentials": [], "groups": groups, "users": [user], "refresh_tokens": [token]})
put("onboarding", 4, {"done": ["user", "core_config", "analytics", "integration"]})
with open(os.path.join(folder, "token"), "w") as file:
    file.write(jwt.encode({"iss": "t1", "iat": now - 60, "exp": now + 86400}, key, algorithm="HS256"))
hass = os.path.join(os.path.dirname(sys.executable), "hass")
os.execv(hass, [hass, "-c", folder, "--skip-pip"])
