"""Makes .typing/krafla: links in the shape of the installed package, on which mypy checks a checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("codegen", "generated", "isa_specs", "runtime", "templates", "tools")


def main() -> None:
    """Make the folder anew."""
    package = ROOT / ".typing" / "krafla"
    package.mkdir(parents=True, exist_ok=True)
    for old in package.iterdir():
        old.unlink()
    for path in (ROOT / "krafla").iterdir():
        if path.is_file():
            (package / path.name).symlink_to(path)
    for room in ROOMS:
        (package / room).symlink_to(ROOT / room, target_is_directory=True)


if __name__ == "__main__":
    main()
