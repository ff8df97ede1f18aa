"""Writes the parts of the docs that the code knows: options, exit codes, instruction sets.

`python -m krafla.runtime.document` writes them between their markers; --check only says which pages are out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator

import click

from krafla.codegen.registry import machines
from krafla.runtime import chat_commands
from krafla.runtime.cli import COMMANDS, cli
from krafla.runtime.paths import ROOT
from krafla.tools.doc_tables import replaced, table
from krafla.tools.errors import EXIT_CODES, KraflaError, access

LEFT = "---|"
#: Click's words for numbers, and shorter ones.
_NUMBERS = {"INTEGER RANGE": "N", "INTEGER": "N", "FLOAT RANGE": "X", "FLOAT": "X"}


def commands(group: click.Group = cli, name: str = "krafla") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by the words that call it."""
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {word}")
        elif command is not None:
            yield f"{name} {word}", command


def options_block(name: str, command: click.Command) -> str:
    """How a command is called, and its options."""
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    rows = []
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            rows.append((f"`{_short(record[0])}`", _cell(record[1])))
    return f"`{usage}`\n\n{table(('option', 'meaning'), rows, LEFT)}"


def _short(names: str) -> str:
    for long, short in _NUMBERS.items():
        names = names.replace(f" {long}", f" {short}")
    return names.replace("|", "\\|")


def _cell(text: str) -> str:
    return re.sub(r" +", " ", text).replace("|", "\\|")


def commands_block() -> str:
    """All commands with a link to their sections."""
    rows = [(f"[`krafla {name}`](#krafla-{name})", about) for name, about in COMMANDS.items()]
    return table(("command", "what it does"), rows, LEFT)


def chat_commands_block() -> str:
    """The commands inside `krafla chat`."""
    rows = [(f"`{one.usage}`", _cell(one.help)) for one in chat_commands.COMMANDS.values()]
    return table(("command", "what it does"), rows, LEFT)


def exit_codes_block() -> str:
    """What exit codes mean."""
    return table(("exit code", "meaning"), ((one.code, one.meaning) for one in EXIT_CODES), LEFT)


def isas_block() -> str:
    """The instruction sets, from the plainest to the richest of each family."""
    rows: list[tuple[str, ...]] = []
    for machine in machines().values():
        isa = machine.isa
        rounding = " / ".join(dict.fromkeys("F" if t.fused else "U" for t in isa.targets)) or "U"
        parent = f"`{isa.parent}`" if isa.parent else ""
        needs = ", ".join(filter(None, (parent, *isa.features))) or "nothing"
        rows.append((f"`{isa.name}`", isa.family, isa.doc.rstrip("."), needs, rounding))
    head = ("name", "family", "runs on", "needs", "class")
    rows.sort(key=lambda row: row[1])
    return table(head, rows, LEFT)


def classes_block() -> str:
    """Which instruction sets round a multiply-add once, and which twice."""
    names: dict[bool, list[str]] = {True: [], False: []}
    for machine in machines().values():
        kinds = {target.fused for target in machine.isa.targets}
        for fused in (True, False):
            systems = [t.triple.split("-")[0] for t in machine.isa.targets if t.fused == fused]
            if systems or (not kinds and not fused):
                where = f" on {', '.join(dict.fromkeys(systems))}" if len(kinds) > 1 else ""
                names[fused].append(machine.name + where)
    rows = [
        ("**F**, fused", "one rounding: `fma(a, b, c)`", ", ".join(names[True])),
        ("**U**, unfused", "two roundings: `a * b`, then `+ c`", ", ".join(names[False])),
    ]
    return table(("class", "`madd(a, b, c)`", "instruction sets"), rows, LEFT)


def pages() -> dict[str, dict[str, Callable[[], str]]]:
    """What is generated: by page, and by the name of its markers."""
    guide: dict[str, Callable[[], str]] = {
        "commands": commands_block,
        "chat commands": chat_commands_block,
        "exit codes": exit_codes_block,
        "instruction sets": isas_block,
    }
    for name, command in commands():
        guide[f"options of {name}"] = lambda name=name, command=command: options_block(name, command)  # type: ignore[misc]
    return {"docs/user-guide.md": guide, "docs/numerics.md": {"classes": classes_block}}


def stale(write: bool) -> list[str]:
    """The pages that are not as the code says, rewritten if `write`."""
    found = []
    for page, blocks in pages().items():
        path = ROOT / page
        with access(path, "read"):
            old = new = path.read_text(encoding="utf-8")
        for name, block in blocks.items():
            new = replaced(new, page, name, block())
        if new != old:
            found.append(page)
            if write:
                with access(path, "write"):
                    path.write_text(new, encoding="utf-8")
    return found


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; exit code 1 if a page is out of date.")
def main(check: bool) -> None:
    """Write the generated parts of the docs."""
    try:
        changed = stale(write=not check)
    except KraflaError as error:
        print(f"document: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    for page in changed:
        print(f"{page}: {'out of date' if check else 'written'}")
    sys.exit(1 if check and changed else 0)


if __name__ == "__main__":
    main()
