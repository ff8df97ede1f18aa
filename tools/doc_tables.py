"""Puts generated text between markers of a page, and leaves everything else as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from krafla.tools.errors import FormatError, access


def replace_between(page: Path, name: str, text: str) -> None:
    """Replace what lies between `<!-- NAME -->` and `<!-- /NAME -->` in a file."""
    with access(page, "read"):
        old = page.read_text(encoding="utf-8")
    new = replaced(old, page.name, name, text)
    with access(page, "write"):
        page.write_text(new, encoding="utf-8")


def replaced(old: str, page: str, name: str, text: str) -> str:
    """A page's text with something else between `<!-- NAME -->` and `<!-- /NAME -->`."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = old.partition(opening)
    _, end, after = rest.partition(closing)
    if not found or not end:
        raise FormatError(f"{page}: the markers {opening} and {closing} are not there")
    return f"{before}{opening}\n{text.strip()}\n{closing}{after}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], align: str = "---:|") -> str:
    """A Markdown table; all but the first column are aligned to the right, or as `align` says."""
    lines = [f"| {' | '.join(head)} |", f"|---|{align * (len(head) - 1)}"]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)
