"""Where kernels tuned for this very CPU are kept; `krafla bench --tune` makes them.

They compute the same bits as the committed ones: only tile sizes and prefetching differ.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from krafla.runtime import cache
from krafla.runtime.cpu import cpu_name
from krafla.runtime.paths import ROOT

#: Set to 0, the committed kernels are compiled.
VARIABLE = "KRAFLA_TUNED"
RECORD = "tuning.json"


def home(isa: str) -> Path:
    """The folder for this CPU and this version of the generator, whether or not it exists."""
    state = hashlib.sha256(cpu_name().encode())
    for folder, pattern in (("codegen", "*.py"), ("isa_specs", "*.py"), ("templates", "*.j2")):
        for path in sorted((ROOT / folder).glob(pattern)):
            state.update(path.name.encode() + path.read_bytes())
    return cache.root() / "tuned" / f"{isa}-{state.hexdigest()[:20]}"


def folder(isa: str) -> Path | None:
    """The tuned kernels of an ISA; None if there are none, or they are not wanted."""
    if os.environ.get(VARIABLE) == "0" or not (cache.root() / "tuned").is_dir():
        return None
    found = home(isa)
    return found if (found / RECORD).is_file() else None
