#!/usr/bin/env python3
"""Extracts text from PDF, pictures, Office and OpenDocument files, EPUB, e-mail and HTML.

Uses pdftotext or pypdf for PDF and tesseract for pictures and scans; all other kinds need only Python.
"""
import argparse
import csv
import email
import email.policy
import html
import importlib.util
import io
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
import zipfile
from datetime import datetime, timedelta
from pathlib import Path

PICTURES = {".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp"}
MOST_BYTES = 300_000_000
DATE_FORMATS = {14, 15, 16, 17, 22}


class Problem(Exception):
    """Why a file cannot be read, for the user."""


def local(element):
    return element.tag.rsplit("}", 1)[-1] if isinstance(element.tag, str) else ""


def attribute(element, name):
    return next((value for key, value in element.attrib.items() if key.rsplit("}", 1)[-1] == name), None)


def part(archive, name):
    """Returns an XML part of an archive."""
    try:
        info = archive.getinfo(name)
    except KeyError as error:
        raise Problem(f"it has no part {name}") from error
    if info.file_size > MOST_BYTES:
        raise Problem(f"{name} is too large")
    data = archive.read(name)
    if b"<!ENTITY" in data[:5000]:
        raise Problem(f"{name} declares entities")
    try:
        return ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise Problem(f"{name} is damaged: {error}") from error


def word_text(paragraph):
    pieces = []
    for element in paragraph.iter():
        name = local(element)
        if name == "t":
            pieces.append(element.text or "")
        elif name == "tab":
            pieces.append("\t")
        elif name in ("br", "cr"):
            pieces.append("\n")
    return "".join(pieces)


def word_blocks(body):
    for element in body:
        name = local(element)
        if name == "p":
            style = next((attribute(one, "val") or "" for one in element.iter() if local(one) == "pStyle"), "")
            level = re.search(r"(?:Heading|berschrift|Titre)\s*(\d)", style)
            listed = "List" in style or any(local(one) == "numPr" for one in element.iter())
            text = word_text(element)
            if text.strip():
                yield ("#" * int(level.group(1)) + " " if level else "- " if listed else "") + text
        elif name == "tbl":
            for row in element.iter():
                if local(row) == "tr":
                    cells = [" ".join(word_text(cell).split()) for cell in row if local(cell) == "tc"]
                    yield "| " + " | ".join(cells) + " |"
        elif name in ("sdt", "sdtContent", "ins", "body"):
            yield from word_blocks(element)


def docx(archive, options):
    lines = list(word_blocks(part(archive, "word/document.xml")))
    for kind in ("footnotes", "comments"):
        name = f"word/{kind}.xml"
        if name in archive.namelist() and (kind != "comments" or options.comments):
            for note in part(archive, name):
                text = word_text(note).strip()
                if text:
                    lines.append(f"[{kind[:-1]} {attribute(note, 'id')}] {text}")
    return "\n".join(lines)


def numbered(archive, pattern):
    found = [(int(match.group(1)), name) for name in archive.namelist() for match in [re.fullmatch(pattern, name)] if match]
    return [name for _, name in sorted(found)]


def drawing_paragraphs(root):
    for element in root.iter():
        if local(element) == "p":
            text = "".join((one.text or "") if local(one) == "t" else "\n" for one in element.iter() if local(one) in ("t", "br"))
            if text.strip():
                yield text


def pptx(archive, options):
    lines = []
    for number, name in enumerate(numbered(archive, r"ppt/slides/slide(\d+)\.xml"), 1):
        lines.append(f"=== page {number}")
        lines += drawing_paragraphs(part(archive, name))
        notes = name.replace("slides/slide", "notesSlides/notesSlide")
        if notes in archive.namelist():
            texts = [text for text in drawing_paragraphs(part(archive, notes)) if not text.strip().isdigit()]
            if texts:
                lines.append("[notes] " + " ".join(texts))
    return "\n".join(lines)


def excel_date(text):
    try:
        moment = datetime(1899, 12, 30) + timedelta(days=float(text))
    except (ValueError, OverflowError):
        return text
    return moment.date().isoformat() if moment.time() == moment.time().min else moment.isoformat(sep=" ", timespec="minutes")


def date_styles(archive):
    if "xl/styles.xml" not in archive.namelist():
        return set()
    root = part(archive, "xl/styles.xml")
    own = {int(one.get("numFmtId")): one.get("formatCode", "") for one in root.iter() if local(one) == "numFmt"}
    formats = next((one for one in root if local(one) == "cellXfs"), [])
    result = set()
    for index, style in enumerate(formats):
        number = int(style.get("numFmtId", 0))
        code = re.sub(r'"[^"]*"|\[[^\]]*\]', "", own.get(number, ""))
        if number in DATE_FORMATS or (re.search(r"[dy]", code, re.IGNORECASE) and not re.search(r"[#0]", code)):
            result.add(index)
    return result


