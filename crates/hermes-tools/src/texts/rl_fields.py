"""Prints the settings of an environment's class as JSON: what is typed, what is usual, what it says."""
import importlib.util
import json
import sys

path, name = sys.argv[1], sys.argv[2]
spec = importlib.util.spec_from_file_location("environment_to_describe", path)
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
spec.loader.exec_module(module)
config = getattr(module, name).env_config_cls
fields = []
for key, field in config.model_fields.items():
    default = field.get_default(call_default_factory=True)
    default = getattr(default, "value", default)
    try:
        json.dumps(default)
    except TypeError:
        default = None
    kind = getattr(field.annotation, "__name__", str(field.annotation))
    fields.append({"name": key, "type": kind, "default": default, "description": field.description or ""})
print("FIELDS " + json.dumps(fields))
