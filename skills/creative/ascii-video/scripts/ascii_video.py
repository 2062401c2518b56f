#!/usr/bin/env python3
"""Converts a video to characters: .mp4 and .gif with drawn characters, .cast for asciinema, .txt as plain frames. Needs ffmpeg."""
import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

RAMP = " .:-=+*#%@"
# Eight rows of eight pixels for each character of the ramp; each row is drawn twice, so that a cell is 8 x 16.
GLYPHS = {
    " ": "00 00 00 00 00 00 00 00",
    ".": "00 00 00 00 00 18 18 00",
    ":": "00 18 18 00 00 18 18 00",
    "-": "00 00 00 7e 7e 00 00 00",
    "=": "00 00 7e 00 00 7e 00 00",
    "+": "00 18 18 7e 7e 18 18 00",
    "*": "00 5a 3c 7e 7e 3c 5a 00",
    "#": "24 24 7e 24 24 7e 24 24",
    "%": "62 66 0c 18 18 30 66 46",
    "@": "3c 66 5a 5e 5e 40 62 3c",
}
CELL_WIDTH, CELL_HEIGHT = 8, 16


def fail(text):
    sys.exit(f"ascii_video: {text}")


def source_size(ffmpeg, source):
    """Returns width and height from ffmpeg's description of the file."""
    shown = subprocess.run([ffmpeg, "-hide_banner", "-i", source], capture_output=True, text=True, errors="replace").stderr
    for line in shown.splitlines():
        match = re.search(r"Video:.*?\b(\d{2,5})x(\d{2,5})\b", line)
        if match:
            width, height = int(match.group(1)), int(match.group(2))
            turned = re.search(r"rotation of -?90\b", shown)
            return (height, width) if turned else (width, height)
    fail(f"{source} has no video stream that ffmpeg can read")


