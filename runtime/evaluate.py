"""`krafla eval`: how well a model predicts a text, and how close its logits are to those of another model or setting.

A text longer than the context is read in windows that overlap: each window after the first moves on by a stride and
scores the tokens that no window before it has scored, so every token is scored once, and all but those of the first
window after at least `window - stride` others. Where the model wants a beginning-of-text token, each window begins with
it. Logits are turned into figures as they come: of a text only the figures are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from krafla.runtime import progress
from krafla.runtime.bench_models import read_model
from krafla.runtime.engine import open_tokenizer
from krafla.runtime.model import Model
from krafla.runtime.resolve import ModelFiles
from krafla.tools import bootstrap
from krafla.tools.closeness import DTYPE, Array, figures
from krafla.tools.errors import FormatError, UsageError
from krafla.tools.svg_plot import Line, Plot

#: Positions of a window, unless the text, the model or the user says otherwise.
WINDOW = 2048
#: Bytes of logits that are held at once.
HELD = 32 << 20
BINS = 48
#: Positions from which on intervals take long enough to tell.
LONG = 20_000

PREDICTS: dict[str, bootstrap.Figure] = {"perplexity": lambda s: math.exp(s.mean("nats"))}
COMPARES: dict[str, bootstrap.Figure] = {
    **PREDICTS,
    "reference_perplexity": lambda s: math.exp(s.mean("reference_nats")),
    "perplexity_ratio": lambda s: math.exp(s.mean("nats") - s.mean("reference_nats")),
    "divergence": lambda s: s.mean("divergence"),
    "divergence_median": lambda s: s.quantile("divergence", 0.5),
    "divergence_90": lambda s: s.quantile("divergence", 0.9),
    "divergence_99": lambda s: s.quantile("divergence", 0.99),
    "agreement": lambda s: s.mean("agreement"),
    "logit_error": lambda s: math.sqrt(s.mean("squared_error")),
    "logit_spread": lambda s: s.mean("spread"),
}
#: Nothing can be said about how far a maximum is from that of other texts.
EXTREMES: dict[str, bootstrap.Figure] = {
    "divergence_largest": lambda s: s.largest("divergence"),
    "logit_error_largest": lambda s: s.largest("largest_error"),
}


@dataclass(frozen=True)
class Setting:
    """A model and how it is run."""

    files: ModelFiles
    isa: str | None = None
    kv: str = "f32"


@dataclass(frozen=True)
class Window:
    """Tokens to run from position 0; the logits from `first` on predict `following`."""

    ids: Sequence[int]
    first: int
    following: Sequence[int]


@dataclass(frozen=True)
class Cut:
    """How a text is cut into windows of at most `window` positions, `stride` tokens apart."""

    prefix: Sequence[int]  # before each window: the beginning-of-text token, or nothing
    text: Sequence[int]
    window: int
    stride: int

    def __post_init__(self) -> None:
        if not 1 <= self.stride < self.window:
            bounds = f"at least 1 and less than the window ({self.window})"
            raise UsageError(f"the stride is {self.stride}, must be {bounds}")
        if self.scored < 2:
            raise UsageError(f"the text has {len(self.text)} tokens, too few to predict one from another")

    @property
    def scored(self) -> int:
        """The tokens that are predicted: all that have one before them."""
        return len(self.text) - (not self.prefix)

    def __iter__(self) -> Iterator[Window]:
        ahead = len(self.prefix) - 1
        done = 0 if self.prefix else 1  # the next token of the text to be scored
        for start in range(0, len(self.text), self.stride):
            ids = [*self.prefix, *self.text[start : start + self.window - len(self.prefix)]]
            end = min(start + len(ids) - ahead, len(self.text))
            ids = ids[: end - start + ahead]
            yield Window(ids, done - start + ahead, self.text[done:end])
            if end == len(self.text):
                return
            done = end


@dataclass(frozen=True)
class Result:
    """What was found; the records have the fields of `krafla.tools.closeness.FIGURES`, one for each token scored."""

    records: Array
    isa: str
    against_isa: str | None
    threads: int


def read_text(data: bytes, name: str) -> str:
    """A text's characters; FormatError where it is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{name}: byte {error.start} is not UTF-8 ({error.reason})") from None


def built_in_text() -> str:
    """A text of the project's own, of about 1300 tokens, for when none is given."""
    return (Path(__file__).parent / "eval_text.txt").read_text(encoding="utf-8")


