"""The models that are here: what was downloaded and what was converted, by the name that `-m` takes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from krafla.runtime import cache, hub, pull
from krafla.runtime.resolve import ORIGIN, conversion_folder
from krafla.tools.errors import AccessError, access

READY, UNCONVERTED, UNFINISHED, OUTDATED = "ready", "not converted", "unfinished", "outdated"


@dataclass(frozen=True)
class Entry:
    """A model of the cache; its paths are all inside the cache."""

    name: str
    state: str  # outdated: the source, or Krafla's converter, has changed or is gone
    download: tuple[Path, ...] = ()
    conversion: tuple[Path, ...] = ()

    @property
    def download_bytes(self) -> int:
        """Bytes of the download."""
        return sum(map(size, self.download))

    @property
    def conversion_bytes(self) -> int:
        """Bytes of the .mlb, its tokenizer and template, and packed weights kept beside it."""
        return sum(map(size, self.conversion))


def entries() -> list[Entry]:
    """Every model of the cache: downloads by name, then conversions of the user's own files by path."""
    folders = {path for path in (cache.root() / "models").glob("*") if path.is_dir()}
    found = []
    for name, source, paths, whole in _downloads():
        made = {conversion_folder(source)} & folders if whole else set()
        state = UNFINISHED if not whole else READY if made else UNCONVERTED
        found.append(Entry(name, state, paths, tuple(made)))
    by_origin: dict[str, list[Path]] = {}
    for folder in folders - {path for entry in found for path in entry.conversion}:
        by_origin.setdefault(_origin(folder), []).append(folder)
    for origin, made_of_it in sorted(by_origin.items()):
        source = Path(origin)
        current = source.exists() and conversion_folder(source) in made_of_it
        found.append(Entry(origin, READY if current else OUTDATED, conversion=tuple(made_of_it)))
    return found


def names() -> list[str]:
    """What can be named after -m without being a path: models that are here, then those that can be pulled."""
    here = [entry.name for entry in entries() if entry.download and entry.state != UNFINISHED]
    return [*here, *(known.name for known in pull.KNOWN if known.name not in here)]


def find(name: str) -> list[Entry]:
    """The entries that a user means: by name in any case, or by the path of what was converted."""
    path = str(Path(name).absolute())
    resolved = str(Path(name).resolve())
    return [e for e in entries() if e.name.lower() == name.lower() or e.name in (path, resolved)]


def remove(entry: Entry) -> None:
    """Delete an entry's download and conversion, except for what another entry shares."""
    root = cache.root().resolve()
    others = [one for one in entries() if one.name != entry.name]
    shared = {path for one in others for path in (*one.download, *one.conversion)}
    for path in {*entry.download, *entry.conversion} - shared:
        if not path.resolve().is_relative_to(root):  # only if somebody put a link into the cache
            raise AccessError(f"{path}: lies outside the cache; it is left alone")
        top = cache.root().joinpath(*path.relative_to(cache.root()).parts[:2])
        with cache.lock(top), access(path, "remove"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    hub.forget(entry.name)


def size(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _downloads() -> Iterator[tuple[str, Path, tuple[Path, ...], bool]]:
    """Name, what is converted, all that was downloaded for it, and whether that is complete."""
    pulled = cache.root() / "pulled"
    seen: set[Path] = set()
    for known in pull.KNOWN:
        for path, whole in (
            (pulled / known.gguf, True),
            (pulled / f"{known.package}-{known.version}", False),
        ):
            if path.exists():
                seen.add(path)
                yield known.name, path, (path,), whole
    for record in hub.records():
        seen.add(record.folder)
        yield record.name, record.source, record.paths, record.whole
    for path in sorted(pulled.glob("*")):
        if path not in seen and path.suffix not in (".lock", ".json") and not path.name.startswith("."):
            yield path.name, path, (path,), False


def _origin(folder: Path) -> str:
    """What a conversion was made from, or its folder's name where that is not known."""
    try:
        return str(json.loads((folder / ORIGIN).read_text(encoding="utf-8"))["source"])
    except (OSError, ValueError, KeyError, TypeError):
        return folder.name
