"""What the converter knows about each architecture: names of tensors, configuration keys, RoPE layout.

Every key of a checkpoint's configuration has a rule. A key without one is an error that lists it: a model
that asks for something unknown would run, but say nonsense.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from krafla.tools.errors import FormatError
from krafla.tools.mlb import ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN, Header
from krafla.tools.orders import Order, pairs
from krafla.tools.quantize import F32, Q4Rule


@dataclass
class Settings:
    """Header fields collected from a configuration, and the flags of layers."""

    fields: dict[str, int | float] = field(default_factory=dict)
    layer_flags: bytes = b""
    dropped: tuple[str, ...] = ()  # tensors that this checkpoint has beyond the model, as regular expressions


@dataclass(frozen=True)
class To:
    """The key's value goes into a field of the header; null counts as absent, unless it stands for a value."""

    field: str
    null: float | None = None


@dataclass(frozen=True)
class Only:
    """Any other value asks for something that is not supported."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Skip:
    """The key does not change what the model computes."""


@dataclass(frozen=True)
class Special:
    """A function of the architecture reads the key."""


Rule = To | Only | Skip | Special
Config = Mapping[str, Any]
# Reads special keys: (configuration, its name for messages, settings so far).
Reader = Callable[[Config, str, Settings], None]


ROTATED = ("wq", "wk", "bq", "bk", "q_norm", "k_norm")


@dataclass(frozen=True)
class Architecture:
    """How one architecture's checkpoints of one kind map to an .mlb file."""

    rules: Mapping[str, Rule]
    names: Mapping[str, str]  # our name to theirs; {i} is the layer
    features: Mapping[str, int] = field(default_factory=dict)  # header fields that the architecture implies
    defaults: Mapping[str, int | float] = field(default_factory=dict)  # for keys that a file may leave out
    readers: tuple[Reader, ...] = ()
    halves: bool = False  # RoPE pairs dimension i with i + half, to be interleaved
    dropped: tuple[str, ...] = ()  # tensors that are not needed, as regular expressions
    nested: str = ""  # the key under which the text model's configuration stands
    outer: Mapping[str, Rule] = field(default_factory=dict)  # of the keys around the nested ones
    renames: tuple[tuple[str, str], ...] = ()  # prefixes of their tensors to replace
    # By our short names: which of their rows (or columns) are ours, how many times the rows theirs have, and
    # what to make of a value.
    orders: Mapping[str, Order] = field(default_factory=dict)
    columns: Mapping[str, Order] = field(default_factory=dict)
    times: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Callable[[F32], F32]] = field(default_factory=dict)
    q4_rule: Q4Rule = "search"  # unless asked otherwise; checkpoints trained for Q4_0 expect rounding

    def order(self, name: str, header: Header) -> Order | None:
        """The order of a tensor's rows, if it is not theirs."""
        if name not in self.orders and self.halves and name in ROTATED:
            return pairs
        return self.orders.get(name)


def plus_one(values: F32) -> F32:
    """Norms that multiply by 1 + w."""
    return values + 1


# --- Scaling of RoPE

