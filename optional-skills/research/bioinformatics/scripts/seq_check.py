#!/usr/bin/env python3
"""Checks sequence files before an analysis: FASTA, FASTQ, VCF, BED, GFF, plain or gzip. Counts, lengths, quality, names of contigs."""
import argparse
import gzip
import json
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

NUCLEOTIDES = set("ACGTUNRYSWKMBDHVacgtunryswkmbdhv-*.")
AMINO_ACIDS = set("ABCDEFGHIKLMNPQRSTUVWXYZabcdefghiklmnpqrstuvwxyz*-.")
KINDS = {
    "fasta": (".fa", ".fasta", ".fna", ".faa", ".ffn", ".frn"),
    "fastq": (".fq", ".fastq"),
    "vcf": (".vcf",),
    "bed": (".bed",),
    "gff": (".gff", ".gff3", ".gtf"),
}


def fail(text):
    sys.exit(f"seq_check: {text}")


def lines_of(path):
    """Yields the lines of a plain or gzip file."""
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    # Carriage returns stay in the lines: they are a problem to report.
    settings = {"encoding": "ascii", "errors": "replace", "newline": "\n"}
    with gzip.open(path, "rt", **settings) if packed else open(path, **settings) as file:
        for line in file:
            yield line.rstrip("\n")


def kind_of(path):
    name = path.name[:-3] if path.suffix == ".gz" else path.name
    found = next((kind for kind, endings in KINDS.items() if name.lower().endswith(endings)), None)
    if not found:
        fail(f"{path}: unknown kind; give --kind")
    return found


def n50(lengths):
    """Returns the length at which half of all bases are in sequences that are at least as long."""
    total, done = sum(lengths), 0
    for length in sorted(lengths, reverse=True):
        done += length
        if done * 2 >= total:
            return length
    return 0


def fasta(path, _limit):
    lengths, bases, problems, name, at = {}, Counter(), [], None, 0
    for at, line in enumerate(lines_of(path), 1):
        if line.endswith("\r"):
            problems.append("lines end with carriage returns (made on Windows): many programs take them as part of the name")
            line = line.rstrip("\r")
        if line.startswith(">"):
            name = line[1:].split()[0] if line[1:].split() else ""
            if not name:
                problems.append(f"line {at}: a sequence without a name")
            if name in lengths:
                problems.append(f"line {at}: the name {name} occurs twice")
            lengths.setdefault(name, 0)
        elif line:
            if name is None:
                fail(f"{path}: line {at}: text before the first `>`")
            lengths[name] += len(line)
            bases.update(line)
    letters = {letter for letter in bases if not letter.isspace()}
    protein = not letters <= NUCLEOTIDES
    odd = letters - (AMINO_ACIDS if protein else NUCLEOTIDES)
    if odd:
        problems.append(f"letters that are not of a sequence: {' '.join(sorted(odd))[:60]}")
    empty = [name for name, length in lengths.items() if not length]
    if empty:
        problems.append(f"sequences without letters: {', '.join(empty[:3])}")
    values, total = list(lengths.values()), sum(bases.values())
    result = {"sequences": len(lengths), "letters": total, "kind": "protein" if protein else "nucleotides", "longest": max(values, default=0), "shortest": min(values, default=0), "N50": n50(values), "contigs": list(lengths)}
    if not protein and total:
        upper = Counter({letter.upper(): 0 for letter in bases})
        for letter, count in bases.items():
            upper[letter.upper()] += count
        known = sum(upper[letter] for letter in "ACGTU")
        result["GC"] = f"{(upper['G'] + upper['C']) / known:.1%}" if known else "-"
        result["N"] = f"{upper['N'] / total:.2%}"
        result["lowercase (masked)"] = f"{sum(count for letter, count in bases.items() if letter.islower()) / total:.1%}"
    return result, problems


def fastq(path, limit):
    reads, letters, lengths, problems = 0, 0, Counter(), []
    lowest, highest, score, gc = 255, 0, 0, 0
    iterator = lines_of(path)
    while reads < limit:
        record = list(islice(iterator, 4))
        if not record or record == [""]:
            break
        reads += 1
        if len(record) < 4:
            problems.append(f"read {reads}: the file ends in the middle of a read (cut short?)")
            break
        head, bases, plus, quality = record
        if not head.startswith("@") or not plus.startswith("+"):
            problems.append(f"read {reads}: not four lines per read (`@`, letters, `+`, quality)")
            break
        if len(bases) != len(quality):
            problems.append(f"read {reads}: {len(bases)} letters but {len(quality)} qualities")
            break
        lengths[len(bases)] += 1
        letters += len(bases)
        gc += sum(letter in "GCgc" for letter in bases)
        codes = quality.encode("ascii", "replace")
        if codes:
            lowest, highest, score = min(lowest, min(codes)), max(highest, max(codes)), score + sum(codes)
    offset = 64 if reads and lowest >= 59 and highest > 74 else 33
    if offset == 64:
        problems.append("qualities look like the old encoding with 64; most programs expect 33")
    result = {"reads": f"{reads}{' (limit reached)' if reads == limit else ''}", "letters": letters, "lengths": f"{min(lengths, default=0)} to {max(lengths, default=0)}, most often {lengths.most_common(1)[0][0] if lengths else 0}", "encoding": f"Phred+{offset}", "contigs": []}
    if letters:
        result["mean quality"] = round(score / letters - offset, 1)
        result["GC"] = f"{gc / letters:.1%}"
    return result, problems


