"""Krafla: generated CPU kernels and an inference runtime for small Llama-style language models."""

from pathlib import Path as _Path
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from krafla.runtime.model import Generation as Generation
    from krafla.runtime.model import Model as Model
    from krafla.tools.errors import KraflaError as KraflaError

__version__ = "0.1.0"

# In a checkout the rooms (codegen, isa_specs, runtime, ...) lie beside this folder, not inside it.
_root = _Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file() and (_root / "isa_specs").is_dir():
    __path__.append(str(_root))

_PUBLIC = {
    "Generation": "krafla.runtime.model",
    "KraflaError": "krafla.tools.errors",
    "Model": "krafla.runtime.model",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is asked for, so that the command line starts fast."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'krafla' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PUBLIC[name]), name)
