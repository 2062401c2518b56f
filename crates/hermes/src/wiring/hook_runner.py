# Runs one hook: a line of JSON in, `ok` or what went wrong out. The hook's own prints do not mix with the answers.
import asyncio, importlib.util, inspect, json, sys

answers = sys.stdout
sys.stdout = sys.stderr
path = sys.argv[1]
spec = importlib.util.spec_from_file_location("hermes_hook", path)
hook = importlib.util.module_from_spec(spec)
problem = None
try:
    spec.loader.exec_module(hook)
except Exception as error:
    problem = f"{type(error).__name__}: {error}"
for line in sys.stdin:
    said = problem or "ok"
    if problem is None:
        try:
            told = json.loads(line)
            done = hook.handle(told["event"], told["context"])
            if inspect.isawaitable(done):
                async def wait(awaitable):
                    return await awaitable
                asyncio.run(wait(done))
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
    answers.write(said.replace("\n", " ") + "\n")
    answers.flush()
