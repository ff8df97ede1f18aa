"""Puts generated text between markers of a page, and leaves everything else as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from krafla.tools.errors import FormatError, access


def replace_between(page: Path, name: str, text: str) -> None:
    """Replace what lies between `<!-- NAME -->` and `<!-- /NAME -->`."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    with access(page, "read"):
        old = page.read_text(encoding="utf-8")
    before, found, rest = old.partition(opening)
    _, end, after = rest.partition(closing)
    if not found or not end:
        raise FormatError(f"{page.name}: the markers {opening} and {closing} are not there")
    with access(page, "write"):
        page.write_text(f"{before}{opening}\n{text.strip()}\n{closing}{after}", encoding="utf-8")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; all but the first column are aligned to the right."""
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)