def xlsx(archive, options):
    shared = []
    if "xl/sharedStrings.xml" in archive.namelist():
        for item in part(archive, "xl/sharedStrings.xml"):
            shared.append("".join(one.text or "" for one in item.iter() if local(one) == "t"))
    targets = {attribute(one, "Id"): attribute(one, "Target") for one in part(archive, "xl/_rels/workbook.xml.rels")}
    dates, output = date_styles(archive), io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    names = []
    for sheet in part(archive, "xl/workbook.xml").iter():
        if local(sheet) != "sheet":
            continue
        name = sheet.get("name", "")
        names.append(name)
        if options.sheet and name != options.sheet:
            continue
        target = targets.get(attribute(sheet, "id"), "")
        path = target.lstrip("/") if target.startswith("/") else posixpath.normpath("xl/" + target)
        if options.format == "text":
            output.write(f"=== sheet {name}\n")
        for row in part(archive, path).iter():
            if local(row) != "row":
                continue
            values = []
            for cell in row:
                letters = re.match(r"[A-Z]+", cell.get("r", ""))
                column = 0
                for letter in letters.group(0) if letters else "":
                    column = column * 26 + ord(letter) - 64
                while column and len(values) < column - 1:
                    values.append("")
                kind, children = cell.get("t", "n"), {local(child): child for child in cell}
                text = children["v"].text if "v" in children and children["v"].text else ""
                if kind == "s" and text:
                    text = shared[int(text)]
                elif kind == "inlineStr":
                    text = "".join(one.text or "" for one in cell.iter() if local(one) == "t")
                elif kind == "b":
                    text = "TRUE" if text == "1" else "FALSE"
                elif kind == "n" and text and int(cell.get("s", -1)) in dates:
                    text = excel_date(text)
                if not text and "f" in children:
                    text = "=" + (children["f"].text or "")
                values.append(text)
            if any(values):
                if options.format == "csv":
                    writer.writerow(values)
                else:
                    output.write(" | ".join(values) + "\n")
    if options.sheet and options.sheet not in names:
        raise Problem(f"there is no sheet `{options.sheet}`; there are: {', '.join(names)}")
    return output.getvalue().rstrip("\n")


def opendocument(archive, options):
    lines = []
    for element in part(archive, "content.xml").iter():
        name = local(element)
        if name == "table-row":
            lines.append("| " + " | ".join(" ".join("".join(cell.itertext()).split()) for cell in element if local(cell) == "table-cell") + " |")
        elif name == "h":
            lines.append("#" * int(attribute(element, "outline-level") or 1) + " " + "".join(element.itertext()))
        elif name == "p":
            text = "".join(element.itertext()).strip()
            if text and not (lines and text in lines[-1] and lines[-1].startswith("|")):
                lines.append(text)
        elif name == "page":
            lines.append(f"=== page {1 + sum(line.startswith('=== page') for line in lines)}")
    return "\n".join(lines)


def html_text(text):
    text = re.sub(r"(?is)<(script|style|head|svg).*?</\1>|<!--.*?-->", " ", text)
    text = re.sub(r"(?i)<h([1-6])[^>]*>", lambda match: "\n" + "#" * int(match.group(1)) + " ", text)
    text = re.sub(r"(?i)<li[^>]*>", "\n- ", text)
    text = re.sub(r"(?i)<(br|/p|/div|/h[1-6]|/tr|/table|/section)[^>]*>", "\n", text)
    text = re.sub(r"(?i)</t[dh]>", " | ", text)
    text = html.unescape(re.sub(r"<[^>]+>", "", text))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(" ".join(line.split()) for line in text.split("\n"))).strip()


def epub(archive, options):
    container = part(archive, "META-INF/container.xml")
    package = next((one.get("full-path") for one in container.iter() if local(one) == "rootfile"), None)
    if not package:
        raise Problem("it names no package")
    root = part(archive, package)
    items = {one.get("id"): one.get("href") for one in root.iter() if local(one) == "item"}
    texts = []
    for reference in root.iter():
        if local(reference) == "itemref" and items.get(reference.get("idref")):
            name = posixpath.normpath(posixpath.join(posixpath.dirname(package), items[reference.get("idref")]))
            if name in archive.namelist():
                texts.append(html_text(archive.read(name).decode("utf-8", "replace")))
    return "\n\n".join(filter(None, texts))


def mail(path):
    message = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    head = "\n".join(f"{name}: {message[name]}" for name in ("From", "To", "Cc", "Date", "Subject") if message[name])
    body = message.get_body(preferencelist=("plain", "html"))
    text = body.get_content() if body else ""
    if body and body.get_content_type() == "text/html":
        text = html_text(text)
    files = [one.get_filename() for one in message.iter_attachments() if one.get_filename()]
    return head + (f"\nAttachments: {', '.join(files)}" if files else "") + "\n\n" + text


def run(command, what):
    try:
        done = subprocess.run(command, capture_output=True, timeout=1800)
    except subprocess.TimeoutExpired as error:
        raise Problem(f"{what} took more than half an hour") from error
    if done.returncode != 0:
        raise Problem(f"{what} failed: {done.stderr.decode('utf-8', 'replace').strip()[-300:]}")
    return done.stdout.decode("utf-8", "replace")


def page_range(text):
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text or "")
    if text and (not match or int(match.group(1)) < 1):
        raise Problem("--pages must be N or N-M")
    return (int(match.group(1)), int(match.group(2) or match.group(1))) if match else (1, None)