def frames(ffmpeg, arguments, columns, rows):
    """Yields the frames as RGB bytes, one pixel per cell."""
    command = [ffmpeg, "-v", "error"]
    if arguments.start:
        command += ["-ss", str(arguments.start)]
    if arguments.duration:
        command += ["-t", str(arguments.duration)]
    command += ["-i", arguments.source, "-vf", f"fps={arguments.fps},scale={columns}:{rows}:flags=area",
                "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    size = columns * rows * 3
    with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
        while True:
            data = reader.stdout.read(size)
            if len(data) < size:
                break
            yield data
    if reader.returncode not in (0, None):
        fail("ffmpeg could not read the video to its end")


def levels(data, ramp, contrast, invert):
    """Returns the index into the ramp for each cell."""
    last = len(ramp) - 1
    result = []
    for i in range(0, len(data), 3):
        value = (0.2126 * data[i] + 0.7152 * data[i + 1] + 0.0722 * data[i + 2]) / 255
        value = min(1.0, max(0.0, (value - 0.5) * contrast + 0.5))
        result.append(min(last, int((1 - value if invert else value) * (last + 1))))
    return result


class Drawing:
    """Draws cells as pixels. Strips of eight pixels are cached by character, color and row."""

    def __init__(self, ramp, tint, invert):
        missing = [character for character in ramp if character not in GLYPHS]
        if missing:
            fail(f"the ramp has characters that cannot be drawn: {''.join(missing)}; possible are: {''.join(GLYPHS)}")
        self.masks = [[int(row, 16) for row in GLYPHS[character].split()] for character in ramp]
        self.tint = tint
        self.paper = bytes((255, 255, 255)) if invert else bytes(3)
        self.ink = bytes(3) if invert and tint == bytes((255, 255, 255)) else tint
        self.strips = {}

    def strip(self, level, row, ink):
        key = (level, row, ink)
        if key not in self.strips:
            mask = self.masks[level][row]
            self.strips[key] = b"".join(ink if mask & (0x80 >> bit) else self.paper for bit in range(CELL_WIDTH))
        return self.strips[key]

    def frame(self, cells, data, columns, rows, color):
        lines = []
        for row in range(rows):
            start = row * columns
            line = cells[start:start + columns]
            if color:
                inks = [bytes(value | 0x1F for value in data[3 * i:3 * i + 3]) for i in range(start, start + columns)]
            else:
                inks = [self.ink] * columns
            for glyph_row in range(8):
                drawn = b"".join(self.strip(level, glyph_row, ink) for level, ink in zip(line, inks))
                lines.append(drawn)
                lines.append(drawn)
        return b"".join(lines)


def text_of(cells, data, columns, rows, ramp, color):
    lines = []
    for row in range(rows):
        start = row * columns
        if not color:
            lines.append("".join(ramp[level] for level in cells[start:start + columns]).rstrip())
            continue
        parts, previous = [], None
        for i in range(start, start + columns):
            now = tuple(value & 0xE0 for value in data[3 * i:3 * i + 3])
            if now != previous:
                parts.append(f"\x1b[38;2;{now[0]};{now[1]};{now[2]}m")
                previous = now
            parts.append(ramp[cells[i]])
        lines.append("".join(parts) + "\x1b[0m")
    return lines


def writer(ffmpeg, arguments, columns, rows):
    """Starts the ffmpeg that encodes drawn frames."""
    command = [ffmpeg, "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{columns * CELL_WIDTH}x{rows * CELL_HEIGHT}",
               "-r", str(arguments.fps), "-i", "-"]
    if arguments.target.suffix == ".gif":
        command += ["-vf", "split[a][b];[a]palettegen=max_colors=64[p];[b][p]paletteuse=dither=none"]
    else:
        if arguments.start:
            command += ["-ss", str(arguments.start)]
        if arguments.duration:
            command += ["-t", str(arguments.duration)]
        command += ["-i", arguments.source, "-map", "0:v", "-map", "1:a?", "-shortest", "-c:v", "libx264", "-crf", str(arguments.crf),
                    "-pix_fmt", "yuv420p", "-c:a", "aac", "-movflags", "+faststart"]
    return subprocess.Popen(command + [str(arguments.target)], stdin=subprocess.PIPE)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("target", type=Path, help="file that ends in .mp4, .gif, .cast or .txt")
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--fps", type=float, default=12)
    parser.add_argument("--start", type=float, default=0, help="seconds to skip")
    parser.add_argument("--duration", type=float, default=0, help="seconds to convert; 0 is all")
    parser.add_argument("--contrast", type=float, default=1.2)
    parser.add_argument("--ramp", default=RAMP, help="characters from dark to bright")
    parser.add_argument("--invert", action="store_true", help="dark characters on a light background")
    parser.add_argument("--color", action="store_true", help="use the colors of the video")
    parser.add_argument("--tint", default="ffffff", help="color of the characters without --color, as RRGGBB")
    parser.add_argument("--crf", type=int, default=23, help="quality of .mp4; higher is smaller (default: %(default)s)")
    parser.add_argument("--ffmpeg", default="ffmpeg", help="program to use")
    arguments = parser.parse_args()
    if arguments.target.suffix not in (".mp4", ".gif", ".cast", ".txt"):
        parser.error("the target must end in .mp4, .gif, .cast or .txt")
    if not 8 <= arguments.columns <= 400 or not 0 < arguments.fps <= 60:
        parser.error("--columns must be 8 to 400, --fps at most 60")
    if not re.fullmatch(r"[0-9a-fA-F]{6}", arguments.tint):
        parser.error("--tint must be RRGGBB")
    ffmpeg = shutil.which(arguments.ffmpeg)
    if not ffmpeg:
        fail("ffmpeg is not installed")
    if not Path(arguments.source).is_file():
        fail(f"{arguments.source} does not exist")
    width, height = source_size(ffmpeg, arguments.source)
    columns = arguments.columns
    rows = max(1, round(columns * height / width / 2))
    columns, rows = columns + columns % 2, rows + rows % 2
    form = arguments.target.suffix
    count = 0
    if form in (".mp4", ".gif"):
        drawing = Drawing(arguments.ramp, bytes.fromhex(arguments.tint), arguments.invert)
        encoder = writer(ffmpeg, arguments, columns, rows)
        try:
            for data in frames(ffmpeg, arguments, columns, rows):
                cells = levels(data, arguments.ramp, arguments.contrast, arguments.invert)
                encoder.stdin.write(drawing.frame(cells, data, columns, rows, arguments.color))
                count += 1
        except BrokenPipeError:
            fail("ffmpeg could not write the target")
        finally:
            if not encoder.stdin.closed:
                encoder.stdin.close()
        if encoder.wait() != 0:
            fail("ffmpeg could not write the target")
    else:
        with arguments.target.open("w", encoding="utf-8") as output:
            if form == ".cast":
                output.write(json.dumps({"version": 2, "width": columns, "height": rows}) + "\n")
            for data in frames(ffmpeg, arguments, columns, rows):
                cells = levels(data, arguments.ramp, arguments.contrast, arguments.invert)
                lines = text_of(cells, data, columns, rows, arguments.ramp, arguments.color)
                if form == ".cast":
                    text = "\x1b[H\x1b[2J" + "\r\n".join(lines)
                    output.write(json.dumps([round(count / arguments.fps, 3), "o", text]) + "\n")
                else:
                    output.write("\n".join(lines) + "\n\f\n")
                count += 1
    if count == 0:
        fail("no frame was read; check --start and --duration")
    print(f"{arguments.target}: {count} frames, {columns}x{rows} characters, {arguments.target.stat().st_size} bytes")


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
