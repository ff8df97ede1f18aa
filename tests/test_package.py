"""The installed package: both ways to install give the two commands and no generic names."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GENERIC = ("codegen", "generated", "isa_specs", "runtime", "templates", "tools", "tests")

LOOK = """
import importlib.util, json, site, pathlib
import krafla, krafla.codegen, krafla.isa_specs, krafla.runtime.paths as paths
folder = pathlib.Path(site.getsitepackages()[0])
print(json.dumps({
    "names": sorted(path.name for path in folder.iterdir()),
    "found": [name for name in NAMES if importlib.util.find_spec(name)],
    "headers": sorted(path.name for path in paths.CSRC.rglob("*.h")),
    "sources": len(list(paths.CSRC.rglob("*.c"))),
    "kernels": len(list(paths.GENERATED.rglob("*.c"))),
}))
"""


def run(*command: str | Path, cwd: Path) -> str:
    result = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("editable", [False, True])
def test_install(tmp_path: Path, editable: bool) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    source = ["-e", str(ROOT)] if editable else [str(ROOT)]
    run(binaries / "python", "-m", "pip", "install", "--quiet", *source, cwd=tmp_path)
    assert "krafla" in run(binaries / "krafla", "--version", cwd=tmp_path)
    assert "--check" in run(binaries / "krafla-gen", "--help", cwd=tmp_path)
    look = f"NAMES = {GENERIC!r}\n{LOOK}"
    found = json.loads(run(binaries / "python", "-c", look, cwd=tmp_path))
    assert not set(found["names"]) & set(GENERIC)
    assert not found["found"]
    assert found["headers"] == sorted(path.name for path in (ROOT / "runtime" / "csrc").rglob("*.h"))
    assert found["sources"] == len(list((ROOT / "runtime" / "csrc").rglob("*.c")))
    assert found["kernels"] == len(list((ROOT / "generated").rglob("*.c"))) > 0
    doctor = json.loads(run(binaries / "krafla", "doctor", "--json", "--quick", cwd=tmp_path))
    assert doctor["best"] in [isa["name"] for isa in doctor["isas"] if isa["usable"]]
