#!/usr/bin/env python3
"""Reads and changes Linear issues through the GraphQL API. Reads LINEAR_API_KEY from the environment."""
import argparse
import json
import re
import sys
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from os import environ
from pathlib import Path

ISSUE = "id identifier title url priorityLabel dueDate updatedAt state { name } assignee { name } team { key } labels { nodes { name } } project { name }"


def fail(text):
    sys.exit(f"linear: {text}")


def read_text(path):
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}")


class Linear:
    def __init__(self, url):
        self.url = url
        self.key = environ.get("LINEAR_API_KEY", "")
        if not self.key:
            fail("LINEAR_API_KEY is not set; make a key in Linear, Settings, Security and access")

    def query(self, text, **variables):
        data = json.dumps({"query": text, "variables": variables}).encode()
        headers = {"Content-Type": "application/json", "Authorization": self.key, "User-Agent": "hermes-linear-skill/1.0"}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url, data=data, headers=headers), timeout=60) as answer:
                parsed = json.load(answer)
        except urllib.error.HTTPError as error:
            body = error.read().decode("utf-8", "replace")
            try:
                body = "; ".join(entry.get("message", "") for entry in json.loads(body)["errors"])
            except (ValueError, KeyError, TypeError, AttributeError):
                pass
            hint = " (the key is not valid)" if error.code == 401 else ""
            fail(f"HTTP {error.code}: {body[:400]}{hint}")
        except (urllib.error.URLError, TimeoutError) as error:
            fail(str(getattr(error, "reason", error)))
        except ValueError:
            fail("the answer is not JSON")
        if parsed.get("errors"):
            fail("; ".join((entry.get("extensions") or {}).get("userPresentableMessage") or entry.get("message", "") for entry in parsed["errors"]))
        return parsed["data"]

    def pick(self, what, wanted, entries, *fields):
        """Returns the id of the one entry that has the wanted name; names are compared without case."""
        exact = [entry for entry in entries if any(str(entry.get(field, "")).lower() == wanted.lower() for field in fields)]
        found = exact or [entry for entry in entries if any(wanted.lower() in str(entry.get(field, "")).lower() for field in fields)]
        if len(found) != 1:
            names = ", ".join(str(entry.get(fields[0])) for entry in (found or entries)[:15])
            fail(f"{what} `{wanted}` is {'ambiguous' if found else 'unknown'}; {'candidates' if found else 'there are'}: {names}")
        return found[0]["id"]

    def team(self, key):
        return self.pick("team", key, self.query("{ teams(first: 100) { nodes { id key name } } }")["teams"]["nodes"], "key", "name")

    def inputs(self, arguments, team):
        """Returns the fields of a create or update as the API wants them."""
        result = {}
        for option, field in (("title", "title"), ("priority", "priority"), ("estimate", "estimate"), ("due", "dueDate")):
            if getattr(arguments, option) is not None:
                result[field] = getattr(arguments, option)
        if arguments.body_file:
            result["description"] = read_text(arguments.body_file)
        if arguments.state:
            nodes = self.query("query($t: String!) { team(id: $t) { states { nodes { id name } } } }", t=team)["team"]["states"]["nodes"]
            result["stateId"] = self.pick("state", arguments.state, nodes, "name")
        if arguments.assignee:
            if arguments.assignee == "me":
                result["assigneeId"] = self.query("{ viewer { id } }")["viewer"]["id"]
            else:
                nodes = self.query("{ users(first: 250) { nodes { id name displayName email } } }")["users"]["nodes"]
                result["assigneeId"] = self.pick("person", arguments.assignee, nodes, "name", "displayName", "email")
        if arguments.project:
            nodes = self.query("{ projects(first: 250) { nodes { id name } } }")["projects"]["nodes"]
            result["projectId"] = self.pick("project", arguments.project, nodes, "name")
        if arguments.label:
            nodes = self.query("query($t: ID!) { issueLabels(first: 250, filter: {or: [{team: {id: {eq: $t}}}, {team: {null: true}}]}) { nodes { id name } } }",
                               t=team)["issueLabels"]["nodes"]
            result["labelIds"] = [self.pick("label", name, nodes, "name") for name in arguments.label]
        return result


