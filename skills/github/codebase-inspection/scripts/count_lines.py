#!/usr/bin/env python3
"""Counts code, comment and blank lines by language, in files that git tracks (or in all files outside a repository)."""
import argparse
import fnmatch
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

# suffix: (language, line comment marks, (block start, block end) or None)
C_BLOCK = ("/*", "*/")
LANGUAGES = {}


def language(name, suffixes, marks=(), block=None):
    for suffix in suffixes.split():
        LANGUAGES[suffix] = (name, tuple(marks), block)


language("Rust", ".rs", ["//"], C_BLOCK)
language("C", ".c .h", ["//"], C_BLOCK)
language("C++", ".cc .cpp .cxx .hh .hpp .hxx", ["//"], C_BLOCK)
language("C#", ".cs", ["//"], C_BLOCK)
language("Java", ".java", ["//"], C_BLOCK)
language("Kotlin", ".kt .kts", ["//"], C_BLOCK)
language("Scala", ".scala", ["//"], C_BLOCK)
language("Swift", ".swift", ["//"], C_BLOCK)
language("Objective-C", ".m .mm", ["//"], C_BLOCK)
language("Go", ".go", ["//"], C_BLOCK)
language("Zig", ".zig", ["//"])
language("Dart", ".dart", ["//"], C_BLOCK)
language("JavaScript", ".js .mjs .cjs .jsx", ["//"], C_BLOCK)
language("TypeScript", ".ts .tsx .mts .cts", ["//"], C_BLOCK)
language("Vue", ".vue", ["//"], ("<!--", "-->"))
language("Svelte", ".svelte", ["//"], ("<!--", "-->"))
language("CSS", ".css .scss .sass .less", ["//"], C_BLOCK)
language("HTML", ".html .htm", [], ("<!--", "-->"))
language("XML", ".xml .xsd .xsl", [], ("<!--", "-->"))
language("PHP", ".php", ["//", "#"], C_BLOCK)
language("Python", ".py .pyi", ["#"])
language("Ruby", ".rb .rake", ["#"])
language("Perl", ".pl .pm", ["#"])
language("R", ".r .R", ["#"])
language("Julia", ".jl", ["#"])
language("Elixir", ".ex .exs", ["#"])
language("Erlang", ".erl .hrl", ["%"])
language("Haskell", ".hs", ["--"], ("{-", "-}"))
language("OCaml", ".ml .mli", [], ("(*", "*)"))
language("Clojure", ".clj .cljs .cljc", [";"])
language("Lisp", ".lisp .el", [";"])
language("Lua", ".lua", ["--"])
language("Shell", ".sh .bash .zsh .fish", ["#"])
language("PowerShell", ".ps1", ["#"], ("<#", "#>"))
language("SQL", ".sql", ["--"], C_BLOCK)
language("Protocol Buffers", ".proto", ["//"], C_BLOCK)
language("Terraform", ".tf", ["#", "//"], C_BLOCK)
language("Nix", ".nix", ["#"], C_BLOCK)
language("YAML", ".yml .yaml", ["#"])
language("TOML", ".toml", ["#"])
language("TeX", ".tex .sty", ["%"])
language("Markdown", ".md .mdx .rst .adoc")
language("JSON", ".json .jsonl .ipynb")
language("CSV", ".csv .tsv")
language("SVG", ".svg")
BY_NAME = {"Makefile": ("Make", ("#",), None), "Dockerfile": ("Docker", ("#",), None), "CMakeLists.txt": ("CMake", ("#",), None)}
EXCLUDED = ["*.min.js", "*.min.css", "*.lock", "package-lock.json", "pnpm-lock.yaml", "go.sum", "*.snap", "*_pb2.py", "*.pb.go"]
EXCLUDED_FOLDERS = {"node_modules", "vendor", "dist", "build", "target", ".venv", "venv", "__pycache__", ".git"}
MOST_BYTES = 5_000_000


def git(folder, *words, **options):
    return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, **options)


