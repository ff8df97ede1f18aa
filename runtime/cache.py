"""The cache folder: compiled libraries, converted and pulled models. KRAFLA_CACHE puts it elsewhere."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from krafla.tools.errors import AccessError

VARIABLE = "KRAFLA_CACHE"
#: What the cache holds, for `krafla doctor`.
ROOMS = ("lib", "build", "models", "pulled", "tuned", "zig")


def root() -> Path:
    """The cache folder, whether or not it exists yet."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("krafla", appauthor=False))


def room(name: str) -> Path:
    """A writable folder inside the cache, made if needed."""
    path = root() / name
    try:
        path.mkdir(parents=True, exist_ok=True)
        # os.access is wrong on some network and read-only file systems; a file is the proof.
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        advice = f"set {VARIABLE} to a folder that can be written"
        raise AccessError(f"{path}: cannot write to the cache: {error.strerror}; {advice}") from error
    return path


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the lock file beside `path`, so that two processes do not make the same thing twice."""
    from filelock import FileLock

    with FileLock(path.with_name(path.name + ".lock")):
        yield


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place if the block succeeds and vanishes if it fails."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
