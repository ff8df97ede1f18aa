"""The user's data folder: what was typed to `krafla chat`, and saved conversations. KRAFLA_DATA moves it."""

from __future__ import annotations

import os
from pathlib import Path

from krafla.tools.errors import AccessError

VARIABLE = "KRAFLA_DATA"


def root() -> Path:
    """The data folder, whether or not it exists yet."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("krafla", appauthor=False))


def room(name: str = "") -> Path:
    """A folder inside the data folder, made if needed; for its owner alone, since conversations are private."""
    path = root() / name
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        advice = f"set {VARIABLE} to a folder that can be written"
        raise AccessError(f"{path}: cannot make the folder: {error.strerror}; {advice}") from error
    return path
