"""ctypes bindings of the engine, made from the prototypes, structs and enums of krafla.h."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from krafla.runtime import header as headers
from krafla.runtime.paths import CSRC
from krafla.tools.errors import (
    AccessError,
    FormatError,
    IsaError,
    KraflaError,
    OutOfMemoryError,
    ShapeError,
    UsageError,
)

SCALARS: dict[str, Any] = {
    "void": None,
    "bool": ctypes.c_bool,
    "char": ctypes.c_char,
    "int": ctypes.c_int,
    "int8_t": ctypes.c_int8,
    "uint8_t": ctypes.c_uint8,
    "int16_t": ctypes.c_int16,
    "uint16_t": ctypes.c_uint16,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}

ERRORS: dict[str, type[KraflaError]] = {
    "ML_E_IO": AccessError,
    "ML_E_FORMAT": FormatError,
    "ML_E_SHAPE": ShapeError,
    "ML_E_NOMEM": OutOfMemoryError,
    "ML_E_ISA": IsaError,
    "ML_E_UNSUPPORTED": FormatError,
    "ML_E_ARGUMENT": UsageError,
}


class Declarations:
    """The ctypes types of everything that a header declares."""

    def __init__(self, declared: headers.Header) -> None:
        self._opaque = declared.opaque
        self.types: dict[str, Any] = {**SCALARS, **dict.fromkeys(declared.enums, ctypes.c_int)}
        for name, callback in declared.callbacks.items():
            arguments = [self.ctype(parameter.type) for parameter in callback.parameters]
            self.types[name] = ctypes.CFUNCTYPE(self.ctype(callback.result), *arguments)
        for name, fields in declared.structs.items():
            layout = [(parameter.name, self.ctype(parameter.type)) for parameter in fields]
            self.types[name] = type(name, (ctypes.Structure,), {"_fields_": layout})

    def ctype(self, declared: headers.CType) -> Any:
        """The ctypes type of a C type; strings are c_char_p, what only C looks into is c_void_p."""
        base, pointers = declared.base, declared.pointers
        if base == "char" and pointers == 1 and declared.length is None:
            return ctypes.c_char_p
        if pointers and (base in ("void", "char") or base in self._opaque):
            kind: Any = ctypes.c_void_p
            pointers -= 1
        elif base in self.types:
            kind = self.types[base]
        else:
            raise headers.HeaderError(f"unknown type {base}")
        for _ in range(pointers):
            kind = ctypes.POINTER(kind)
        return kind if declared.length is None else kind * declared.length


class Api:
    """The functions (`fn`), types (`types`) and constants (`const`) of a loaded library.

    A function that returns ml_status and ends in `ml_error *error` is called without that argument and raises
    the KraflaError of its status.
    """

    def __init__(self, path: Path) -> None:
        declared = headers.read(CSRC)
        self._declarations = Declarations(declared)
        self.types = SimpleNamespace(**self._declarations.types)
        self.const = SimpleNamespace(**declared.constants)
        self._errors = {declared.constants[name]: error for name, error in ERRORS.items()}
        try:
            self.library = ctypes.CDLL(str(path))
        except OSError as error:
            raise AccessError(f"{path}: cannot load the library: {error}") from error
        self.fn = SimpleNamespace(**{name: self._bind(f) for name, f in declared.functions.items()})

    def _bind(self, declared: headers.Function) -> Callable[..., Any]:
        function = getattr(self.library, declared.name)
        ctype = self._declarations.ctype
        function.restype = ctype(declared.result)
        function.argtypes = [ctype(parameter.type) for parameter in declared.parameters]
        last = declared.parameters[-1].type if declared.parameters else None
        if declared.result.base != "ml_status" or last != headers.CType("ml_error", 1):
            return function  # type: ignore[no-any-return]
        error_type = self.types.ml_error

        def checked(*arguments: Any) -> None:
            error = error_type()
            status = function(*arguments, ctypes.byref(error))
            if status:
                message = error.message.decode("utf-8", "replace") or f"{declared.name}: status {status}"
                raise self._errors.get(status, KraflaError)(message)

        return checked
