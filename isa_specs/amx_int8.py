"""amx_int8: the matrix unit for prefill, on avx512vnni's packed layout and cache file."""

from krafla.codegen.isa import Isa, Target
from krafla.codegen.tiles import AmxUnit, VectorTile
from krafla.isa_specs import avx512vnni

ISA = Isa(
    name="amx_int8",
    parent="avx512vnni",
    doc="Intel servers since Sapphire Rapids (2023).",
    family="x86",
    priority=60,
    targets=(Target("x86_64-linux", avx512vnni.ISA.targets[0].mcpu + "+amx_tile+amx_int8", fused=True),),
    headers=("core/x86_common.h",),
    features=("AMXTILE", "AMXINT8"),
    tile=VectorTile(sizes=(12, 8, 4, 2, 1), matrix=AmxUnit()),
)
