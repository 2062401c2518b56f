#!/usr/bin/env python3
"""Converts a picture to characters. Reads it with ffmpeg or ImageMagick, whichever is installed."""
import argparse
import shutil
import subprocess
import sys
from pathlib import Path

RAMP = " .:-=+*#%@"
BRAILLE = [(0, 0, 0x01), (0, 1, 0x02), (0, 2, 0x04), (1, 0, 0x08), (1, 1, 0x10), (1, 2, 0x20), (0, 3, 0x40), (1, 3, 0x80)]


def fail(text):
    sys.exit(f"ascii_image: {text}")


def run(command):
    result = subprocess.run(command, capture_output=True)
    if result.returncode != 0:
        fail(f"{command[0]} cannot read the picture: {result.stderr.decode('utf-8', 'replace').strip()[-300:]}")
    return result.stdout


def reader():
    """Returns the programs that are installed, as (name, path)."""
    for name in ("ffmpeg", "magick", "convert"):
        path = shutil.which(name)
        if path:
            return name, path
    fail("neither ffmpeg nor ImageMagick (magick, convert) is installed")


def size_of(name, path, picture):
    """Returns width and height, found by reading the picture as a PPM."""
    if name == "ffmpeg":
        data = run([path, "-v", "error", "-i", picture, "-frames:v", "1", "-f", "image2pipe", "-c:v", "ppm", "-"])
    else:
        data = run([path, picture + "[0]", "ppm:-"])
    words = data[:200].split()
    if len(words) < 3 or words[0] != b"P6":
        fail("the picture has no size")
    return int(words[1]), int(words[2])


def pixels(name, path, picture, width, height):
    """Returns the picture as RGB bytes of the given size."""
    if name == "ffmpeg":
        command = [path, "-v", "error", "-i", picture, "-frames:v", "1", "-vf", f"scale={width}:{height}:flags=area",
                   "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    else:
        command = [path, picture + "[0]", "-background", "black", "-flatten", "-resize", f"{width}x{height}!", "-depth", "8", "rgb:-"]
    data = run(command)
    if len(data) != width * height * 3:
        fail(f"expected {width * height * 3} bytes of picture, got {len(data)}")
    return data


def luminance(data, contrast, invert):
    """Returns brightness from 0 to 1 for each pixel, stretched to the whole range."""
    values = [(0.2126 * data[i] + 0.7152 * data[i + 1] + 0.0722 * data[i + 2]) / 255 for i in range(0, len(data), 3)]
    low, high = min(values), max(values)
    spread = (high - low) or 1.0
    values = [min(1.0, max(0.0, ((value - low) / spread - 0.5) * contrast + 0.5)) for value in values]
    return [1 - value for value in values] if invert else values


def colored(character, data, index):
    red, green, blue = data[index * 3:index * 3 + 3]
    return f"\x1b[38;2;{red};{green};{blue}m{character}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture")
    parser.add_argument("--width", type=int, default=80, help="columns (default: %(default)s)")
    parser.add_argument("--style", choices=["ascii", "blocks", "braille"], default="ascii")
    parser.add_argument("--ramp", default=RAMP, help="characters from dark to bright (default: %(default)r)")
    parser.add_argument("--invert", action="store_true", help="for dark text on a light background")
    parser.add_argument("--contrast", type=float, default=1.0)
    parser.add_argument("--aspect", type=float, default=0.5, help="width of a character divided by its height (default: %(default)s)")
    parser.add_argument("--color", action="store_true", help="add ANSI colors (styles ascii and blocks)")
    arguments = parser.parse_args()
    if not 1 <= arguments.width <= 500:
        parser.error("--width must be 1 to 500")
    if not Path(arguments.picture).is_file():
        fail(f"{arguments.picture} does not exist")
    name, path = reader()
    picture = str(Path(arguments.picture).resolve())
    source_width, source_height = size_of(name, path, picture)
    columns = arguments.width
    rows = max(1, round(columns * source_height / source_width * arguments.aspect))
    across, down = {"ascii": (1, 1), "blocks": (1, 2), "braille": (2, 4)}[arguments.style]
    width, height = columns * across, rows * down
    data = pixels(name, path, picture, width, height)
    values = luminance(data, arguments.contrast, arguments.invert)
    lines = []
    for row in range(rows):
        line = []
        for column in range(columns):
            if arguments.style == "ascii":
                index = row * width + column
                character = arguments.ramp[min(len(arguments.ramp) - 1, int(values[index] * len(arguments.ramp)))]
                line.append(colored(character, data, index) if arguments.color else character)
            elif arguments.style == "blocks":
                top, bottom = 2 * row * width + column, (2 * row + 1) * width + column
                if arguments.color:
                    red, green, blue = data[bottom * 3:bottom * 3 + 3]
                    line.append(f"\x1b[48;2;{red};{green};{blue}m" + colored("▀", data, top))
                else:
                    line.append(" ▄▀█"[2 * (values[top] > 0.5) + (values[bottom] > 0.5)])
            else:
                code = 0
                for x, y, bit in BRAILLE:
                    if values[(4 * row + y) * width + 2 * column + x] > 0.5:
                        code |= bit
                line.append(chr(0x2800 + code))
        text = "".join(line)
        lines.append(text + "\x1b[0m" if arguments.color else text.rstrip())
    print("\n".join(lines))


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
