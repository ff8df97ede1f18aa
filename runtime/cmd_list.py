"""`krafla list`: the models that are here."""

from __future__ import annotations

import json
from typing import Any

import click

from krafla.runtime import options

EXAMPLES = options.examples("krafla list", "krafla list --json")


@click.command("list", epilog=EXAMPLES)
@options.json_option
def command(as_json: bool) -> None:
    """List the models that are here: downloaded, converted, or both, with their sizes.

    The name is what -m, `krafla show` and `krafla rm` take. Conversions of your own files are listed by the file's
    path; the file itself is not the cache's. An outdated conversion is of a file that has changed or is gone, or by
    an older Krafla.
    """
    from krafla.runtime import cache, shelf

    rows: list[dict[str, Any]] = [
        {
            "name": entry.name,
            "state": entry.state,
            "download_bytes": entry.download_bytes,
            "conversion_bytes": entry.conversion_bytes,
            "paths": [str(path) for path in (*entry.download, *entry.conversion)],
        }
        for entry in shelf.entries()
    ]
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
    elif rows:
        click.echo(_table(rows))
    else:
        click.echo(f"no models yet in {cache.root()}; `krafla pull` lists what can be downloaded", err=True)


def _table(rows: list[dict[str, Any]]) -> str:
    from krafla.runtime.text import megabytes

    width = max(len("model"), *(len(row["name"]) for row in rows))
    lines = [f"{'model':<{width}}  {'download':>9}  {'converted':>9}  state"]
    for row in rows:
        sizes = (megabytes(row[key]) if row[key] else "-" for key in ("download_bytes", "conversion_bytes"))
        lines.append(f"{row['name']:<{width}}  {next(sizes):>9}  {next(sizes):>9}  {row['state']}")
    return "\n".join(lines)
