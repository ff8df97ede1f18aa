"""Small facts read off C text."""

from __future__ import annotations

import re
from collections.abc import Sequence


def unused_parameters(text: str, names: Sequence[str]) -> str:
    """Adds `(void)name;` for parameters that the last function's body never mentions.

    A kernel's signature is the same for every ISA; what a machine does not need (a correction for signed weights)
    it says so.
    """
    start = text.index("{", text.rindex("\nvoid ml_k_"))
    body = text[start:]
    unused = [name for name in names if not re.search(rf"\b{name}\b", body)]
    if not unused:
        return text
    lines = "".join(f"\n(void){name}; /* not needed on this machine */" for name in unused)
    return text[: start + 1] + lines + text[start + 1 :]
