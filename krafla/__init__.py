"""Krafla: generated CPU kernels and an inference runtime for small Llama-style language models."""

from pathlib import Path as _Path

__version__ = "0.1.0"

# In a checkout the rooms (codegen, isa_specs, runtime, ...) lie beside this folder, not inside it.
_root = _Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file() and (_root / "isa_specs").is_dir():
    __path__.append(str(_root))
