#!/usr/bin/env python3
"""Prints the transcript of a YouTube video. Needs the package youtube-transcript-api 1.0 or newer, except for --help."""
import argparse
import json
import re
import sys
from pathlib import Path


def fail(text):
    sys.exit(f"transcript: {text}")


def video_id(text):
    match = re.search(r"(?:v=|youtu\.be/|/shorts/|/live/|/embed/|^)([A-Za-z0-9_-]{11})(?![A-Za-z0-9_-])", text)
    if not match:
        fail(f"`{text}` has no video id")
    return match.group(1)


def clock(seconds):
    seconds = int(seconds)
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes:02}:{seconds % 60:02}"


def group(snippets, seconds):
    """Joins snippets to passages of about the given length. Yields (start, text)."""
    start, words = None, []
    for snippet in snippets:
        text = " ".join(re.sub(r"\[(music|applause|laughter)\]", "", snippet["text"], flags=re.IGNORECASE).split())
        if not text:
            continue
        if start is not None and snippet["start"] - start >= seconds:
            yield start, " ".join(words)
            start, words = None, []
        if start is None:
            start = snippet["start"]
        words.append(text)
    if words:
        yield start, " ".join(words)


def fetch(video, arguments):
    """Returns the snippets and a description of the captions."""
    try:
        from youtube_transcript_api import YouTubeTranscriptApi
        from youtube_transcript_api._errors import CouldNotRetrieveTranscript
    except ImportError:
        fail(f"{sys.executable} has no youtube-transcript-api; install it: {sys.executable} -m pip install youtube-transcript-api")
    try:
        found = YouTubeTranscriptApi().list(video)
        if arguments.list:
            for one in found:
                kind = "generated" if one.is_generated else "written"
                print(f"{one.language_code}  {one.language}  {kind}" + ("  translatable" if one.is_translatable else ""))
            sys.exit(0)
        languages = arguments.language or ["en"]
        codes = [one.language_code for one in found]
        if not any(code in codes for code in languages) and not arguments.language:
            languages = codes
        chosen = found.find_transcript(languages)
        if arguments.translate:
            chosen = chosen.translate(arguments.translate)
        snippets = [{"text": one.text, "start": one.start, "duration": one.duration} for one in chosen.fetch()]
        return snippets, f"{chosen.language_code}, {'generated' if chosen.is_generated else 'written'}"
    except CouldNotRetrieveTranscript as error:
        reason = next((line.strip() for line in str(error.cause).splitlines() if line.strip()), "")
        fail(f"{video}: {type(error).__name__}: {reason}")
    except OSError as error:
        fail(f"{video}: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("video", help="address or id")
    parser.add_argument("--list", action="store_true", help="list the languages")
    parser.add_argument("--language", action="append", help="language code, in order of preference; repeatable (default: en, else the first)")
    parser.add_argument("--translate", metavar="CODE", help="let YouTube translate the captions")
    parser.add_argument("--seconds", type=float, default=30, help="length of a passage (default: %(default)s)")
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--json", action="store_true", help="print the snippets as JSON")
    parser.add_argument("--from-json", type=Path, metavar="FILE", help="use snippets saved with --json instead of fetching them")
    parser.add_argument("--out", type=Path, help="write to a file")
    arguments = parser.parse_args()
    if arguments.from_json:
        try:
            snippets, about = json.loads(arguments.from_json.read_text(encoding="utf-8")), "from a file"
        except (OSError, ValueError) as error:
            fail(f"{arguments.from_json}: {error}")
    else:
        snippets, about = fetch(video_id(arguments.video), arguments)
    if arguments.json:
        text = json.dumps(snippets, indent=1, ensure_ascii=False)
    else:
        text = "\n".join(words if arguments.no_times else f"[{clock(start)}] {words}" for start, words in group(snippets, arguments.seconds))
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
    length = snippets[-1]["start"] + snippets[-1]["duration"] if snippets else 0
    words = sum(len(snippet["text"].split()) for snippet in snippets)
    print(f"transcript: {clock(length)} long, {words} words, {about}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
