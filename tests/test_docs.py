"""The docs: generated parts are current, links lead somewhere, exit codes are those of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from krafla.runtime import cli, document
from krafla.runtime.paths import ROOT
from krafla.tools import errors
from krafla.tools.doc_tables import replaced
from krafla.tools.errors import EXIT_CODES, FormatError, KraflaError

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_generated_parts_are_current() -> None:
    outdated = document.stale(write=False)
    assert not outdated, "run `python -m krafla.runtime.document`"


def test_the_check_notices_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    for page in document.pages():
        text = (ROOT / page).read_text(encoding="utf-8")
        (tmp_path / page).write_text(text.replace("| 130 |", "| 131 |"), encoding="utf-8")
    monkeypatch.setattr(document, "ROOT", tmp_path)
    found = CliRunner().invoke(document.main, ["--check"])
    assert (found.exit_code, found.output) == (1, "docs/user-guide.md: out of date\n")
    assert CliRunner().invoke(document.main).output == "docs/user-guide.md: written\n"
    assert CliRunner().invoke(document.main, ["--check"]).exit_code == 0
    guide = tmp_path / "docs" / "user-guide.md"
    assert guide.read_bytes() == (ROOT / "docs" / "user-guide.md").read_bytes()


def test_markers_must_be_there() -> None:
    assert replaced("a\n<!-- x -->\nold\n<!-- /x -->\nb", "p.md", "x", "new\n") == (
        "a\n<!-- x -->\nnew\n<!-- /x -->\nb"
    )
    with pytest.raises(FormatError, match=r"p\.md: the markers <!-- x --> and <!-- /x --> are not there"):
        replaced("<!-- x -->", "p.md", "x", "new")


def test_every_command_has_its_options_in_the_guide() -> None:
    guide = (ROOT / "docs" / "user-guide.md").read_text(encoding="utf-8")
    for name, command in document.commands():
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else ():
                block = guide.partition(f"<!-- options of {name} -->")[2].partition("<!-- /")[0]
                assert option in block, (name, option)


def test_exit_codes_are_all_listed() -> None:
    listed = {one.code for one in EXIT_CODES}
    classes = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, KraflaError)]
    assert len(classes) == 7
    assert {one.code for one in classes} | {0, cli.INTERRUPTED} == listed
    programs = (ROOT / "runtime" / "csrc" / "app" / "main_guard.h").read_text(encoding="utf-8")
    assert {int(code) for code in re.findall(r"ML_EXIT_\w+ = (\d+)", programs)} | {cli.INTERRUPTED} == listed


def links(page: Path) -> Iterator[str]:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
    yield from re.findall(r"\]\(([^)\s]+)\)", text)


def anchors(page: Path) -> set[str]:
    """The anchors of headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def test_every_page_is_linked_from_another() -> None:
    linked = {(page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in links(page)}
    assert {page for page in PAGES if page.name != "README.md"} <= linked


def test_the_readme_names_every_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in cli.COMMANDS:
        assert f"krafla {name}" in readme, name
