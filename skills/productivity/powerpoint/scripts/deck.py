#!/usr/bin/env python3
"""Shows, builds and changes .pptx files. Needs the package python-pptx, except for --help."""
import argparse
import re
import sys
from pathlib import Path


def fail(text):
    sys.exit(f"deck: {text}")


def presentation(path=None):
    try:
        from pptx import Presentation
    except ImportError:
        fail(f"{sys.executable} has no python-pptx; install it: {sys.executable} -m pip install python-pptx")
    try:
        return Presentation(str(path)) if path else Presentation()
    except Exception as error:
        fail(f"cannot open {path}: {error}")


def parse_outline(text):
    """Returns the title slide and the slides of a Markdown outline."""
    title, slides, current = {"title": "", "subtitle": []}, [], None
    for number, line in enumerate(text.split("\n"), 1):
        head = re.match(r"(#{1,2})\s+(.+)", line)
        if head and len(head.group(1)) == 1:
            if title["title"]:
                fail(f"line {number}: a second title slide")
            title["title"] = head.group(2).strip()
        elif head:
            current = {"title": head.group(2).strip(), "bullets": [], "table": [], "picture": None, "notes": []}
            slides.append(current)
        elif not line.strip():
            continue
        elif current is None:
            title["subtitle"].append(line.strip())
        elif line.startswith(">"):
            current["notes"].append(line.lstrip("> ").strip())
        elif line.lstrip().startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
                current["table"].append(cells)
        elif re.match(r"\s*!\[", line):
            match = re.match(r"\s*!\[([^\]]*)\]\(([^)]+)\)", line)
            if not match:
                fail(f"line {number}: a picture is written ![text](file.png)")
            current["picture"] = (match.group(2), match.group(1))
        else:
            bullet = re.match(r"(\s*)[-*]\s+(.+)", line)
            level = min(4, len(bullet.group(1)) // 2) if bullet else 0
            current["bullets"].append((level, (bullet.group(2) if bullet else line).strip()))
    return title, slides


def layout(deck, wanted, fallback):
    if wanted is not None:
        for index, one in enumerate(deck.slide_layouts):
            if wanted == one.name or wanted == str(index):
                return one
        fail(f"there is no layout `{wanted}`; `layouts` lists them")
    return deck.slide_layouts[min(fallback, len(deck.slide_layouts) - 1)]


def body_of(slide):
    """Returns the first placeholder for text besides the title."""
    for shape in slide.placeholders:
        if shape.placeholder_format.idx != 0 and shape.has_text_frame and shape.placeholder_format.type not in (13, 15, 16):
            return shape
    return None


def add_runs(paragraph, text):
    for piece in filter(None, re.split(r"(\*\*[^*]+\*\*)", text)):
        run = paragraph.add_run()
        run.text = piece[2:-2] if piece.startswith("**") and piece.endswith("**") and len(piece) > 4 else piece
        run.font.bold = True if run.text != piece else None


def build(arguments):
    outline = Path(arguments.outline)
    try:
        title, slides = parse_outline(outline.read_text(encoding="utf-8"))
    except OSError as error:
        fail(f"cannot read {outline}: {error.strerror}")
    from_template = arguments.template is not None
    deck = presentation(arguments.template)
    from pptx.util import Emu, Inches, Pt
    if from_template:
        identities = deck.slides._sldIdLst
        for identity in list(identities):
            deck.part.drop_rel(identity.rId)
            identities.remove(identity)
    warnings = []
    if title["title"]:
        slide = deck.slides.add_slide(layout(deck, arguments.title_layout, 0))
        if slide.shapes.title is not None:
            slide.shapes.title.text = title["title"]
        body = body_of(slide)
        if body is not None:
            body.text_frame.text = "\n".join(title["subtitle"])
    for number, content in enumerate(slides, 1 + bool(title["title"])):
        slide = deck.slides.add_slide(layout(deck, arguments.body_layout, 1))
        if slide.shapes.title is None:
            fail("the layout has no title; choose another one with --body-layout")
        slide.shapes.title.text = content["title"]
        body = body_of(slide)
        if body is None and content["bullets"]:
            fail("the layout has no placeholder for text; choose another one with --body-layout")
        left, top, width, height = (body.left, body.top, body.width, body.height) if body is not None else (
            Inches(0.5), Inches(1.6), deck.slide_width - Inches(1), deck.slide_height - Inches(2))
        extras = bool(content["picture"]) + bool(content["table"])
        if extras and content["bullets"]:
            half = Emu(int(width / 2) - Inches(0.1))
            body.left, body.top, body.width, body.height = left, top, half, height
            left, width = Emu(left + half + Inches(0.2)), half
        for index, (level, text) in enumerate(content["bullets"]):
            frame = body.text_frame
            paragraph = frame.paragraphs[0] if index == 0 else frame.add_paragraph()
            paragraph.level = level
            add_runs(paragraph, text)
            if len(text) > 90:
                warnings.append(f"slide {number}: a bullet of {len(text)} characters")
        if len(content["bullets"]) > 7:
            warnings.append(f"slide {number}: {len(content['bullets'])} bullets")
        if content["table"]:
            rows, columns = len(content["table"]), max(len(row) for row in content["table"])
            table_height = min(height if not content["picture"] else Emu(int(height / 2)), Inches(0.45) * rows)
            table = slide.shapes.add_table(rows, columns, left, top, width, table_height).table
            for row, cells in enumerate(content["table"]):
                for column, text in enumerate(cells):
                    cell = table.cell(row, column)
                    cell.text = text.replace("**", "")
                    for paragraph in cell.text_frame.paragraphs:
                        for run in paragraph.runs:
                            run.font.size = Pt(16)
            top, height = Emu(top + table_height + Inches(0.2)), Emu(height - table_height - Inches(0.2))
        if content["picture"]:
            name, about = content["picture"]
            path = outline.parent / name
            if not path.is_file():
                fail(f"slide {number}: {path} does not exist")
            picture = slide.shapes.add_picture(str(path), left, top)
            scale = min(width / picture.width, height / picture.height)
            picture.width, picture.height = Emu(int(picture.width * scale)), Emu(int(picture.height * scale))
            picture.left = Emu(int(left + (width - picture.width) / 2))
            picture._element.nvPicPr.cNvPr.set("descr", about)
        if content["notes"]:
            slide.notes_slide.notes_text_frame.text = "\n".join(content["notes"])
        for shape in list(slide.placeholders):
            if shape.placeholder_format.idx != 0 and shape.has_text_frame and not shape.text_frame.text.strip():
                shape._element.getparent().remove(shape._element)
    deck.save(str(arguments.target))
    for warning in warnings:
        print(f"warning: {warning}")
    print(f"{arguments.target}: {len(deck.slides)} slides")


def paragraphs_of(shapes):
    for shape in shapes:
        if shape.shape_type == 6:
            yield from paragraphs_of(shape.shapes)
        elif shape.has_text_frame:
            yield from shape.text_frame.paragraphs
        elif getattr(shape, "has_table", False) and shape.has_table:
            for row in shape.table.rows:
                for cell in row.cells:
                    yield from cell.text_frame.paragraphs


def replace(arguments):
    pairs = []
    for pair in arguments.text:
        old, separator, new = pair.partition("=")
        if not old or not separator:
            fail(f"`{pair}` is not OLD=NEW")
        pairs.append((old, new))
    deck = presentation(arguments.deck)
    counts = {old: 0 for old, _ in pairs}
    for slide in deck.slides:
        groups = [slide.shapes]
        if slide.has_notes_slide:
            groups.append(slide.notes_slide.shapes)
        for paragraph in (one for shapes in groups for one in paragraphs_of(shapes)):
            for old, new in pairs:
                runs = paragraph.runs
                whole = "".join(run.text for run in runs)
                if old not in whole:
                    continue
                counts[old] += whole.count(old)
                inside = sum(run.text.count(old) for run in runs)
                if inside == whole.count(old):
                    for run in runs:
                        run.text = run.text.replace(old, new)
                else:
                    runs[0].text = whole.replace(old, new)
                    for run in runs[1:]:
                        run._r.getparent().remove(run._r)
    deck.save(str(arguments.target))
    for old, count in counts.items():
        print(f"{old}: {count} replaced")
    if not all(counts.values()):
        sys.exit(1)


def inspect(arguments):
    deck = presentation(arguments.deck)
    print(f"{arguments.deck}: {len(deck.slides)} slides, {deck.slide_width / 914400:.2f} x {deck.slide_height / 914400:.2f} inches")
    for number, slide in enumerate(deck.slides, 1):
        title = slide.shapes.title.text_frame.text if slide.shapes.title is not None else "(no title)"
        print(f"=== {number}. {title}  [{slide.slide_layout.name}]")
        for shape in slide.shapes:
            kind = str(shape.shape_type).split(" ")[0].lower() if shape.shape_type is not None else "shape"
            text = " / ".join(one.text for one in shape.text_frame.paragraphs if one.text) if shape.has_text_frame else ""
            if shape != slide.shapes.title and not (slide.shapes.title is not None and shape.shape_id == slide.shapes.title.shape_id):
                print(f"  {kind} `{shape.name}`: {text[:300]}")
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame.text.strip():
            print(f"  [notes] {slide.notes_slide.notes_text_frame.text.strip()[:300]}")


def layouts(arguments):
    deck = presentation(arguments.deck)
    for index, one in enumerate(deck.slide_layouts):
        print(f"{index}  {one.name}: " + ", ".join(f"{shape.placeholder_format.idx} {str(shape.placeholder_format.type).split(' ')[0]}" for shape in one.placeholders))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in (("inspect", inspect), ("layouts", layouts)):
        one = commands.add_parser(name)
        one.add_argument("deck", type=Path)
        one.set_defaults(function=function)
    builder = commands.add_parser("build", help="Markdown outline to a deck")
    builder.add_argument("outline")
    builder.add_argument("target", type=Path)
    builder.add_argument("--template", type=Path)
    builder.add_argument("--title-layout", help="name or index")
    builder.add_argument("--body-layout", help="name or index")
    builder.set_defaults(function=build)
    changer = commands.add_parser("replace", help="replace text on all slides")
    changer.add_argument("deck", type=Path)
    changer.add_argument("target", type=Path)
    changer.add_argument("--text", action="append", required=True, metavar="OLD=NEW")
    changer.set_defaults(function=replace)
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
