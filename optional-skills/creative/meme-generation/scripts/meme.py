#!/usr/bin/env python3
"""Writes captions on a picture the way memes have them: large white letters with a black edge. Needs Pillow."""
import argparse
import sys
from pathlib import Path

FONTS = (
    "Impact.ttf", "impact.ttf", "Anton-Regular.ttf", "LeagueGothic-Regular.ttf", "Oswald-Bold.ttf",
    "DejaVuSansCondensed-Bold.ttf", "LiberationSansNarrow-Bold.ttf", "Arial Bold.ttf", "arialbd.ttf", "DejaVuSans-Bold.ttf",
    "LiberationSans-Bold.ttf", "NotoSans-Bold.ttf",
)
FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "/Library/Fonts", "/System/Library/Fonts", "C:/Windows/Fonts")
MOST_SIDE = 2000


def fail(text):
    sys.exit(f"meme: {text}")


try:
    from PIL import Image, ImageDraw, ImageFont, ImageOps
except ImportError:
    Image = None


def find_font(given):
    """Returns the path of a font file, or None for the one inside Pillow."""
    if given:
        if not Path(given).is_file():
            fail(f"no such font file: {given}")
        return given
    found = {}
    for folder in FOLDERS:
        for path in Path(folder).rglob("*.[to]tf") if Path(folder).is_dir() else ():
            found.setdefault(path.name, str(path))
    return next((found[name] for name in FONTS if name in found), None)


def load(font, size):
    return ImageFont.truetype(font, size) if font else ImageFont.load_default(size)


def wrap(draw, text, font, width):
    """Returns lines that fit the width, or None if a single word does not."""
    lines = []
    for part in text.split("\n"):
        line = ""
        for word in part.split():
            longer = f"{line} {word}".strip()
            if draw.textlength(longer, font=font) <= width:
                line = longer
                continue
            if not line or draw.textlength(word, font=font) > width:
                return None
            lines.append(line)
            line = word
        lines.append(line)
    return lines


