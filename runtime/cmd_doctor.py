"""`krafla doctor`: what this machine can run, and where things are kept."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import click

import krafla
from krafla.runtime import options
from krafla.runtime.cpu import cpu_name

EXAMPLES = options.examples("krafla doctor", "krafla doctor --json > report.json")


@click.command("doctor", epilog=EXAMPLES)
@options.json_option
def command(as_json: bool) -> None:
    """Tell what this machine can run (each ISA, or what it lacks), what can be built, and where things are kept."""
    facts = examine()
    click.echo(json.dumps(facts) if as_json else describe(facts))


def examine() -> dict[str, Any]:
    """Everything that the report says."""
    from krafla.runtime import cache, host, zig

    found = host.survey()
    return {
        "krafla": krafla.__version__,
        "python": f"{platform.python_version()} at {sys.executable}",
        "system": platform.platform(),
        "cpu": cpu_name(),
        "hardware_threads": os.cpu_count(),
        "isas": [
            {
                "name": isa.facts.name,
                "usable": isa.usable,
                "missing": isa.missing,
                "about": isa.facts.doc,
            }
            for isa in found
        ],
        "best": max((isa for isa in found if isa.usable), key=lambda isa: isa.facts.priority).facts.name,
        "builds": builds(),
        "zig": {"version": zig.version(), "command": " ".join(zig.command()), "target": zig.host_triple()},
        "cache": {
            "path": str(cache.root()),
            "bytes": {name: size(cache.root() / name) for name in cache.ROOMS},
        },
    }


def builds() -> list[dict[str, Any]]:
    """Every target and ISA that `build.py` makes, and the machines of the verification table that run it."""
    from krafla.runtime import targets, verify

    return [
        {
            "target": platform_.name,
            "isa": isa,
            "verified": [m.title for m in verify.MACHINES if (m.target, m.isa) == (platform_.name, isa)],
        }
        for platform_ in targets.PLATFORMS.values()
        for isa in targets.variants(platform_)
    ]


def describe(facts: dict[str, Any]) -> str:
    """The report for people."""
    lines = [
        f"krafla {facts['krafla']} on Python {facts['python']}",
        f"{facts['system']}",
        f"{facts['cpu']}, {facts['hardware_threads']} hardware threads",
        "",
        "ISAs:",
    ]
    for isa in sorted(facts["isas"], key=lambda isa: not isa["usable"]):
        mark = "*" if isa["name"] == facts["best"] else " "
        verdict = "usable" if isa["usable"] else f"needs {isa['missing']}"
        lines.append(f"  {mark} {isa['name']:<14}{verdict:<36}{isa['about']}")
    lines += ["", "Builds (python build.py --target TARGET --isa ISA), and what each was verified on:"]
    for build in facts["builds"]:
        verified = ", ".join(build["verified"]) or "compiled only"
        lines.append(f"    {build['target']:<17}{build['isa']:<14}{verified}")
    compiler, kept = facts["zig"], facts["cache"]
    lines += ["", f"zig {compiler['version']} ({compiler['command']}), target {compiler['target']}"]
    lines.append(f"cache {kept['path']}")
    lines += [f"  {name:<8}{bytes_ / 1e6:10.1f} MB" for name, bytes_ in kept["bytes"].items()]
    return "\n".join(lines)


def size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
