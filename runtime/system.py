"""What the operating system says about this machine: memory, huge pages, threads."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def threads() -> dict[str, float | int | None]:
    """Hardware threads, those that this process may use, and a control group's quota in CPUs."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    quota, _, period = _text(_CGROUP / "cpu.max").partition(" ")
    limited = int(quota) / int(period) if quota.isdigit() and period.strip().isdigit() else None
    return {"hardware": os.cpu_count(), "usable": affinity, "quota": limited}


def memory() -> dict[str, int | None]:
    """Bytes of physical memory, those that are free for programs, and a control group's limit."""
    sizes = {
        key: int(size) * 1024 for key, size in re.findall(r"(\w+): +(\d+) kB", _text(Path("/proc/meminfo")))
    }
    limit = _text(_CGROUP / "memory.max").strip()
    total = sizes.get("MemTotal") or _physical()
    return {
        "total": total,
        "available": sizes.get("MemAvailable"),
        "limit": int(limit) if limit.isdigit() else None,
    }


def huge_pages() -> str | None:
    """The mode of transparent huge pages (always, madvise, never); None where the system has no such thing."""
    chosen = re.search(r"\[(\w+)\]", _text(_HUGE))
    return chosen[1] if chosen else None


def _physical() -> int | None:
    if sys.platform == "win32":
        return _windows_memory()
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def _windows_memory() -> int | None:
    import ctypes

    kilobytes = ctypes.c_ulonglong()
    done = ctypes.CDLL("kernel32").GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes))
    return kilobytes.value * 1024 if done else None


def _text(path: Path) -> str:
    """A file of the system, or nothing where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
