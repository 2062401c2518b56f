# Runs the plugins of one Hermes process: requests come as lines of JSON on standard input, answers and messages go out
# the same way. What plugins print goes to standard error. Arguments, when there are any, are a command line of a plugin.
import asyncio, importlib, importlib.util, inspect, json, os, sys, threading, types
from concurrent.futures import ThreadPoolExecutor

answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
own_input = os.fdopen(os.dup(0), "r", encoding="utf-8")
IS_COMMAND_LINE = len(sys.argv) > 1
if not IS_COMMAND_LINE:
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout = sys.stderr
writing = threading.Lock()
home = None
tools, hooks, commands, cli_commands = {}, [], {}, {}


def write(message):
    line = json.dumps(message, ensure_ascii=False, default=str)
    with writing:
        answers.write(line + "\n")
        answers.flush()


def finish(value):
    """Waits for the value of an asynchronous function."""
    if not inspect.isawaitable(value):
        return value

    async def wait():
        return await value

    return asyncio.run(wait())


def call_with(function, arguments):
    """Calls a function with the arguments it takes."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return finish(function(**arguments))
    if not any(p.kind == p.VAR_KEYWORD for p in parameters):
        known = {p.name for p in parameters}
        arguments = {name: value for name, value in arguments.items() if name in known}
    return finish(function(**arguments))


class Context:
    """What `register(ctx)` gets."""

    def __init__(self, name, path):
        self.plugin_name, self.plugin_path = name, path
        self.profile_name = os.environ.get("HERMES_PROFILE", "default")
        self.found = {"name": name, "tools": [], "hooks": [], "commands": [], "cli_commands": [], "problems": []}

    def register_tool(self, name, toolset="plugins", schema=None, handler=None, check_fn=None, requires_env=None,
                      is_async=False, description="", emoji="", **_):
        missing = [v for v in (requires_env or []) if isinstance(v, str) and not os.environ.get(v)]
        try:
            available = not missing and (check_fn is None or bool(check_fn()))
        except Exception:
            available = False
        tools[name] = handler
        self.found["tools"].append({"name": name, "toolset": toolset, "schema": schema or {}, "emoji": emoji,
                                    "description": description, "available": available})

    def register_hook(self, name, callback, **_):
        hooks.append((name, self.plugin_name, callback))
        if name not in self.found["hooks"]:
            self.found["hooks"].append(name)

    def register_command(self, name, handler, description="", args_hint="", aliases=(), cli_only=False,
                         gateway_only=False, **_):
        name = name.lstrip("/").lower()
        for each in [name, *[a.lstrip("/").lower() for a in aliases or ()]]:
            commands[each] = handler
        self.found["commands"].append({"name": name, "description": description, "args_hint": args_hint,
                                       "aliases": list(aliases or ()), "cli_only": bool(cli_only),
                                       "gateway_only": bool(gateway_only)})

    def register_cli_command(self, name, help="", setup_fn=None, handler_fn=None, description="", **_):
        cli_commands[name] = (help or description, setup_fn, handler_fn)
        self.found["cli_commands"].append({"name": name, "description": help or description})

    def inject_message(self, content, role="user", **_):
        write({"method": "inject", "plugin": self.plugin_name, "text": str(content)})
        return True

    def __getattr__(self, name):
        if not name.startswith(("register_", "dispatch_")):
            raise AttributeError(name)

        def missing(*_, **__):
            note = f"ctx.{name} is not available in this release"
            if note not in self.found["problems"]:
                self.found["problems"].append(note)

        return missing


def module(name, **content):
    made = types.ModuleType(name)
    made.__dict__.update(content)
    sys.modules.setdefault(name, made)
    return made


def provide_modules():
    """Offers the few modules of the Python program that plugins import."""
    from pathlib import Path

    def get_env_value(name, default=None):
        return os.environ.get(name, default)

    class Registry:
        def register(self, *arguments, **named):
            current.register_tool(*arguments, **named)

    module("hermes_constants", get_hermes_home=lambda: Path(home))
    tool_modules, cli_modules = module("tools", __path__=[]), module("hermes_cli", __path__=[])
    tool_modules.registry = module("tools.registry", registry=Registry())
    cli_modules.config = module("hermes_cli.config", get_env_value=get_env_value, get_hermes_home=lambda: Path(home))


current = None


def load(plugin):
    global current
    name, path = plugin["name"], plugin["path"]
    current = context = Context(name, path)
    try:
        if path:
            key = "hermes_plugin_" + "".join(c if c.isalnum() else "_" for c in name)
            file = os.path.join(path, "__init__.py")
            spec = importlib.util.spec_from_file_location(key, file, submodule_search_locations=[path])
            loaded = importlib.util.module_from_spec(spec)
            sys.modules[key] = loaded
            spec.loader.exec_module(loaded)
        else:
            from importlib.metadata import entry_points

            points = [p for p in entry_points(group="hermes_agent.plugins") if p.name == name]
            if not points:
                raise LookupError("there is no folder and no Python package of this name")
            loaded = points[0].load()
        register = loaded if callable(loaded) else getattr(loaded, "register", None)
        if register is None:
            raise AttributeError("it has no function register(ctx)")
        finish(register(context))
    except BaseException as error:
        context.found["problems"].append(f"{type(error).__name__}: {error}")
    return context.found


def perform(method, params):
    global home
    if method == "load":
        home = params["home"]
        provide_modules()
        return {"plugins": [load(plugin) for plugin in params["plugins"]]}
    if method == "tool":
        try:
            handler, context = tools[params["name"]], params["context"]
            result = finish(handler(params["args"], **context))
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
    if method == "hook":
        found = []
        for name, plugin, callback in hooks:
            if name != params["event"]:
                continue
            try:
                answer = call_with(callback, dict(params["input"]))
                if answer is not None:
                    found.append(answer)
            except Exception as error:
                print(f"{plugin}: hook {name}: {type(error).__name__}: {error}", file=sys.stderr)
        return found
    if method == "command":
        answer = finish(commands[params["name"]](params["arguments"]))
        return None if answer is None else str(answer)
    raise LookupError(method)


def serve(request):
    answer = {"id": request["id"]}
    try:
        answer["result"] = perform(request["method"], request["params"])
    except BaseException as error:
        answer["error"] = f"{type(error).__name__}: {error}"
    write(answer)


def run_command_line():
    """Runs `hermes NAME …` of a plugin."""
    global home, answers
    import argparse

    settings, words = json.loads(sys.argv[1]), sys.argv[2:]
    home, answers = settings["home"], open(os.devnull, "w")
    provide_modules()
    for plugin in settings["plugins"]:
        for problem in load(plugin)["problems"]:
            print(f"{plugin['name']}: {problem}", file=sys.stderr)
    if not words or words[0] not in cli_commands:
        print(f"error: {settings['unknown']}", file=sys.stderr)
        return 2
    about, set_up, handler = cli_commands[words[0]]
    parser = argparse.ArgumentParser(prog=f"hermes {words[0]}", description=about)
    if set_up is not None:
        set_up(parser)
    arguments = parser.parse_args(words[1:])
    handler = handler or getattr(arguments, "func", None)
    result = finish(handler(arguments)) if handler else None
    return result if isinstance(result, int) else 0


if IS_COMMAND_LINE:
    sys.exit(run_command_line())
with ThreadPoolExecutor(max_workers=16) as pool:
    for line in own_input:
        request = json.loads(line)
        if request["method"] == "load":
            serve(request)
        else:
            pool.submit(serve, request)
    os._exit(0)