def list_files(folder):
    """Returns the files below the folder and a note on how they were found."""
    try:
        listed = git(folder, "ls-files", "-z")
    except FileNotFoundError:
        listed = None
    if listed is None or listed.returncode != 0:
        return [path for path in folder.rglob("*") if path.is_file()], "all files (not a git repository)"
    names = [name for name in listed.stdout.split("\0") if name]
    marked = set()
    checked = git(folder, "check-attr", "--stdin", "-z", "linguist-generated", "linguist-vendored", input="\0".join(names))
    if checked.returncode == 0:
        words = checked.stdout.split("\0")
        for name, _, value in zip(words[0::3], words[1::3], words[2::3]):
            if value in ("set", "true"):
                marked.add(name)
    return [folder / name for name in names if name not in marked], "files tracked by git"


def language_of(path):
    found = BY_NAME.get(path.name) or LANGUAGES.get(path.suffix) or LANGUAGES.get(path.suffix.lower())
    if found or path.suffix:
        return found
    try:
        with path.open("rb") as file:
            first = file.readline(200)
    except OSError:
        return None
    if first.startswith(b"#!"):
        for word, suffix in ((b"python", ".py"), (b"node", ".js"), (b"ruby", ".rb"), (b"perl", ".pl"), (b"sh", ".sh")):
            if word in first:
                return LANGUAGES[suffix]
    return None


def count(path, marks, block):
    """Returns (code, comment, blank), or None for a binary or unreadable file."""
    try:
        if path.stat().st_size > MOST_BYTES:
            return None
        data = path.read_bytes()
    except OSError:
        return None
    if b"\0" in data[:8000]:
        return None
    code = comment = blank = 0
    inside = False
    for line in data.decode("utf-8", "replace").splitlines():
        text = line.strip()
        if not text:
            blank += 1
        elif inside:
            comment += 1
            inside = block[1] not in text
        elif block and text.startswith(block[0]):
            comment += 1
            inside = block[1] not in text[len(block[0]):]
        elif marks and text.startswith(marks):
            comment += 1
        else:
            code += 1
    return code, comment, blank


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default=".", type=Path)
    parser.add_argument("--exclude", action="append", default=[], metavar="PATTERN", help="leave out paths like this; repeatable")
    parser.add_argument("--files", type=int, default=0, metavar="N", help="also list the N files with most code")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        parser.error(f"{arguments.folder} is not a folder")
    files, how = list_files(arguments.folder)
    totals = defaultdict(lambda: [0, 0, 0, 0])
    single, skipped = [], 0
    for path in files:
        relative = path.relative_to(arguments.folder).as_posix()
        patterns = EXCLUDED + arguments.exclude
        if EXCLUDED_FOLDERS & set(relative.split("/")[:-1]) or any(
            fnmatch.fnmatch(relative, pattern) or fnmatch.fnmatch(path.name, pattern) for pattern in patterns
        ):
            skipped += 1
            continue
        found = language_of(path)
        counted = count(path, found[1], found[2]) if found else None
        if counted is None:
            skipped += 1
            continue
        entry = totals[found[0]]
        entry[0] += 1
        for index, value in enumerate(counted):
            entry[index + 1] += value
        single.append((counted[0], relative, found[0]))
    rows = sorted(totals.items(), key=lambda row: -row[1][1])
    largest = sorted(single, reverse=True)[: arguments.files]
    if arguments.json:
        names = ("files", "code", "comment", "blank")
        json.dump({
            "source": how,
            "skipped": skipped,
            "languages": {name: dict(zip(names, values)) for name, values in rows},
            "largest": [{"path": path, "language": name, "code": code} for code, path, name in largest],
        }, sys.stdout, indent=2)
        print()
        return
    everything = [sum(values[index] for _, values in rows) for index in range(4)]
    print(f"{'language':<18}{'files':>8}{'code':>10}{'comment':>10}{'blank':>10}{'share':>8}")
    for name, values in rows + [("total", everything)]:
        share = 100 * values[1] / everything[1] if everything[1] else 0
        print(f"{name:<18}" + f"{values[0]:>8}" + "".join(f"{value:>10}" for value in values[1:]) + f"{share:>7.1f}%")
    print(f"\n{how}; {skipped} left out (excluded, generated, binary, too large or of unknown kind)")
    for code, path, name in largest:
        print(f"{code:>8}  {path} ({name})")


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
