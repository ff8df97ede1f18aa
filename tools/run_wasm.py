"""Runs a WASI program under wasmtime: `python -m krafla.tools.run_wasm PROGRAM.wasm [ARGUMENT]…`; it sees all files."""

from __future__ import annotations

import sys
from pathlib import Path


def run(program: Path, arguments: list[str], simd: bool = True) -> int:
    """Run the program with this process's standard streams; its exit code."""
    import wasmtime

    config = wasmtime.Config()
    if not simd:
        config.wasm_relaxed_simd = False
        config.wasm_simd = False
    engine = wasmtime.Engine(config)
    wasi = wasmtime.WasiConfig()
    wasi.argv = [program.name, *arguments]
    wasi.inherit_stdin()
    wasi.inherit_stdout()
    wasi.inherit_stderr()
    wasi.preopen_dir("/", "/")
    store = wasmtime.Store(engine)
    store.set_wasi(wasi)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    instance = linker.instantiate(store, wasmtime.Module.from_file(engine, str(program)))
    start = instance.exports(store)["_start"]
    assert isinstance(start, wasmtime.Func)
    try:
        start(store)
    except wasmtime.ExitTrap as trap:
        return trap.code
    return 0


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
