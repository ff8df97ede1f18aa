"""Times llama.cpp or ik_llama.cpp; started by tools/bench_peers.py with the Python that has the peer installed.

Speaks JSON lines: every request names the work and the settings, every answer has "seconds" or "error". Needs nothing
but the standard library and the package `llama_cpp`, of any age (names that changed are looked up), or `ik_llama_cpp`.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import json
import sys
import time
from typing import Any

CACHE_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8}  # ggml_type
BATCH = 2048


class Peer:
    """A loaded model and one context per setting."""

    def __init__(self, package: Any, path: str) -> None:
        self.c = package
        package.llama_backend_init()
        parameters = package.llama_model_default_params()
        parameters.n_gpu_layers = 0
        load = self._function("llama_model_load_from_file", "llama_load_model_from_file")
        self.model = load(path.encode(), parameters)
        if not self.model:
            raise RuntimeError(f"{path}: the peer cannot load it")
        self.contexts: dict[tuple[Any, ...], tuple[Any, list[int]]] = {}

    def _function(self, *names: str) -> Any:
        for name in names:
            if hasattr(self.c, name):
                return getattr(self.c, name)
        raise RuntimeError(f"the peer has none of {', '.join(names)}")

    def context(self, request: dict[str, Any]) -> tuple[Any, list[int]]:
        """The context of a request's settings, and the length of its sequence."""
        key = tuple(request[name] for name in ("threads", "flash", "cache", "context"))
        if key not in self.contexts:
            p = self.c.llama_context_default_params()
            p.n_ctx, p.n_batch = request["context"], BATCH
            p.n_threads = p.n_threads_batch = request["threads"]
            if hasattr(p, "flash_attn_type"):
                p.flash_attn_type = int(request["flash"])
            else:
                p.flash_attn = request["flash"]
            p.type_k = CACHE_TYPES[request["cache"]]
            p.type_v = p.type_k if request["flash"] else CACHE_TYPES["f16"]  # a quantized V needs it
            made = self._function("llama_init_from_model", "llama_new_context_with_model")(self.model, p)
            if not made:
                raise RuntimeError("the peer refuses these settings")
            self.contexts[key] = (made, [0])
        return self.contexts[key]

    def run(self, request: dict[str, Any]) -> float:
        """Seconds for the work of a request."""
        context, length = self.context(request)
        self._cut(context, request["depth"])
        length[0] = min(length[0], request["depth"])
        self._decode(context, length, request["depth"] - length[0], BATCH)
        started = time.perf_counter()
        self._decode(context, length, request["tokens"], BATCH if request["kind"] == "prefill" else 1)
        return time.perf_counter() - started

    def _cut(self, context: Any, length: int) -> None:
        if hasattr(self.c, "llama_memory_seq_rm"):
            self.c.llama_memory_seq_rm(self.c.llama_get_memory(context), 0, length, -1)
        else:
            self._function("llama_kv_self_seq_rm", "llama_kv_cache_seq_rm")(context, 0, length, -1)

    def _decode(self, context: Any, length: list[int], count: int, step: int) -> None:
        get_batch = self.c.llama_batch_get_one
        for start in range(0, count, step):
            n = min(step, count - start)
            tokens = (ctypes.c_int32 * n)(*((length[0] + i) * 7919 % 250 + 3 for i in range(n)))
            position = (length[0], 0) if len(getattr(get_batch, "argtypes", ())) == 4 else ()
            if self.c.llama_decode(context, get_batch(tokens, n, *position)):
                raise RuntimeError("the peer cannot decode")
            length[0] += n


def load_package() -> Any:
    """The bindings that are installed; ik_llama_cpp leaves out some functions, which its library has."""
    try:
        return importlib.import_module("llama_cpp")
    except ModuleNotFoundError:
        package: Any = importlib.import_module("ik_llama_cpp._ctypes_api")
    package.__version__ = importlib.metadata.version("ik-llama-cpp-python")
    package.llama_log_callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    tokens = ctypes.POINTER(ctypes.c_int32)
    signatures: tuple[tuple[Any, ...], ...] = (
        ("llama_batch_get_one", package.llama_batch, tokens, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32),
        ("llama_kv_cache_seq_rm", ctypes.c_bool, ctypes.c_void_p, *[ctypes.c_int32] * 3),
        ("llama_log_set", None, package.llama_log_callback, ctypes.c_void_p),
        ("llama_print_system_info", ctypes.c_char_p),
    )
    for name, result, *arguments in signatures:
        function = getattr(package._lib, name)
        function.restype, function.argtypes = result, arguments
        setattr(package, name, function)
    return package


def main() -> None:
    """Answer requests until the input ends."""
    llama_cpp = load_package()
    silent = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p())
    peer = Peer(llama_cpp, sys.argv[1])
    features = llama_cpp.llama_print_system_info().decode()
    print(json.dumps({"version": llama_cpp.__version__, "features": features}), flush=True)
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"seconds": peer.run(json.loads(line))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
