#!/usr/bin/env python3
"""Checks a LaTeX paper: citations, references, labels, leftovers, figures, and signs of authorship."""
import argparse
import re
import sys
from collections import Counter
from pathlib import Path

CITE = re.compile(r"\\(?:[Cc]ite\w*|textcite|parencite|autocite|nocite)\*?(?:\[[^\]]*\]){0,2}\{([^}]+)\}")
REF = re.compile(r"\\(?:[Cc]?ref|autoref|eqref|pageref|[Cc]refrange|nameref)\*?\{([^}]+)\}")
LABEL = re.compile(r"\\label\{([^}]+)\}")
LEFTOVERS = re.compile(r"\\todo\b|\bTODO\b|\bFIXME\b|\bXXX\b|\?\?|lorem ipsum|citation needed", re.IGNORECASE)
AUTHOR_SIGNS = [
    (re.compile(r"github\.com/(?!anonymous)[\w-]+/[\w-]+|gitlab\.com/[\w-]+", re.IGNORECASE), "link to a repository"),
    (re.compile(r"(/home/|/Users/|C:\\Users)\w+"), "path with a user name"),
    (re.compile(r"\b(our|my) (previous|earlier|prior) (work|paper|study)\b", re.IGNORECASE), "own work cited in the first person"),
    (re.compile(r"^\s*\\(section\*?|acks|begin)\{?\s*acknowledge?ments?", re.IGNORECASE), "acknowledgements"),
    (re.compile(r"[\w.+-]+@[\w-]+\.(edu|com|org|ac\.\w+|de|fr|ch)\b"), "mail address"),
]


def without_comments(text):
    return "\n".join(re.sub(r"(?<!\\)%.*", "", line) for line in text.split("\n"))


def collect(path, seen, problems):
    """Returns (file, line number, line) of a file and everything it inputs."""
    path = path.resolve()
    if path in seen:
        return []
    seen.add(path)
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        problems.append(("error", f"{path.name}: cannot be read: {error.strerror}"))
        return []
    lines = []
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        lines.append((path, number, line))
        for name in re.findall(r"\\(?:input|include|subfile)\{([^}]+)\}", line):
            child = path.parent / name
            if not child.is_file():
                child = path.parent / (name + ".tex")
            if not child.is_file() and len(seen) > 1:
                child = next(iter(seen)).parent / (name if name.endswith(".tex") else name + ".tex")
            lines += collect(child, seen, problems)
    return lines


def bib_entries(paths, problems):
    keys, entries = [], {}
    for path in paths:
        if not path.is_file():
            problems.append(("error", f"{path.name}: the bibliography does not exist"))
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for match in re.finditer(r"@(\w+)\s*\{\s*([^,\s]+)\s*,(.*?)(?=\n@|\Z)", text, re.DOTALL):
            kind, key, body = match.groups()
            if kind.lower() in ("string", "comment", "preamble"):
                continue
            keys.append(key)
            entries[key] = {name.lower() for name in re.findall(r"^\s*(\w+)\s*=", body, re.MULTILINE)}
    for key, count in Counter(keys).items():
        if count > 1:
            problems.append(("error", f"bibliography: `{key}` occurs {count} times"))
    return entries


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("main", type=Path, help="main .tex file")
    parser.add_argument("--bib", type=Path, action="append", default=[], help="bibliography; found in the text if omitted")
    parser.add_argument("--anonymous", action="store_true", help="also look for signs of authorship")
    arguments = parser.parse_args()
    if not arguments.main.is_file():
        sys.exit(f"check_paper: {arguments.main} does not exist")
    problems, seen = [], set()
    lines = collect(arguments.main, seen, problems)
    text = "\n".join(line for _, _, line in lines)
    folder = arguments.main.resolve().parent

    bibs = arguments.bib or [
        folder / (name.strip() if name.strip().endswith(".bib") else name.strip() + ".bib")
        for group in re.findall(r"\\(?:bibliography|addbibresource)\{([^}]+)\}", text) for name in group.split(",")]
    entries = bib_entries(bibs, problems)
    cited = {key.strip() for group in CITE.findall(text) for key in group.split(",") if key.strip() != "*"}
    inline = set(re.findall(r"\\bibitem(?:\[[^\]]*\])?\{([^}]+)\}", text))
    for key in sorted(cited - set(entries) - inline):
        problems.append(("error", f"citation `{key}` is not in the bibliography"))
    for key in sorted(cited & set(entries)):
        missing = {"title", "author", "year"} - entries[key]
        if "date" in entries[key]:
            missing.discard("year")
        if "editor" in entries[key]:
            missing.discard("author")
        if missing:
            problems.append(("warning", f"bibliography: `{key}` has no {', '.join(sorted(missing))}"))

    labels = Counter(LABEL.findall(text))
    referenced = {key.strip() for group in REF.findall(text) for key in group.split(",")}
    for key in sorted(referenced - set(labels)):
        problems.append(("error", f"reference to `{key}`, which has no label"))
    for key, count in labels.items():
        if count > 1:
            problems.append(("error", f"label `{key}` occurs {count} times"))
        if re.match(r"(fig|tab|alg)", key) and key not in referenced:
            problems.append(("warning", f"`{key}` is never mentioned in the text"))
    for name in re.findall(r"\\includegraphics(?:\[[^\]]*\])?\{([^}]+)\}", text):
        if "\\" not in name and not any((folder / (name + suffix)).is_file() for suffix in ("", ".pdf", ".png", ".jpg", ".eps")):
            if not re.search(r"\\graphicspath", text):
                problems.append(("error", f"figure `{name}` does not exist"))
    for path, number, line in lines:
        place = f"{path.name}:{number}"
        if LEFTOVERS.search(line) and "\\newcommand" not in line:
            problems.append(("warning", f"{place}: leftover: {line.strip()[:70]}"))
        double = re.search(r"\b(\w{2,}) \1\b", line)
        if double and not re.search(r"\\", line) and double.group(1).lower() not in ("that", "had"):
            problems.append(("warning", f"{place}: repeated word `{double.group(1)}`"))
        if arguments.anonymous:
            for pattern, what in AUTHOR_SIGNS:
                if pattern.search(line):
                    problems.append(("warning", f"{place}: {what}: {line.strip()[:70]}"))
    unused = len(set(entries) - cited)
    for kind, problem in sorted(problems):
        print(f"{kind}: {problem}")
    errors = sum(kind == "error" for kind, _ in problems)
    words = len(re.findall(r"[A-Za-z]{2,}", re.sub(r"\\[A-Za-z]+|\$[^$]*\$", " ", text)))
    print(f"{len(seen)} files, about {words} words, {len(cited)} citations, {unused} unused entries, {errors} errors, {len(problems) - errors} warnings")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
