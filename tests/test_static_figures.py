"""Inner loops are found in assembly, and what llvm-mca says about them becomes figures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from krafla.codegen.registry import machines
from krafla.tools import static_figures
from krafla.tools.errors import AccessError, KraflaError

# Four cycles per turn however many instructions there are, half a cycle for each of them.
FAKE = """#!{python}
import sys
if "--version" in sys.argv:
    print("LLVM version 0.0")
else:
    lines = len(sys.stdin.read().split("\\n"))
    print(f"Total Cycles:      400\\nBlock RThroughput: {{lines / 2}}")
"""


@pytest.fixture
def mca(tmp_path: Path) -> str:
    path = tmp_path / "mca"
    path.write_text(FAKE.format(python=sys.executable), encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_loops() -> None:
    """Only straight runs back to their own label; comments and directives are left out."""
    text = """
outer:
    mov x0, #0  // start
inner:  // =>
    .loc 1
    sdot v0.4s, v1.16b, v2.4b[0]
    smmla v3.4s, v1.16b, v2.16b
    fmla v4.4s, v5.4s, v6.4s
    subs x1, x1, #1
    b.ne inner
    cbnz x2, outer
.LBB0_1:
    cbz x3, .LBB0_1
"""
    first, second = static_figures.loops(text)
    assert [line.split()[0] for line in first.body] == ["sdot", "smmla", "fmla", "subs", "b.ne"]
    assert first.macs == 48
    assert (len(first.products), len(first.needed)) == (2, 3)
    assert second.body == ("cbz x3, .LBB0_1",)


@pytest.mark.parametrize("isa", sorted(set(static_figures.CORES.values())))
@pytest.mark.parametrize("kernel", static_figures.KERNELS)
def test_every_kernel_has_its_loop(isa: str, kernel: str, mca: str) -> None:
    """The largest tile's loop does whole blocks: 32 products per row and token; a step of attention's tile."""
    found = static_figures.figure(mca, "core", static_figures.supplier(isa, kernel), kernel)
    machine = machines()[isa]
    tile, pack, block = machine.tile, machine.pack, machine.f32.block
    assert tile is not None and pack is not None
    expected = {
        "matmul": (pack.dot.group, tile.sizes[0]),
        "matvec": (pack.dot.group * pack.groups, 1),
        "dot": (machine.f32.lanes * block.vectors, block.queries),
        "axpy": (machine.f32.lanes * block.vectors, block.queries),
        "dot_q8": (pack.dot.group, block.queries),
    }
    assert (found.rows, found.tokens) == expected.get(kernel, expected[kernel.split("_")[0]])
    assert found.cycles == 4
    assert 0 < found.limit <= found.needed < found.instructions / 2
    assert (found.limit < found.needed) == (kernel.startswith("mat") or kernel == "axpy_q8")


@pytest.mark.parametrize("isa", static_figures.COUNTED)
def test_counted_loops(isa: str) -> None:
    name, shape, instructions = static_figures.counted(isa, "matmul_q8_pk")
    machine = machines()[isa]
    assert machine.pack is not None and machine.tile is not None
    assert name == f"{isa}: `matmul_q8_pk`"
    assert shape == f"{machine.pack.dot.group} x {machine.tile.sizes[0]}"
    assert 16 / max(static_figures.COUNTED[isa].values()) < float(instructions) < 20


def test_the_table(mca: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_figures, "KERNELS", ("matvec_q8_pk",))
    page = tmp_path / "page.md"
    page.write_text("<!-- arm -->\n<!-- /arm -->\n<!-- counted -->\n<!-- /counted -->\n", encoding="utf-8")
    done = CliRunner().invoke(static_figures.main, ["--mca", mca, "--write", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert "LLVM version 0.0:" in text
    assert text.count("`matvec_q8_pk`") == len(static_figures.CORES) + len(static_figures.COUNTED)


def test_without_llvm_mca(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="cannot be started: No such file"):
        static_figures.simulate(str(tmp_path / "nonesuch"), "cortex-a53", ("nop",))
    with pytest.raises(KraflaError, match="llvm-mca for cortex-a53"):
        static_figures.simulate("true", "cortex-a53", ("nop",))
