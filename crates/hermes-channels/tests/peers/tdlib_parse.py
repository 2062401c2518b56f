"""Reads a JSON list of texts in MarkdownV2 with Telegram's own library; prints what it makes of each."""
import json
import sys

import tdjson


def execute(request):
    return json.loads(tdjson.td_execute(json.dumps(request).encode()))


def read(text):
    mode = {"@type": "textParseModeMarkdown", "version": 2}
    said = execute({"@type": "parseTextEntities", "text": text, "parse_mode": mode})
    if said["@type"] == "error":
        return {"error": said["message"].removeprefix("Can't parse entities: ")}
    return {"text": said["text"]}


execute({"@type": "setLogVerbosityLevel", "new_verbosity_level": 0})
with open(sys.argv[1], encoding="utf-8") as file:
    print(json.dumps([read(text) for text in json.load(file)]))