def cut(
    text: str,
    settings: Sequence[Setting],
    window: int | None = None,
    stride: int | None = None,
    limit: int | None = None,
    report: progress.Report = progress.silent,
) -> Cut:
    """The text as windows of tokens, which must be the same for all settings."""
    prefix, ids = _tokens(settings[0].files.mlb, text, limit, report)
    headers = [read_model(setting.files.mlb)[0] for setting in settings]
    for setting, header in zip(settings[1:], headers[1:], strict=True):
        name = setting.files.mlb.name
        if header.vocab != headers[0].vocab:
            raise UsageError(
                f"{name} has a vocabulary of {header.vocab}, {settings[0].files.mlb.name} one of {headers[0].vocab}: "
                "their predictions cannot be compared"
            )
        other = setting.files.tokenizer and setting.files.mlb != settings[0].files.mlb
        if other and _tokens(setting.files.mlb, text, limit, report) != (prefix, ids):
            raise UsageError(f"{name} turns the text into other tokens than {settings[0].files.mlb.name}")
    most = min(header.max_seq for header in headers)
    if window is not None and window > most:
        raise UsageError(f"the window is {window}, the model's context has {most} positions")
    size = window or max(min(most, WINDOW, len(prefix) + len(ids) - 1), 2)
    return Cut(prefix, ids, size, stride or max(size // 2, 1))


def _tokens(mlb: Path, text: str, limit: int | None, report: progress.Report) -> tuple[list[int], list[int]]:
    """What stands before a text, and its tokens; <s> and the like in it are plain text."""
    tokenizer = open_tokenizer(mlb, report)
    try:
        plain = tokenizer.encode(text, bos=False, added=False)
        full = tokenizer.encode(text, added=False)
    finally:
        tokenizer.close()
    return full[: len(full) - len(plain)], plain[:limit]


def evaluate(
    windows: Cut,
    setting: Setting,
    against: Setting | None = None,
    threads: int | None = None,
    batch: int | None = None,
    report: progress.Report = progress.silent,
    announce: Callable[[str], None] = lambda sentence: None,
) -> Result:
    """Run a text through one model, or two side by side; one record for each token scored, in order."""

    def load(one: Setting) -> Model:
        options = {"ctx": windows.window, "batch": batch, "report": report, "announce": announce}
        return Model.load(one.files.mlb, one.isa, threads, kv=one.kv, **options)  # type: ignore[arg-type]

    with load(setting) as model:
        if against is None:
            return Result(_records(windows, model, None, report), model.isa, None, model.config.threads)
        with load(against) as reference:
            records = _records(windows, model, reference, report)
            return Result(records, model.isa, reference.isa, model.config.threads)


def _records(windows: Cut, model: Model, reference: Model | None, report: progress.Report) -> Array:
    records = np.empty(windows.scored, DTYPE)
    done = 0
    batch = max(min(model.config.batch, HELD // (4 * model.config.vocab)), 1)
    report("evaluating", 0, windows.scored)
    for window in windows:
        streams = [one.logits_in_parts(window.ids, batch, window.first) for one in (model, reference) if one]
        at = 0
        for part, *others in zip(*streams, strict=True):
            if not all(np.isfinite(logits).all() for logits in (part, *others)):
                raise FormatError(f"{model.files.mlb.name}: logits after token {done + at} are not finite")
            following = window.following[at : at + len(part)]
            records[done + at : done + at + len(part)] = figures(part, following, *others)
            at += len(part)
            report("evaluating", done + at, windows.scored)
        done += at
    return records


def summary(records: Array, report: progress.Report = progress.silent) -> dict[str, bootstrap.Estimate]:
    """The figures of a text with their intervals."""
    compared = not np.isnan(records["divergence"]).any()

    def told(done: int, total: int) -> None:
        if len(records) > LONG:
            report("intervals", done, total)

    estimates = bootstrap.estimates(records, COMPARES if compared else PREDICTS, progress=told)
    if not compared:
        return estimates
    sample = bootstrap.Sample(bootstrap.Text(records))
    extremes = {name: bootstrap.Estimate(figure(sample)) for name, figure in EXTREMES.items()}
    return estimates | extremes


def plot(records: Array, title: str) -> Plot:
    """Means over stretches of the text: of the divergence, or of the loss where nothing is compared."""
    compared = not np.isnan(records["divergence"]).any()
    name, y = ("divergence", "KL, nats") if compared else ("nats", "loss, nats")
    edges = np.linspace(0, len(records), min(BINS, len(records)) + 1).astype(int)
    stretches = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    points = [((a + b) / 2, float(records[name][a:b].mean())) for a, b in stretches]
    return Plot(title, "token of the text", y, [Line(name if compared else "loss", points)])
