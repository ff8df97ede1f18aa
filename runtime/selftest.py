"""The self-test of `krafla doctor`: every kernel of every usable ISA against its scalar twin, bit for bit.

It is runtime/csrc/app/test_kernels.c in a library, called by a process of its own: a kernel that crashes ends that.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from krafla.codegen.ops import OPS
from krafla.runtime import cache, host, progress, tuned
from krafla.runtime import compile as compiler
from krafla.runtime.isas import IsaFacts
from krafla.runtime.paths import CSRC, GENERATED

#: All ISAs together take no longer, once their libraries are there; what is left then counts as not tested.
SECONDS = 10.0
#: Functions and arrays of a file's own: everything that it declares but the kernel.
_OWN = re.compile(r"^(?!_Static_assert)\w[\w *]*?[ *](?!ml_)(\w+)(?=[(\[])", re.MULTILINE)
_PROGRAM = ("ml_ops.c", "core/pack.c", "app/op_table.c", "app/test_kernels.c")
_ENGINE = ("core/arena.c", "core/bundle.c", "core/error.c", "core/file.c", "core/memory.c", "model/mlb.c")
_ENTRY = """
ML_API int ml_selftest(void);
int ml_selftest(void)
{
    return ml_main(0, NULL);
}
"""
#: The check comes first: it asks the system for what needs asking, such as AMX's tiles.
_CALL = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
sys.exit(library.ml_isa_check(ctypes.byref(ctypes.c_void_p())) or library.ml_selftest())
"""


@dataclass(frozen=True)
class Verdict:
    """What became of an ISA's kernels."""

    isa: str
    passed: bool | None  # None: not tested
    ops: int
    seconds: float
    detail: str  # the first failure, or why it was not tested


def run(report: progress.Report = progress.silent) -> list[Verdict]:
    """Test every usable ISA, the plainest first."""
    usable = [isa.facts for isa in host.survey() if isa.usable]
    libraries = _build([_plan(facts) for facts in usable], report)
    verdicts = []
    end = time.monotonic() + SECONDS
    for done, (facts, library) in enumerate(zip(usable, libraries, strict=True)):
        report("testing kernels", done, len(usable))
        verdicts.append(_test(facts.name, library, end - time.monotonic()))
    report("testing kernels", len(usable), len(usable))
    return verdicts


def _build(plans: list[compiler.Plan], report: progress.Report) -> list[Path]:
    """The libraries, several at a time."""
    what = "building the self-test (only the first time)"
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        jobs = [pool.submit(compiler.build, plan) for plan in plans]
        try:
            for done, job in enumerate(as_completed(jobs), 1):
                job.result()
                report(what, done, len(jobs))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [job.result() for job in jobs]


def _plan(facts: IsaFacts) -> compiler.Plan:
    generated = tuned.folder(facts.name) or GENERATED
    text = _source(facts, generated)
    source = cache.room("lib") / f"selftest-{hashlib.sha256(text.encode()).hexdigest()[:20]}.c"
    if not source.is_file():
        with cache.replacing(source) as temporary:
            temporary.write_text(text, encoding="utf-8")
    plan = compiler.engine_plan(facts)
    kernels = [generated / name for name in facts.kernels]
    mcpu = facts.mcpu or compiler.BASELINE
    units = [compiler.Unit(source, mcpu), *(compiler.Unit(CSRC / name, mcpu) for name in _ENGINE)]
    units += [compiler.Unit(CSRC / name, compiler.BASELINE) for name in compiler.GUARDS]
    # For the digest: what the source includes. A header alone compiles to nothing.
    state = hashlib.sha256(b"".join(path.read_bytes() for path in [*kernels, *_included(facts)]))
    flags = (*plan.flags, f"-DML_SELFTEST_{state.hexdigest()[:20]}")
    return compiler.Plan(
        f"{facts.name}-selftest", plan.triple, tuple(units), flags, (generated, GENERATED, CSRC)
    )


def _twins(facts: IsaFacts) -> list[str]:
    """The scalar kernels that the ISA does not bind itself."""
    return [name for op in OPS if not op.optional and (name := f"scalar/{op.name}.c") not in facts.kernels]


def _included(facts: IsaFacts) -> list[Path]:
    program = [path for name in _PROGRAM for path in (GENERATED / name, CSRC / name) if path.is_file()]
    return [*(GENERATED / name for name in _twins(facts)), *program]


def _source(facts: IsaFacts, generated: Path) -> str:
    """All of it as one file: headers of intrinsics take longer to read than kernels to compile."""
    parts = [_include(name, generated) for name in facts.kernels]
    parts += [_include(name, GENERATED) for name in _twins(facts)]
    parts += [f'#include "{name}"\n' for name in _PROGRAM]
    return "".join(parts) + _ENTRY


def _include(name: str, folder: Path) -> str:
    """A kernel; functions of its own, which other files have under the same name, get its name for a while."""
    own = sorted(set(_OWN.findall((folder / name).read_text(encoding="utf-8"))))
    tag = name.removesuffix(".c").replace("/", "_")
    renamed = "".join(f"#define {function} {function}_{tag}\n" for function in own)
    return renamed + f'#include "{name}"\n' + "".join(f"#undef {function}\n" for function in own)


def _test(isa: str, library: Path, seconds: float) -> Verdict:
    started = time.monotonic()
    if seconds <= 0:
        return Verdict(isa, None, 0, 0.0, f"the other ISAs took {SECONDS:.0f} s already")
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CALL, str(library)],
            capture_output=True,
            text=True,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return Verdict(isa, None, 0, time.monotonic() - started, f"not finished after {seconds:.0f} s")
    lines = done.stdout.splitlines()
    failures = [line for line in lines if line.startswith("FAIL")]
    ops = sum(line.endswith((" equal", " FAILED")) for line in lines)
    detail = failures[0] if failures else ""
    if done.returncode and not failures:
        detail = (done.stderr.strip().splitlines() or [f"ended by {_ending(done.returncode)}"])[-1]
    return Verdict(isa, done.returncode == 0 and ops > 0, ops, time.monotonic() - started, detail)


def _ending(status: int) -> str:
    import signal

    try:
        return signal.Signals(-status).name if status < 0 else f"status {status}"
    except ValueError:
        return f"signal {-status}"