def recognize(picture, options):
    if not shutil.which("tesseract"):
        raise Problem("tesseract is not installed (package tesseract-ocr); vision_analyze can read single pictures")
    command = ["tesseract", str(picture), "-", "-l", options.language]
    if options.psm is not None:
        command += ["--psm", str(options.psm)]
    return run(command, "tesseract").strip()


def pdf(path, options):
    first, last = page_range(options.pages)
    if options.ocr:
        if not shutil.which("pdftoppm"):
            raise Problem("pdftoppm is not installed (package poppler-utils)")
        with tempfile.TemporaryDirectory() as folder:
            command = ["pdftoppm", "-r", "300", "-gray", "-png", "-f", str(first)] + (["-l", str(last)] if last else [])
            run(command + [str(path), f"{folder}/page"], "pdftoppm")
            pictures = sorted(Path(folder).glob("page*.png"))
            return [(int(re.search(r"(\d+)\.png$", one.name).group(1)), recognize(one, options)) for one in pictures]
    if shutil.which("pdftotext"):
        command = ["pdftotext", "-enc", "UTF-8", "-f", str(first)] + (["-l", str(last)] if last else []) + (["-layout"] if options.layout else [])
        texts = run(command + [str(path), "-"], "pdftotext").split("\f")
        texts = texts[:-1] if texts and not texts[-1].strip() else texts
        return [(first + number, text.strip()) for number, text in enumerate(texts)]
    if importlib.util.find_spec("pypdf"):
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
        try:
            pages = PdfReader(str(path)).pages
            chosen = range(first - 1, min(last or len(pages), len(pages)))
            return [(number + 1, (pages[number].extract_text() or "").strip()) for number in chosen]
        except PyPdfError as error:
            raise Problem(f"pypdf cannot read it: {error}") from error
    raise Problem("neither pdftotext (package poppler-utils) nor the Python package pypdf is installed")


def extract(path, options):
    """Returns the text of a file and, for PDF, the number of pages."""
    suffix = path.suffix.lower()
    if suffix == ".pdf":
        pages = pdf(path, options)
        return "\n\n".join(f"=== page {number}\n{text}" for number, text in pages), len(pages)
    if suffix in PICTURES:
        return recognize(path, options), 1
    archives = {".docx": docx, ".docm": docx, ".pptx": pptx, ".xlsx": xlsx, ".xlsm": xlsx, ".odt": opendocument, ".ods": opendocument, ".odp": opendocument, ".epub": epub}
    if suffix in archives:
        try:
            with zipfile.ZipFile(path) as archive:
                return archives[suffix](archive, options), None
        except zipfile.BadZipFile as error:
            raise Problem("it is damaged or encrypted") from error
    if suffix == ".eml":
        return mail(path), None
    if suffix in (".html", ".htm", ".xhtml"):
        return html_text(path.read_text(encoding="utf-8", errors="replace")), None
    if suffix in (".doc", ".xls", ".ppt", ".rtf"):
        raise Problem(f"convert it first: soffice --headless --convert-to {suffix[1:] + 'x' if suffix != '.rtf' else 'docx'} FILE")
    raise Problem(f"unknown kind `{suffix}`")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--pages", help="pages of a PDF: 3 or 3-7")
    parser.add_argument("--ocr", action="store_true", help="recognize the text of a PDF from its pictures")
    parser.add_argument("--language", default="eng", help="languages of tesseract, such as deu+eng (default: %(default)s)")
    parser.add_argument("--psm", type=int, help="page segmentation mode of tesseract")
    parser.add_argument("--layout", action="store_true", help="keep the positions of a PDF instead of the reading order")
    parser.add_argument("--sheet", help="only this sheet")
    parser.add_argument("--format", choices=["text", "csv"], default="text", help="form of tables")
    parser.add_argument("--comments", action="store_true", help="print comments of .docx")
    parser.add_argument("--tools", action="store_true", help="show which programs are available")
    options = parser.parse_args()
    if options.tools:
        for name in ("pdftotext", "pdftoppm", "tesseract", "ocrmypdf", "soffice"):
            print(f"{name}: {shutil.which(name) or 'missing'}")
        for name in ("pypdf", "pdfplumber", "pymupdf4llm"):
            print(f"{name}: {'available' if importlib.util.find_spec(name) else 'missing'} (Python package)")
        return
    if not options.files:
        parser.error("a file is needed")
    failed = False
    for path in options.files:
        try:
            if not path.is_file():
                raise Problem("it does not exist")
            text, pages = extract(path, options)
        except (Problem, OSError) as problem:
            print(f"extract_text: {path}: {problem}", file=sys.stderr)
            failed = True
            continue
        if len(options.files) > 1:
            print(f"##### {path}")
        print(text)
        words = len(text.split())
        average = f", {words // max(1, pages)} words per page" if pages else ""
        hint = "; few words: try --ocr" if pages and path.suffix.lower() == ".pdf" and words / max(1, pages) < 20 and not options.ocr else ""
        print(f"extract_text: {path}: {words} words{average}{hint}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
