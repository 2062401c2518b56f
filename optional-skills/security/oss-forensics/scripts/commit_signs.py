#!/usr/bin/env python3
"""Lists commits of a local git repository with signs that deserve a look: dates, identities, sensitive files. Changes nothing."""
import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from datetime import datetime, timezone

FIELDS = ("%H", "%P", "%an", "%ae", "%aI", "%cn", "%ce", "%cI", "%G?", "%s")
SENSITIVE = [
    ("workflow", re.compile(r"(^|/)(\.github/(workflows|actions)/|\.gitlab-ci|\.circleci/|Jenkinsfile|azure-pipelines)")),
    ("build", re.compile(r"(^|/)(configure(\.ac)?|CMakeLists\.txt|Makefile(\.am|\.in)?|.*\.m4|build\.rs|setup\.py|meson\.build|.*\.gradle(\.kts)?|Dockerfile)$")),
    ("install script", re.compile(r"(^|/)(package\.json|install\.sh|postinstall\.\w+|binding\.gyp|conftest\.py|sitecustomize\.py|.*\.pth)$")),
    ("lock file", re.compile(r"(^|/)(package-lock\.json|yarn\.lock|pnpm-lock\.yaml|Cargo\.lock|poetry\.lock|uv\.lock|go\.sum|Gemfile\.lock)$")),
    ("hidden", re.compile(r"(^|/)\.(vscode/tasks\.json|idea/|husky/|git(attributes|modules)$)")),
    ("owners", re.compile(r"(^|/)(CODEOWNERS|MAINTAINERS|SECURITY\.md)$")),
]
BOTS = re.compile(r"\[bot\]|noreply@github\.com$|dependabot|renovate", re.IGNORECASE)


def fail(text):
    sys.exit(f"commit_signs: {text}")


def git(repository, *arguments):
    # The repository is evidence: none of its configuration may run a program.
    safe = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "diff.external=", "-c", "gpg.program=gpg"]
    try:
        run = subprocess.run(["git", "-C", repository, *safe, *arguments], capture_output=True, check=False, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        fail(f"git: {error}")
    if run.returncode:
        fail(run.stderr.decode("utf-8", "replace").strip()[:300])
    return run.stdout.decode("utf-8", "replace")


def commits(repository, revisions, since, limit):
    """Yields each commit with its changed files: (added, removed, path); None stands for a binary file."""
    wanted = ["log", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--numstat", f"--format=%x01{'%x00'.join(FIELDS)}%x02"]
    wanted += [f"--since={since}"] if since else []
    wanted += [f"--max-count={limit}", *(revisions or ["--all"]), "--"]
    for part in git(repository, *wanted).split("\x01")[1:]:
        head, _, tail = part.partition("\x02")
        commit = dict(zip(("id", "parents", "author", "author_mail", "authored", "committer", "committer_mail", "committed", "signature", "subject"), head.split("\0")))
        commit["files"] = []
        for line in tail.strip("\n\0").split("\0"):
            fields = line.strip("\n").split("\t", 2)
            if len(fields) == 3:
                commit["files"].append(tuple(None if number == "-" else int(number) for number in fields[:2]) + (fields[2],))
        yield commit


def signs_of(commit, known, zones, signers, arguments):
    """Returns the signs of one commit; `known`, `zones` and `signers` describe all older ones."""
    found = []
    authored, committed = (datetime.fromisoformat(commit[name]) for name in ("authored", "committed"))
    gap = committed - authored
    if abs(gap.total_seconds()) > arguments.days * 86400:
        found.append(f"authored {abs(gap.days)} days {'before' if gap.total_seconds() > 0 else 'AFTER'} it was committed")
    if committed > datetime.now(timezone.utc):
        found.append("date in the future")
    person = commit["author_mail"].lower()
    if commit["committer_mail"].lower() != person and not BOTS.search(commit["committer_mail"]):
        found.append(f"committed by {commit['committer']} <{commit['committer_mail']}>")
    sensitive = sorted({kind for _, _, path in commit["files"] for kind, pattern in SENSITIVE if pattern.search(path)})
    if not known[person] and sum(known.values()) > 0 and sensitive and not BOTS.search(person):
        found.append(f"first commit of this address, and it touches: {', '.join(sensitive)}")
    zone = authored.strftime("%z")
    if sum(zones[person].values()) >= 10 and zones[person][zone] == 0:
        found.append(f"time zone {zone}, never before of this address")
    if signers[person] >= 5 and commit["signature"] == "N":
        found.append("not signed, though this address signed before")
    if commit["signature"] in ("B", "R"):
        found.append({"B": "BAD signature", "R": "signed with a revoked key"}[commit["signature"]])
    binaries = [path for added, _, path in commit["files"] if added is None]
    if binaries:
        found.append(f"binary: {', '.join(binaries[:3])}{' …' if len(binaries) > 3 else ''}")
    harmless = re.search(r"\b(typo|readme|docs?|comment|whitespace|format|lint|cleanup)\b", commit["subject"], re.IGNORECASE)
    if harmless and set(sensitive) & {"workflow", "build", "install script"}:
        found.append(f"says “{harmless.group(0)}” and touches: {', '.join(sensitive)}")
    if len(commit["parents"].split()) == 0 and sum(known.values()) > 0:
        found.append("a root without parents beside the history")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", help="folder of a clone (a mirror clone has the most)")
    parser.add_argument("revisions", nargs="*", help="branches, tags or ranges such as v1.0..v1.1 (default: all)")
    parser.add_argument("--since", help="only commits after this date; older ones are not read and not known")
    parser.add_argument("--days", type=float, default=30, help="gap between the two dates that is reported (default: %(default)s)")
    parser.add_argument("--limit", type=int, default=20000, help="most commits to read (default: %(default)s)")
    parser.add_argument("--author", help="only commits whose author has this text in name or address")
    parser.add_argument("--json", action="store_true", help="print data")
    arguments = parser.parse_args()
    if any(revision.startswith("-") for revision in arguments.revisions):
        fail("a revision does not begin with a hyphen")
    history = list(commits(arguments.repository, arguments.revisions, arguments.since, arguments.limit))
    known, signers, zones, rows = Counter(), Counter(), {}, []
    for commit in reversed(history):
        person = commit["author_mail"].lower()
        zones.setdefault(person, Counter())
        found = signs_of(commit, known, zones, signers, arguments)
        known[person] += 1
        zones[person][datetime.fromisoformat(commit["authored"]).strftime("%z")] += 1
        signers[person] += commit["signature"] in ("G", "U", "E", "X", "Y")
        wanted = (arguments.author or "").lower() in f"{commit['author']} {commit['author_mail']}".lower()
        if found and wanted:
            rows.append({"commit": commit["id"], "authored": commit["authored"], "author": f"{commit['author']} <{commit['author_mail']}>", "subject": commit["subject"], "signs": found})
    if arguments.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for row in rows:
        print(f"{row['commit'][:12]}  {row['authored'][:16]}  {row['author']}  {row['subject'][:70]}")
        for sign in row["signs"]:
            print(f"    {sign}")
    print(f"{len(history)} commits read, {len(rows)} with signs")
    if len(history) == arguments.limit:
        print("the limit was reached; older commits were not read")


if __name__ == "__main__":
    main()
