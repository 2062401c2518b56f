"""Says whether the installed package has all that a script uses of it: python check_package.py SCRIPT.

Every call the script makes of the package is taken from its text and bound to the signature of what it calls. Nothing is
called.
"""

import ast
import inspect
import sys

import modal
import modal.exception
from modal.container_process import ContainerProcess
from modal.io_streams import StreamReader, StreamWriter

# What the names in the script stand for.
KINDS = {
    "modal": modal,
    "modal.exception": modal.exception,
    "sandbox": modal.Sandbox,
    "process": ContainerProcess,
    "stdin": StreamWriter,
    "image": modal.Image,
}
# Given to `create` only where the package takes it.
GUARDED = {"ephemeral_disk"}

tree = ast.parse(open(sys.argv[1]).read())
checked, problems = set(), []


def find(path):
    """What a dotted path means, or None if it is not the package's."""
    parts = path.split(".")
    if parts[0] not in KINDS:
        return None
    found = KINDS[parts[0]]
    for part in parts[1:]:
        if not hasattr(found, part):
            problems.append(f"{path} does not exist")
            return None
        found = getattr(found, part)
    return found


def keywords_of(name):
    """The keys a function of the script puts into what it returns."""
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    for node in ast.walk(function):
        if isinstance(node, ast.Dict):
            yield from (key.value for key in node.keys)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield node.slice.value


def check_call(call):
    path = ast.unparse(call.func)
    if path.endswith(".aio"):
        path = path[: -len(".aio")]
    called = find(path)
    if called is None or path.split(".")[0] == path:
        return
    if ast.unparse(call.func).endswith(".aio") and not hasattr(called, "aio"):
        problems.append(f"{path} has no aio")
    names = [keyword.arg for keyword in call.keywords if keyword.arg]
    if len(names) < len(call.keywords):
        names += set(keywords_of("resources")) - GUARDED
    parameters = inspect.signature(called).parameters
    count = sum(not isinstance(word, ast.Starred) for word in call.args)
    count += next(iter(parameters), "") in ("self", "cls")
    try:
        inspect.signature(called).bind(*[None] * count, **dict.fromkeys(names))
    except TypeError as error:
        problems.append(f"{path}: {error}")
    problems.extend(f"{path} has no parameter {name}" for name in names if name not in parameters)
    checked.add(path)


for node in ast.walk(tree):
    if isinstance(node, ast.Call):
        check_call(node)
        if ast.unparse(node.func).endswith(".run_in_executor"):
            # The call is made by somebody else.
            check_call(ast.Call(node.args[1], node.args[2:], []))
    if isinstance(node, ast.Attribute):
        find(ast.unparse(node).split(".aio")[0])

# Named only as texts.
for name in ("NotFoundError", "InvalidError", "PermissionDeniedError", "ConflictError"):
    find(f"modal.exception.{name}")
for method in ("__aiter__", "__anext__"):
    if not hasattr(StreamReader, method):
        problems.append(f"StreamReader has no {method}")

print(modal.__version__, *sorted(checked), sep="\n")
sys.exit("\n".join(problems) if problems else 0)