def line(issue):
    labels = ",".join(label["name"] for label in issue["labels"]["nodes"])
    details = [issue["state"]["name"], (issue.get("assignee") or {}).get("name") or "unassigned", issue["priorityLabel"], labels,
               f"due {issue['dueDate']}" if issue.get("dueDate") else "", f"updated {issue['updatedAt'][:10]}"]
    return f"{issue['identifier']}  {issue['title']}\n    " + " | ".join(filter(None, details)) + f"\n    {issue['url']}"


def show_issues(found, limit):
    text = "\n".join(line(issue) for issue in found) or "nothing found"
    return found, text + (f"\n({limit} shown; there may be more, use --limit)" if len(found) == limit else "")


def run(linear, arguments):
    """Runs one command. Returns the data and its text."""
    command = arguments.command
    if command == "whoami":
        viewer = linear.query("{ viewer { name email } organization { name } }")
        return viewer, f"{viewer['viewer']['name']} <{viewer['viewer']['email']}>, {viewer['organization']['name']}"
    if command == "teams":
        nodes = linear.query("{ teams(first: 100) { nodes { key name } } }")["teams"]["nodes"]
        return nodes, "\n".join(f"{team['key']}  {team['name']}" for team in nodes)
    if command == "states":
        nodes = linear.query("query($t: String!) { team(id: $t) { states { nodes { name type position } } } }", t=linear.team(arguments.team))["team"]["states"]["nodes"]
        return nodes, "\n".join(f"{state['name']}  ({state['type']})" for state in sorted(nodes, key=lambda state: state["position"]))
    if command == "projects":
        nodes = linear.query("{ projects(first: 100) { nodes { name state targetDate progress url } } }")["projects"]["nodes"]
        return nodes, "\n".join(f"{one['name']}  {one['state']}  {one['progress'] or 0:.0%}  {one['targetDate'] or ''}  {one['url']}" for one in nodes)
    if command == "cycles":
        text = "query($t: String!) { team(id: $t) { cycles(last: 5) { nodes { number name startsAt endsAt progress } } } }"
        nodes = linear.query(text, t=linear.team(arguments.team))["team"]["cycles"]["nodes"]
        return nodes, "\n".join(f"{one['number']} {one['name'] or ''}  {one['startsAt'][:10]} - {one['endsAt'][:10]}  {one['progress'] or 0:.0%}" for one in nodes)
    if command == "issues":
        condition = {}
        if arguments.mine:
            condition["assignee"] = {"isMe": {"eq": True}}
        if arguments.team:
            condition["team"] = {"key": {"eqIgnoreCase": arguments.team}}
        if arguments.label:
            condition["labels"] = {"name": {"eqIgnoreCase": arguments.label}}
        if arguments.updated_days:
            since = datetime.now(timezone.utc) - timedelta(days=arguments.updated_days)
            condition["updatedAt"] = {"gte": since.isoformat(timespec="seconds")}
        if arguments.state:
            condition["state"] = {"name": {"eqIgnoreCase": arguments.state}}
        elif not arguments.all:
            condition["state"] = {"type": {"nin": ["completed", "canceled"]}}
        text = f"query($n: Int!, $f: IssueFilter) {{ issues(first: $n, filter: $f, orderBy: updatedAt) {{ nodes {{ {ISSUE} }} }} }}"
        return show_issues(linear.query(text, n=arguments.limit, f=condition)["issues"]["nodes"], arguments.limit)
    if command == "search":
        text = f"query($q: String!, $n: Int!) {{ searchIssues(term: $q, first: $n) {{ nodes {{ {ISSUE} }} }} }}"
        return show_issues(linear.query(text, q=arguments.text, n=arguments.limit)["searchIssues"]["nodes"], arguments.limit)
    if command == "issue":
        text = f"query($id: String!) {{ issue(id: $id) {{ {ISSUE} description comments {{ nodes {{ body createdAt user {{ name }} }} }} }} }}"
        issue = linear.query(text, id=arguments.id)["issue"]
        comments = "\n".join(f"--- {(comment.get('user') or {}).get('name', '?')}, {comment['createdAt'][:16]}\n{comment['body']}"
                             for comment in sorted(issue["comments"]["nodes"], key=lambda comment: comment["createdAt"]))
        return issue, "\n\n".join(filter(None, [line(issue), issue.get("description"), comments]))
    if command == "create":
        team = linear.team(arguments.team)
        fields = {"teamId": team, **linear.inputs(arguments, team)}
        text = f"mutation($i: IssueCreateInput!) {{ issueCreate(input: $i) {{ success issue {{ {ISSUE} }} }} }}"
        issue = linear.query(text, i=fields)["issueCreate"]["issue"]
        return issue, line(issue)
    if command == "update":
        team = linear.query("query($id: String!) { issue(id: $id) { team { id } } }", id=arguments.id)["issue"]["team"]["id"]
        fields = linear.inputs(arguments, team)
        if not fields:
            fail("nothing to change")
        text = f"mutation($id: String!, $i: IssueUpdateInput!) {{ issueUpdate(id: $id, input: $i) {{ success issue {{ {ISSUE} }} }} }}"
        issue = linear.query(text, id=arguments.id, i=fields)["issueUpdate"]["issue"]
        return issue, line(issue)
    if command == "comment":
        identity = linear.query("query($id: String!) { issue(id: $id) { id } }", id=arguments.id)["issue"]["id"]
        text = "mutation($i: CommentCreateInput!) { commentCreate(input: $i) { success comment { url } } }"
        answer = linear.query(text, i={"issueId": identity, "body": read_text(arguments.body_file)})["commentCreate"]["comment"]
        return answer, answer["url"]
    try:
        variables = json.loads(arguments.variables)
    except ValueError as error:
        fail(f"--variables: {error}")
    data = linear.query(arguments.text or read_text(arguments.file), **variables)
    return data, json.dumps(data, indent=2, ensure_ascii=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the data")
    parser.add_argument("--url", default="https://api.linear.app/graphql", help="address of the API (default: %(default)s)")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("whoami", "teams", "projects"):
        commands.add_parser(name)
    for name in ("states", "cycles"):
        commands.add_parser(name).add_argument("team")
    lister = commands.add_parser("issues", help="list issues; only open ones unless --state or --all is given")
    lister.add_argument("--mine", action="store_true")
    lister.add_argument("--all", action="store_true")
    for option in ("--team", "--state", "--label"):
        lister.add_argument(option)
    lister.add_argument("--updated-days", type=int)
    finder = commands.add_parser("search")
    finder.add_argument("text")
    for one in (lister, finder):
        one.add_argument("--limit", type=int, default=20)
    commands.add_parser("issue", help="one issue with description and comments").add_argument("id")
    creator, updater = commands.add_parser("create"), commands.add_parser("update")
    creator.add_argument("--team", required=True)
    updater.add_argument("id")
    for one in (creator, updater):
        one.add_argument("--title", required=one is creator)
        one.add_argument("--body-file", help="Markdown; - is standard input")
        one.add_argument("--priority", type=int, choices=range(5))
        one.add_argument("--estimate", type=int)
        one.add_argument("--due", metavar="YYYY-MM-DD")
        one.add_argument("--label", action="append", help="repeatable; replaces all labels in an update")
        for option in ("--state", "--assignee", "--project"):
            one.add_argument(option)
    commenter = commands.add_parser("comment")
    commenter.add_argument("id")
    commenter.add_argument("--body-file", required=True)
    asker = commands.add_parser("query", help="any GraphQL query")
    asker.add_argument("--text")
    asker.add_argument("--file", default="-")
    asker.add_argument("--variables", default="{}")
    arguments = parser.parse_args()
    if getattr(arguments, "due", None) and not re.fullmatch(r"\d{4}-\d\d-\d\d", arguments.due):
        parser.error("--due must be YYYY-MM-DD")
    data, text = run(Linear(arguments.url), arguments)
    print(json.dumps(data, indent=2, ensure_ascii=False) if arguments.json else text)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