def table(path, limit, kind):
    contigs, declared, rows, problems, samples, last = Counter(), [], 0, [], None, None
    unsorted, ended = False, set()
    for at, line in enumerate(lines_of(path), 1):
        if rows >= limit:
            break
        if line.startswith("##contig=<ID="):
            declared.append(line[13:].split(",")[0].rstrip(">"))
        if line.startswith("#CHROM"):
            samples = len(line.split("\t")) - 9
        if not line or line.startswith(("#", "track", "browser")):
            continue
        fields = line.split("\t")
        least = {"vcf": 8, "bed": 3, "gff": 9}[kind]
        if len(fields) < least:
            problems.append(f"line {at}: {len(fields)} columns, {least} are needed (blanks instead of tabs?)")
            break
        rows += 1
        contigs[fields[0]] += 1
        try:
            start, stop = {"vcf": (1, 1), "bed": (1, 2), "gff": (3, 4)}[kind]
            start, stop = int(fields[start]), int(fields[stop])
        except ValueError:
            problems.append(f"line {at}: a position is not a number")
            break
        if stop < start:
            problems.append(f"line {at}: the end is before the start")
            break
        if last and last[0] != fields[0]:
            ended.add(last[0])
        unsorted = unsorted or fields[0] in ended or bool(last and last[0] == fields[0] and start < last[1])
        last = (fields[0], start)
    if kind == "vcf" and samples is None and rows:
        problems.append("has no line #CHROM")
    missing = [name for name in contigs if declared and name not in declared]
    if missing:
        problems.append(f"contigs without a ##contig line: {', '.join(missing[:5])}")
    result = {"rows": f"{rows}{' (limit reached)' if rows == limit else ''}", "sorted": "no" if unsorted else "yes", "contigs": list(contigs)}
    if kind == "vcf":
        result["samples"] = max(samples or 0, 0)
    return result, problems


def compare(reference, names, path):
    """Returns a problem if names of contigs are not those of the reference."""
    missing = [name for name in names if name not in reference]
    if not missing:
        return []
    turned = {name[3:] if name.startswith("chr") else f"chr{name}" for name in missing}
    hint = "; one side writes `chr1`, the other `1`" if turned & reference else ""
    return [f"{len(missing)} of {len(names)} contigs of {path.name} are not in the reference: {', '.join(missing[:5])}{hint}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="+", type=Path)
    parser.add_argument("--reference", type=Path, help="FASTA or .fai whose contigs the other files must have")
    parser.add_argument("--kind", choices=sorted(KINDS), help="for files with another ending")
    parser.add_argument("--limit", type=int, default=1_000_000, help="most reads or rows per file (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print data")
    arguments = parser.parse_args()
    reference, path = None, arguments.reference
    try:
        if arguments.reference:
            is_index = arguments.reference.suffix == ".fai"
            reference = {line.split("\t")[0] for line in lines_of(arguments.reference)} if is_index else set(fasta(arguments.reference, 0)[0]["contigs"])
        report, bad = {}, False
        for path in arguments.file:
            kind = arguments.kind or kind_of(path)
            result, problems = {"fasta": fasta, "fastq": fastq}[kind](path, arguments.limit) if kind in ("fasta", "fastq") else table(path, arguments.limit, kind)
            if reference is not None and kind != "fastq":
                problems += compare(reference, result["contigs"], path)
            result["contigs"] = len(result["contigs"])
            report[str(path)] = {**result, "problems": list(dict.fromkeys(problems))}
            bad = bad or bool(problems)
    except (EOFError, gzip.BadGzipFile) as error:
        fail(f"{path}: cut short or damaged: {error}")
    except OSError as error:
        fail(f"cannot read {error.filename}: {error.strerror}")
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        for path, result in report.items():
            print(path)
            for name, value in result.items():
                if name != "problems":
                    print(f"  {name}: {value}")
            for problem in result["problems"]:
                print(f"  PROBLEM: {problem}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