def place(draw, text, box, font_path, largest, align, fill, edge):
    """Draws a text into a box (left, top, right, bottom) as large as it fits."""
    left, top, right, bottom = box
    smallest = max(10, largest // 6)
    for size in range(largest, smallest - 1, -2):
        font = load(font_path, size)
        stroke = max(1, size // 14) if edge else 0
        height = int(size * 1.15)
        lines = wrap(draw, text, font, right - left - 2 * stroke)
        if lines and len(lines) * height <= bottom - top:
            break
    else:
        fail(f"the text is too long for its place: {text[:60]!r}")
    used = len(lines) * height
    y = {"top": top, "bottom": bottom - used, "middle": top + (bottom - top - used) // 2}[align]
    for line in lines:
        draw.text(((left + right) / 2, y), line, font=font, fill=fill, anchor="ma", stroke_width=stroke, stroke_fill=edge or fill)
        y += height


def caption_bar(image, text, font_path):
    """Returns the picture below a white bar with black text."""
    bar = max(60, image.height // 5)
    result = Image.new("RGB", (image.width, image.height + bar), "white")
    result.paste(image, (0, bar))
    margin = image.width // 40
    place(ImageDraw.Draw(result), text, (margin, margin // 2, image.width - margin, bar - margin // 2), font_path, bar // 2, "middle", "black", None)
    return result


def parse_box(text):
    """Reads `X,Y,WIDTH,HEIGHT:text` with parts of a hundred of the picture."""
    place_text, colon, words = text.partition(":")
    try:
        x, y, width, height = (float(part) for part in place_text.split(","))
    except ValueError:
        colon = ""
    if not colon or not words.strip():
        raise argparse.ArgumentTypeError("write X,Y,WIDTH,HEIGHT:text with percentages, for instance 50,0,50,50:hello")
    if min(x, y) < 0 or min(width, height) <= 0 or x + width > 100 or y + height > 100:
        raise argparse.ArgumentTypeError("the box must be inside the picture: percentages from 0 to 100")
    return (x, y, width, height), words


def panels(paths, columns):
    """Returns several pictures as one grid."""
    pictures = [opened(path) for path in paths]
    columns = min(columns, len(pictures))
    width = min(800, max(picture.width for picture in pictures))
    pictures = [ImageOps.contain(picture, (width, width * 2)) for picture in pictures]
    rows = [pictures[at : at + columns] for at in range(0, len(pictures), columns)]
    heights = [max(picture.height for picture in row) for row in rows]
    result = Image.new("RGB", (width * columns, sum(heights)), "white")
    y = 0
    for row, height in zip(rows, heights):
        for column, picture in enumerate(row):
            result.paste(picture, (column * width + (width - picture.width) // 2, y + (height - picture.height) // 2))
        y += height
    return result


def opened(path):
    try:
        with Image.open(path) as file:
            picture = ImageOps.exif_transpose(file).convert("RGBA")
    except (OSError, ValueError) as error:
        fail(f"cannot read {path}: {error}")
    white = Image.new("RGBA", picture.size, "white")
    picture = Image.alpha_composite(white, picture).convert("RGB")
    return ImageOps.contain(picture, (MOST_SIDE, MOST_SIDE)) if max(picture.size) > MOST_SIDE else picture


def main():
    parser = argparse.ArgumentParser(description=__doc__, epilog="Example: meme.py cat.jpg -o meme.png --top 'works on' --bottom 'my machine'")
    parser.add_argument("picture", nargs="+", help="picture; several become panels of one")
    parser.add_argument("-o", "--out", required=True, help="file to write: .png, .jpg or .webp")
    parser.add_argument("--top", help="text at the top")
    parser.add_argument("--bottom", help="text at the bottom")
    parser.add_argument("--bar", help="black text on a white bar above the picture")
    parser.add_argument("--box", action="append", type=parse_box, default=[], metavar="X,Y,W,H:TEXT", help="text in a part of the picture, in percent")
    parser.add_argument("--columns", type=int, default=1, help="panels beside each other (default: %(default)s)")
    parser.add_argument("--font", help="font file (default: Impact or the nearest that is installed)")
    parser.add_argument("--keep-case", action="store_true", help="do not write --top and --bottom in capitals")
    parser.add_argument("--color", default="white", help="color of the letters (default: %(default)s)")
    parser.add_argument("--force", action="store_true", help="replace the output file")
    arguments = parser.parse_args()
    if Image is None:
        fail("Pillow is missing: pip install pillow")
    out = Path(arguments.out)
    if out.suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp"):
        fail("the output must be .png, .jpg or .webp")
    if out.exists() and not arguments.force:
        fail(f"{out} exists; --force replaces it")
    if arguments.columns < 1:
        fail("--columns must be at least 1")
    image = panels(arguments.picture, arguments.columns) if len(arguments.picture) > 1 else opened(arguments.picture[0])
    font = find_font(arguments.font)
    draw = ImageDraw.Draw(image)
    margin = max(4, image.width // 50)
    largest = max(16, image.height // 7)
    case = (lambda text: text) if arguments.keep_case else str.upper
    for text, align in ((arguments.top, "top"), (arguments.bottom, "bottom")):
        if text:
            top = margin if align == "top" else image.height * 2 // 3
            box = (margin, top, image.width - margin, image.height // 3 if align == "top" else image.height - margin)
            place(draw, case(text.replace("\\n", "\n")), box, font, largest, align, arguments.color, "black")
    for (x, y, width, height), text in arguments.box:
        part = (image.width * x // 100, image.height * y // 100, image.width * (x + width) // 100, image.height * (y + height) // 100)
        place(draw, text.replace("\\n", "\n"), tuple(int(side) for side in part), font, largest, "middle", arguments.color, "black")
    if arguments.bar:
        image = caption_bar(image, arguments.bar.replace("\\n", "\n"), font)
    try:
        image.save(out, quality=92) if out.suffix.lower() != ".png" else image.save(out, optimize=True)
    except OSError as error:
        fail(f"cannot write {out}: {error}")
    print(f"{out}  {image.width}x{image.height}  font {font or 'of Pillow'}")


if __name__ == "__main__":
    main()