ROPE_KEYS: dict[str, set[str]] = {
    "default": set(),
    "linear": {"factor"},
    "llama3": {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
    "yarn": {
        "factor",
        "original_max_position_embeddings",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
    },
}


ROPE_REQUIRED: dict[str, set[str]] = {
    "default": set(),
    "linear": {"factor"},
    "llama3": ROPE_KEYS["llama3"],
    "yarn": {"factor"},
}


def rope_default(values: Config, where: str, settings: Settings) -> None:
    """Nothing to set."""


def rope_linear(values: Config, where: str, settings: Settings) -> None:
    """All frequencies divided by a factor."""
    settings.fields |= {"rope_type": ROPE_LINEAR, "rope_factor": float(values["factor"])}


def rope_llama3(values: Config, where: str, settings: Settings) -> None:
    """Long wavelengths stretched, short ones kept."""
    settings.fields |= {
        "rope_type": ROPE_LLAMA3,
        "rope_factor": float(values["factor"]),
        "rope_low_freq_factor": float(values["low_freq_factor"]),
        "rope_high_freq_factor": float(values["high_freq_factor"]),
        "rope_orig_max_seq": int(values["original_max_position_embeddings"]),
    }


def rope_yarn(values: Config, where: str, settings: Settings) -> None:
    """A ramp over dimensions, and a factor on cosines and sines."""
    if not values.get("truncate", True):
        raise FormatError(f"{where}: yarn scaling with truncate false is not supported")
    factor = float(values["factor"])
    settings.fields |= {
        "rope_type": ROPE_YARN,
        "rope_factor": factor,
        "rope_low_freq_factor": float(values.get("beta_fast") or 32),
        "rope_high_freq_factor": float(values.get("beta_slow") or 1),
        "rope_orig_max_seq": int(
            values.get("original_max_position_embeddings") or settings.fields["max_seq"]
        ),
        "rope_attn_factor": float(values.get("attention_factor") or yarn_attention_factor(factor, values)),
    }


def yarn_attention_factor(factor: float, values: Config) -> float:
    """Yarn's factor on cosines and sines when the configuration does not name it, as transformers has it."""

    def magnitude(scale: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0

    mscale, all_dim = values.get("mscale"), values.get("mscale_all_dim")
    if mscale and all_dim:
        return magnitude(float(mscale)) / magnitude(float(all_dim))
    return magnitude(1.0)


ROPE_READERS: dict[str, Reader] = {
    "default": rope_default,
    "linear": rope_linear,
    "llama3": rope_llama3,
    "yarn": rope_yarn,
}


REQUIRED = ("dim", "n_layers", "n_heads", "hidden_dim", "max_seq")


def read_settings(architecture: Architecture, config: Config, where: str) -> Settings:
    """Apply the rules to a configuration."""
    settings = Settings(dict(architecture.defaults))
    if architecture.nested and architecture.nested in config:
        inner = config[architecture.nested]
        if not isinstance(inner, Mapping):
            raise FormatError(f"{where}: {architecture.nested} must hold an object")
        outer = {key: value for key, value in config.items() if key != architecture.nested}
        _apply(architecture.rules, inner, f"{where}: {architecture.nested}", settings)
        _apply(architecture.outer, outer, where, settings)
        config = inner
    else:
        _apply(architecture.rules, config, where, settings)
    for name in REQUIRED:
        if name not in settings.fields:
            keys = " or ".join(k for k, r in architecture.rules.items() if r == To(name))
            raise FormatError(f"{where}: {keys} is missing")
        if settings.fields[name] <= 0:
            raise FormatError(f"{where}: {name} is {settings.fields[name]}, must be positive")
    if "num_key_value_heads" in architecture.rules and config.get("num_key_value_heads", 0) is None:
        settings.fields.pop("n_kv_heads", None)
    settings.fields.setdefault("n_kv_heads", settings.fields["n_heads"])
    settings.fields |= architecture.features
    try:
        for reader in architecture.readers:
            reader(config, where, settings)
    except (TypeError, ValueError, AttributeError, ArithmeticError, KeyError) as error:
        raise FormatError(f"{where}: RoPE, window or layer settings cannot be read: {error}") from error
    return settings


def _apply(rules: Mapping[str, Rule], config: Config, where: str, settings: Settings) -> None:
    if unknown := sorted(set(config) - set(rules)):
        keys = "key" if len(unknown) == 1 else "keys"
        raise FormatError(f"{where}: unknown configuration {keys} {', '.join(unknown)}")
    for key, value in config.items():
        rule = rules[key]
        if isinstance(rule, Only) and value not in rule.values:
            raise FormatError(f"{where}: {key} is {value!r}, only {rule.values[0]!r} is supported")
        if isinstance(rule, To) and value is None:
            value = rule.null
        if isinstance(rule, To) and value is not None:
            if not isinstance(value, int | float):
                raise FormatError(f"{where}: {key} is {value!r}, must be a number")
            settings.fields[rule.field] = int(value) if isinstance(value, bool) else value


# --- llama2.c: tensors already carry our names

_LLAMA2C_FIELDS = "dim hidden_dim n_layers n_heads n_kv_heads vocab max_seq shared_classifier"
_LLAMA2C_LAYER = "attn_norm wq wk wv wo ffn_norm w1 w2 w3"
LLAMA2C = {
    "llama2c": Architecture(
        rules={key: To(key) for key in _LLAMA2C_FIELDS.split()},
        names={name: name for name in ("tok_emb", "final_norm", "wcls")}
        | {f"layers.{{i}}.{name}": f"layers.{{i}}.{name}" for name in _LLAMA2C_LAYER.split()},
    )
}
