"""Krafla and a peer side by side on the same weights: A B A B ..., medians and ratios.

The peer (llama-cpp-python or ik-llama-cpp-python, compiled for this CPU) lives in an environment of its own; give its
Python. Weights come from GGUF files of type Q8_0 or Q4_0, which Krafla runs converted. Ratios are between the best
settings of each: every setting runs once, then the best one of each engine takes part in all rounds.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import click

from krafla.runtime.bench_library import Library
from krafla.runtime.bench_models import Limits, Runner, Setting, Work, read_model
from krafla.runtime.cpu import cpu_name
from krafla.tools.convert import Options, convert
from krafla.tools.errors import KraflaError, UsageError
from krafla.tools.gguf_file import read_gguf

WORKER = Path(__file__).with_name("peer_worker.py")
Timer = Callable[[Work], float]


class PeerError(KraflaError):
    """The peer refuses a setting, or fails."""


@dataclass(frozen=True)
class Comparison:
    """One kind of work on one model: medians in tokens per second."""

    model: str
    work: Work
    threads: int
    isa: str
    krafla: float
    krafla_setting: str
    peer: float
    peer_setting: str
    ratio: float
    spread: float  # the ratios' range over the rounds, relative to their median
    limit: str
    share: float  # of the machine's limit that Krafla reaches
    rounds: int


@dataclass
class PeerProcess:
    """The worker on one model; `timer` gives a function that times work under a setting."""

    command: Sequence[str]
    gguf: Path
    about: dict[str, Any] = field(default_factory=dict)

    def __enter__(self) -> PeerProcess:
        whole = [*self.command, str(self.gguf)]
        self._process = subprocess.Popen(whole, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.about = self._answer()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def timer(self, **setting: Any) -> Timer:
        """A function that gives the seconds that work takes."""

        def seconds(work: Work) -> float:
            assert self._process.stdin
            self._process.stdin.write(json.dumps({**asdict(work), **setting}) + "\n")
            self._process.stdin.flush()
            answer = self._answer()
            if "error" in answer:
                raise PeerError(answer["error"])
            return float(answer["seconds"])

        return seconds

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise KraflaError(f"the peer ended: {' '.join(self.command)} says why above")
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass(frozen=True)
class Bench:
    """What is compared, and how."""

    command: Sequence[str]
    isa: str | None
    works: Sequence[Work]
    threads: Sequence[int]
    kv: Sequence[str] = ("f32", "f16", "q8")
    batch: Sequence[int] = (128, 512)
    flash: Sequence[bool] = (True, False)
    cache: Sequence[str] = ("f16", "q8_0")
    rounds: int = 5

    def run(self, gguf: Path, mlb: Path) -> Iterator[Comparison]:
        """Compare on one model."""
        context = -(-max(work.depth + work.tokens for work in self.works) // 256) * 256
        with PeerProcess(self.command, gguf) as peer:
            for threads in self.threads:
                theirs = {
                    f"{'flash, ' if flash else ''}{cache}": peer.timer(
                        threads=threads, flash=flash, cache=cache, context=context
                    )
                    for flash in self.flash
                    for cache in self.cache
                }
                best = self._scout(mlb, threads, context)
                for setting in dict.fromkeys(best.values()):
                    with Runner(mlb, setting, context) as runner:
                        limits = Limits(Library(runner.isa, ops=()), *read_model(mlb))
                        for work in (work for work in self.works if best[work] == setting):
                            yield self._compare(gguf.stem, work, runner, theirs, limits)

    def _scout(self, mlb: Path, threads: int, context: int) -> dict[Work, Setting]:
        """Krafla's best setting for each work; one engine is open at a time, because models may be large."""
        seconds: dict[Work, dict[Setting, float]] = {work: {} for work in self.works}
        for kv in self.kv:
            for batch in self.batch:
                setting = Setting(isa=self.isa, threads=threads, batch=batch, kv=kv)
                with Runner(mlb, setting, context) as runner:
                    for work, own in seconds.items():
                        own[setting] = min(runner.run(work) for _ in range(2))
        return {work: min(own, key=own.__getitem__) for work, own in seconds.items()}

    def _compare(
        self, model: str, work: Work, runner: Runner, theirs: dict[str, Timer], limits: Limits
    ) -> Comparison:
        other = _best(theirs, work)
        runner.run(work)
        pairs = [(runner.run(work), theirs[other](work)) for _ in range(self.rounds)]
        ratios = [peer / krafla for krafla, peer in pairs]
        ours, peers = (statistics.median(column) for column in zip(*pairs, strict=True))
        least = limits.seconds(work, runner.setting)
        limit = max(least, key=least.__getitem__)
        return Comparison(
            model=model,
            work=work,
            threads=runner.setting.threads,
            isa=runner.isa,
            krafla=work.tokens / ours,
            krafla_setting=f"{runner.setting.kv}, batch {runner.setting.batch}",
            peer=work.tokens / peers,
            peer_setting=other,
            ratio=peers / ours,
            spread=(max(ratios) - min(ratios)) / statistics.median(ratios),
            limit=limit,
            share=least[limit] / ours,
            rounds=self.rounds,
        )


