"""`krafla doctor`: what this machine can run, whether it runs it right, and where things are kept."""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import krafla
from krafla.runtime import options
from krafla.runtime.cpu import cpu_name

EXAMPLES = options.examples("krafla doctor", "krafla doctor --quick", "krafla doctor --json > report.json")
#: Libraries whose versions a report should name.
PACKAGES = ("ziglang", "numpy", "click", "rich", "gguf", "safetensors", "huggingface_hub")
#: Variables that change what Krafla does. Of any other KRAFLA_ one the report only says that it is set: it may be
#: a secret.
VARIABLES = (
    *("KRAFLA_CACHE", "KRAFLA_DATA", "KRAFLA_DEBUG", "KRAFLA_TUNED"),
    *("NO_COLOR", "FORCE_COLOR", "TERM", "PYTHONIOENCODING", "ZIG_GLOBAL_CACHE_DIR"),
)


@click.command("doctor", epilog=EXAMPLES)
@click.option("--quick", is_flag=True, help="Leave out the self-test.")
@options.quiet_option
@options.json_option
def command(quick: bool, quiet: bool, as_json: bool) -> None:
    """Tell what this machine can run: a page to read, or to put into a bug report.

    Each ISA, or what the CPU lacks for it; a self-test of every usable ISA's kernels, bit for bit against plain C (at
    most ten seconds, after libraries for it were built, once); what can be built, and what each build was verified
    on; versions, and what the caches hold. The home folder is shown as ~. The exit code is 1 if a kernel fails.
    """
    from krafla.runtime import progress

    facts = examine()
    if not quick:
        from krafla.runtime import selftest

        with progress.console(quiet) as report:
            facts["selftest"] = [asdict(verdict) for verdict in selftest.run(report)]
    click.echo(json.dumps(facts) if as_json else describe(facts))
    if any(verdict["passed"] is False for verdict in facts["selftest"] or ()):
        raise click.exceptions.Exit(1)


def examine() -> dict[str, Any]:
    """Everything that the report says, but for the self-test."""
    from krafla.runtime import cache, data, host, system, zig
    from krafla.runtime.shelf import size

    found = host.survey()
    return {
        "krafla": krafla.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()} at {_at_home(sys.executable)}",
        "system": platform.platform(),
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "cpu": cpu_name(),
        "threads": system.threads(),
        "memory": system.memory(),
        "huge_pages": system.huge_pages(),
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
        "selftest": None,
        "builds": builds(),
        "zig": {"command": _at_home(" ".join(zig.command())), "target": zig.host_triple()},
        "packages": {name: _version(name) for name in PACKAGES},
        "variables": {
            name: _at_home(value) if name in VARIABLES else "(set)"
            for name, value in sorted(os.environ.items())
            if name in VARIABLES or name.startswith("KRAFLA_")
        },
        "cache": {
            "path": _at_home(str(cache.root())),
            "bytes": {name: size(cache.root() / name) for name in cache.ROOMS},
        },
        "data": {"path": _at_home(str(data.root())), "bytes": size(data.root())},
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
    threads, memory = facts["threads"], facts["memory"]
    usable = f", {threads['usable']} usable" if threads["usable"] not in (None, threads["hardware"]) else ""
    quota = f", at most {threads['quota']:g} CPUs at a time" if threads["quota"] else ""
    huge = (
        f"transparent huge pages: {facts['huge_pages']}"
        if facts["huge_pages"]
        else "no transparent huge pages"
    )
    lines = [
        f"krafla {facts['krafla']} on {facts['python']}",
        f"{facts['system']}" + (f", {facts['libc']}" if facts["libc"] else ""),
        f"{facts['cpu']}, {threads['hardware']} hardware threads{usable}{quota}",
        f"memory {_memory(memory)}; {huge}",
        "",
        *_isas(facts),
        "",
        *_caches(facts),
        "",
        *_versions(facts),
        "",
        "builds (python build.py --target TARGET --isa ISA), and what each was verified on:",
    ]
    for build in facts["builds"]:
        verified = ", ".join(build["verified"]) or "compiled only"
        lines.append(f"    {build['target']:<17}{build['isa']:<14}{verified}")
    return "\n".join(lines)


def _memory(memory: dict[str, int | None]) -> str:
    from krafla.runtime.text import megabytes

    names = {"total": "in all", "available": "available", "limit": "allowed"}
    parts = [f"{megabytes(size)} {names[key]}" for key, size in memory.items() if size]
    return ", ".join(parts) or "unknown"


def _isas(facts: dict[str, Any]) -> list[str]:
    verdicts = {verdict["isa"]: verdict for verdict in facts["selftest"] or ()}
    tested = "" if verdicts else "; without --quick their kernels are tested"
    lines = [f"ISAs (* is what runs here{tested}):"]
    for isa in sorted(facts["isas"], key=lambda isa: not isa["usable"]):
        mark = "*" if isa["name"] == facts["best"] else " "
        verdict = "usable" if isa["usable"] else f"needs {isa['missing']}"
        if isa["name"] in verdicts:
            verdict += f", {_verdict(verdicts[isa['name']])}"
        lines.append(f"  {mark} {isa['name']:<14}{verdict:<36}{isa['about']}")
    lines += [f"  {v['isa']}: {v['detail']}" for v in verdicts.values() if v["detail"]]
    return lines


def _verdict(verdict: dict[str, Any]) -> str:
    if verdict["passed"] is None:
        return "not tested"
    return f"{'PASS' if verdict['passed'] else 'FAIL'} ({verdict['ops']} kernels, {verdict['seconds']:.1f} s)"


def _caches(facts: dict[str, Any]) -> list[str]:
    from krafla.runtime.text import megabytes

    rooms = [f"  {name:<8}{megabytes(size):>9}" for name, size in facts["cache"]["bytes"].items()]
    kept = facts["data"]
    return [f"cache {facts['cache']['path']}", *rooms, f"data {kept['path']}, {megabytes(kept['bytes'])}"]


def _versions(facts: dict[str, Any]) -> list[str]:
    packages = ", ".join(f"{name} {version or '(missing)'}" for name, version in facts["packages"].items())
    variables = ", ".join(f"{name}={value}" for name, value in facts["variables"].items()) or "none of ours"
    compiler = facts["zig"]
    return [
        f"packages: {packages}",
        f"zig: {compiler['command']}, target {compiler['target']}",
        f"environment: {variables}",
    ]


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _at_home(text: str) -> str:
    """A path without the user's name."""
    home = str(Path.home())
    return text.replace(home, "~") if len(home) > 1 else text
