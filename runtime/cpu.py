"""What this machine's CPU is called."""

from __future__ import annotations

import platform
from functools import cache


@cache
def cpu_name() -> str:
    """The CPU's name as the system gives it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123  many CPUs make it long
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip() in ("model name", "Model"):
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