def _best(timers: dict[str, Timer], work: Work) -> str:
    """The peer's fastest setting; those that it refuses are out. The first run of each warms up only."""
    seconds, refusals = {}, []
    for name, timer in timers.items():
        try:
            seconds[name] = min(timer(work) for _ in range(2))
        except PeerError as error:
            refusals.append(f"{name}: {error.message}")
    if not seconds:
        raise KraflaError(f"no setting of the peer works: {'; '.join(refusals)}")
    return min(seconds, key=seconds.__getitem__)


def converted(gguf: Path, folder: Path, f16_scales: bool) -> Path:
    """The model as an .mlb in `folder`, of the type that most of its weights have."""
    matrices = [t.kind.name for t in read_gguf(gguf).tensors.values() if len(t.shape) == 2]
    kind = max(set(matrices), key=matrices.count).lower()
    if kind not in ("q8_0", "q4_0"):
        raise UsageError(f"{gguf.name}: its weights are {kind.upper()}, must be Q8_0 or Q4_0")
    path = folder / f"{gguf.stem}{'-f16' if f16_scales else ''}.mlb"
    if not path.exists() or path.stat().st_mtime < gguf.stat().st_mtime:
        convert(
            gguf,
            path,
            Options(type="q4_0" if kind == "q4_0" else "q8_0", f16_scales=f16_scales, tokenizer=False),
        )
    return path


def cells(one: Comparison) -> tuple[str, ...]:
    """A row as words: work, threads, each engine's setting and tokens per second, ratio, share of the limit."""
    return (
        f"{one.model}: {one.work}",
        str(one.threads),
        f"{one.isa}, {one.krafla_setting}",
        f"{one.krafla:.1f}",
        one.peer_setting,
        f"{one.peer:.1f}",
        f"**{one.ratio:.2f}** ±{one.spread / 2:.0%}",
        f"{one.share:.0%} ({one.limit})",
    )


def _list(convert_one: Callable[[str], Any]) -> Callable[..., Any]:
    def split(context: click.Context, parameter: click.Parameter, value: str) -> list[Any]:
        try:
            return [convert_one(part) for part in value.split(",")]
        except (KeyError, ValueError):
            raise click.BadParameter(f"{value!r}: not a list of known values") from None

    return split


def _fail(error: KraflaError) -> NoReturn:
    print(f"bench_peers: {error.message}", file=sys.stderr)
    sys.exit(error.exit_code)


@click.command(help=__doc__)
@click.argument(
    "ggufs", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--python", "interpreter", required=True, help="The Python that has the peer installed.")
@click.option("--name", default="llama.cpp", show_default=True, help="What the peer is called in the table.")
@click.option("--isa", help="Krafla's instruction set [default: the best here].")
@click.option("-t", "--threads", default="1,2", show_default=True, callback=_list(int))
@click.option("-d", "--depth", default="0,2048", show_default=True, callback=_list(int))
@click.option("-p", "--prefill", default="512", show_default=True, callback=_list(int), help="0: none.")
@click.option("-n", "--decode", default="64", show_default=True, callback=_list(int), help="0: none.")
@click.option("--kv", default="f32,f16,q8", show_default=True, callback=_list(str))
@click.option("-b", "--batch", default="128,512", show_default=True, callback=_list(int))
@click.option(
    "--flash", default="on,off", show_default=True, callback=_list({"on": True, "off": False}.__getitem__)
)
@click.option(
    "--cache", default="f16,q8_0", show_default=True, callback=_list(str), help="The peer's cache types."
)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--f32-scales", is_flag=True, help="Convert with float scales (the GGUF has half ones).")
@click.option("--folder", type=click.Path(file_okay=False, exists=True, path_type=Path), default=".")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def main(ggufs: tuple[Path, ...], **given: Any) -> None:
    """Run the comparison."""
    works = [
        Work(kind, tokens, depth)
        for depth in given["depth"]
        for kind in ("prefill", "decode")
        for tokens in given[kind]
        if tokens
    ]
    names = ("isa", "threads", "kv", "batch", "flash", "cache", "rounds")
    bench = Bench((given["interpreter"], str(WORKER)), works=works, **{name: given[name] for name in names})
    rows: list[Comparison] = []
    about: dict[str, Any] = {}
    try:
        for gguf in ggufs:
            mlb = converted(gguf, given["folder"], not given["f32_scales"])
            for row in bench.run(gguf, mlb):
                rows.append(row)
                if not given["as_json"]:
                    click.echo("  ".join(cells(row)).replace("**", ""))
        with PeerProcess(bench.command, ggufs[0]) as peer:
            about = peer.about
        if given["as_json"]:
            listed = [asdict(row) for row in rows]
            click.echo(
                json.dumps({"cpu": cpu_name(), "peer": {"name": given["name"], **about}, "rows": listed})
            )
    except KraflaError as error:
        _fail(error)


if __name__ == "__main__":
    main()
