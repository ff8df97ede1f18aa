"""`krafla eval`: its figures agree with logits computed at once, repeat to the last digit, and it keeps no logits."""

from __future__ import annotations

import io
import json
import math
import tracemalloc
import xml.etree.ElementTree as Xml
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from krafla.runtime import cli, evaluate, pull
from krafla.runtime.model import Model
from krafla.tools import bootstrap, closeness
from krafla.tools.convert import Options, convert
from tests.toys import toy

Capture = pytest.CaptureFixture[str]
Array = closeness.Array
TEXT = "The ferry leaves at six in the morning. " * 8


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def q4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy(tmp_path_factory.mktemp("q4"), "q4")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def run(capsys: Capture, *arguments: object) -> dict[str, Any]:
    assert cli.call(["eval", "-q", "--json", *map(str, arguments)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def fail(capsys: Capture, *arguments: object) -> tuple[int, str]:
    code = cli.call(["eval", "-q", *map(str, arguments)])
    return code, capsys.readouterr().err


def log_probabilities(logits: Array) -> Array:
    """Another way than the tool's: sums of exponentials in the logarithm, pair by pair."""
    wide = logits.astype(np.longdouble)
    return wide - np.logaddexp.reduce(wide, axis=1, keepdims=True)


def independent(p: Array, q: Array, following: list[int]) -> dict[str, float]:
    """All figures from the logits of all scored positions: q the model's, p the reference's."""
    a, b = log_probabilities(q), log_probabilities(p)
    rows = range(len(following))
    losses = [[-float(one[i, token]) for i, token in enumerate(following)] for one in (a, b)]
    kl = np.array([float(sum(math.exp(y) * (y - x) for x, y in zip(a[i], b[i], strict=True))) for i in rows])
    difference = q.astype(np.longdouble) - p.astype(np.longdouble)
    ranked = np.sort(kl)
    n = len(following)
    return {
        "perplexity": math.exp(sum(losses[0]) / n),
        "reference_perplexity": math.exp(sum(losses[1]) / n),
        "perplexity_ratio": math.exp((sum(losses[0]) - sum(losses[1])) / n),
        "divergence": kl.mean(),
        "divergence_median": ranked[math.ceil(0.5 * n) - 1],
        "divergence_90": ranked[math.ceil(0.9 * n) - 1],
        "divergence_99": ranked[math.ceil(0.99 * n) - 1],
        "divergence_largest": kl.max(),
        "agreement": sum(int(np.argmax(p[i]) == np.argmax(q[i])) for i in rows) / n,
        "logit_error": float(np.sqrt((difference**2).mean())),
        "logit_error_largest": float(abs(difference).max()),
        "logit_spread": float(np.mean([np.std(row.astype(np.longdouble)) for row in p])),
    }


def logits_of(path: Path, ids: list[int], **options: Any) -> Array:
    with Model.load(path, **options) as model:
        return model.logits(ids)


def test_figures_agree_with_an_independent_computation(
    capsys: Capture, llama: Path, q4: Path, text: Path
) -> None:
    """Issue 7: to 1e-6, from Model.logits."""
    found = run(capsys, "-m", q4, "--against", llama, "--text", text, "-n", 200, "-b", 9)
    ids = list(TEXT.encode())[:200]
    expected = independent(logits_of(llama, ids[:-1]), logits_of(q4, ids[:-1]), ids[1:])
    assert found["scored"] == 199
    assert set(found["figures"]) == set(expected)
    for name, value in expected.items():
        assert found["figures"][name]["value"] == pytest.approx(value, rel=1e-6, abs=1e-9), name


def test_a_setting_against_another(capsys: Capture, llama: Path, text: Path) -> None:
    found = run(capsys, "-m", llama, "--kv", "q8", "--against-kv", "f32", "--text", text, "-n", 100)
    ids = list(TEXT.encode())[:100]
    expected = independent(logits_of(llama, ids[:-1]), logits_of(llama, ids[:-1], kv="q8"), ids[1:])
    assert expected["divergence"] > 0
    assert found["against"] == {"model": str(llama), "isa": found["isa"], "kv": "f32"}
    for name, value in expected.items():
        assert found["figures"][name]["value"] == pytest.approx(value, rel=1e-6, abs=1e-9), name


def test_perplexity_alone(capsys: Capture, llama: Path, text: Path) -> None:
    found = run(capsys, "-m", llama, "--text", text, "-n", 64)
    ids = list(TEXT.encode())[:64]
    logits = logits_of(llama, ids[:-1])
    expected = independent(logits, logits, ids[1:])
    assert list(found["figures"]) == ["perplexity"]
    assert found["figures"]["perplexity"]["value"] == pytest.approx(expected["perplexity"], rel=1e-6)
    assert found["against"] is None


def test_an_isa_against_another_of_its_class_is_the_same(capsys: Capture, llama: Path, text: Path) -> None:
    """Bits do not depend on the ISA within a class; scalar and the plainest one of each CPU round twice."""
    from krafla.runtime import host

    best = host.choose().name
    options = ("-m", llama, "--text", text, "-n", 40, "--isa", best)
    found = run(capsys, *options, "--against-isa", "scalar")["figures"]
    assert found["divergence_largest"]["value"] < 1e-3
    assert found["perplexity_ratio"]["value"] == pytest.approx(1, abs=1e-3)


def test_figures_repeat_to_the_last_digit(capsys: Capture, llama: Path, q4: Path, text: Path) -> None:
    """For any number of threads and any batch, intervals included."""
    options = ("-m", q4, "--against", llama, "--text", text, "-n", 150, "-c", 64)
    first = run(capsys, *options, "-t", 1)
    second = run(capsys, *options, "-t", 2, "-b", 7)
    assert json.dumps(first["figures"]) == json.dumps(second["figures"])


@pytest.mark.slow
def test_q4_against_q8_of_the_default_model(capsys: Capture, tmp_path: Path) -> None:
    """Issue 7: the divergence of Q4_0 from Q8_0 is reproduced to the last digit."""
    q4 = tmp_path / "q4.mlb"
    convert(pull.pull(pull.DEFAULT), q4, Options(type="q4_0"))
    options = ("-m", q4, "--against", pull.DEFAULT, "-n", 400)
    first, second = run(capsys, *options), run(capsys, *options, "-t", 1, "-b", 50)
    assert json.dumps(first["figures"]) == json.dumps(second["figures"])
    assert 0.01 < first["figures"]["divergence"]["value"] < 1
    assert 1 < first["figures"]["perplexity_ratio"]["value"] < 2
    assert 0.5 < first["figures"]["agreement"]["value"] < 1


def pieces(cut: evaluate.Cut) -> list[tuple[list[int], list[int]]]:
    """What each scored token was predicted from, and the token."""
    found = []
    for window in cut:
        assert len(window.ids) <= cut.window
        assert len(window.ids) - window.first == len(window.following)
        for i, token in enumerate(window.following):
            found.append((list(window.ids[: window.first + i + 1]), token))
    return found


@pytest.mark.parametrize("prefix", [[], [7]])
@pytest.mark.parametrize("n", [3, 9, 10, 11, 12, 40, 41])
@pytest.mark.parametrize(("window", "stride"), [(10, 5), (10, 9), (10, 1), (2, 1), (50, 3)])
def test_every_token_is_scored_once(prefix: list[int], n: int, window: int, stride: int) -> None:
    text = list(range(100, 100 + n))
    cut = evaluate.Cut(prefix, text, window, stride)
    found = pieces(cut)
    assert [token for _, token in found] == text[0 if prefix else 1 :]
    assert len(found) == cut.scored
    for before, token in found:
        assert before[: len(prefix)] == prefix
        real = before[len(prefix) :]
        assert real == text[token - 100 - len(real) : token - 100]  # what really stands before it
    if n > 20 and window == 10:
        least = min(len(before) for before, _ in found[window:])
        assert least >= window - stride


@pytest.mark.parametrize("name", ["llama", "gemma3", "qwen35"])
def test_windows_are_run_from_their_start(capsys: Capture, tmp_path: Path, text: Path, name: str) -> None:
    """The loss over windows is that of each window's own logits."""
    path = toy(tmp_path, name)
    found = run(capsys, "-m", path, "--text", text, "-n", 100, "-c", 32, "--stride", 20, "-b", 5)
    ids = list(TEXT.encode())[:100]
    losses = []
    with Model.load(path) as model:
        for before, token in pieces(evaluate.Cut([], ids, 32, 20)):
            losses.append(-float(log_probabilities(model.logits(before)[-1:])[0, token]))
    assert (found["windows"], found["window"], found["stride"], found["scored"]) == (5, 32, 20, 99)
    assert found["figures"]["perplexity"]["value"] == pytest.approx(math.exp(np.mean(losses)), rel=1e-6)


def test_logits_of_a_text_are_never_held(capsys: Capture, llama: Path, tmp_path: Path) -> None:
    """Six times the text takes no more memory but that of its own figures."""
    peaks = {}
    for times in (1, 6):
        path = tmp_path / f"{times}.txt"
        path.write_text(TEXT * times, encoding="utf-8")
        tracemalloc.start()
        found = run(capsys, "-m", llama, "--text", path, "--kv", "q8", "--against-kv", "f32", "-b", 16)
        peaks[found["scored"]] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    (short, small), (long, large) = peaks.items()
    whole = (long - short) * 263 * 4
    assert large - small < whole / 2
    assert long > 5 * short


def test_the_text_comes_from_standard_input(
    capsys: Capture, llama: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(capsys, "-m", llama, "--text", text, "-n", 50)
    stream = io.TextIOWrapper(io.BytesIO(TEXT.encode()))
    monkeypatch.setattr("sys.stdin", stream)
    found = run(capsys, "-m", llama, "--text", "-", "-n", 50)
    assert found["text"] == "standard input"
    assert found["figures"] == expected["figures"]


def test_a_table_and_a_plot(capsys: Capture, llama: Path, q4: Path, tmp_path: Path) -> None:
    path = tmp_path / "kl.svg"
    options = ["-m", str(q4), "--against", str(llama), "-n", "60"]
    assert cli.call(["eval", *options, "--plot", str(path)]) == 0
    captured = capsys.readouterr()
    assert "krafla: evaluating ..." in captured.err
    assert "takes at most" in captured.err
    assert "built-in text: 60 tokens, 59 scored, 1 window" in captured.out
    for label in ("perplexity", "ratio", "KL divergence, mean", "same likeliest token", "logit error, RMS"):
        assert label in captured.out
    drawing = Xml.fromstring(path.read_text(encoding="utf-8"))
    assert len(list(drawing.iter("{http://www.w3.org/2000/svg}circle"))) == evaluate.BINS
    assert cli.call(["eval", "-q", "-m", str(q4), "-n", "60", "--plot", "-"]) == 0
    assert "token of the text" in capsys.readouterr().out


def test_wrong_usage(capsys: Capture, llama: Path, tmp_path: Path, text: Path) -> None:
    other = toy(tmp_path, "wide")
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"good\xffbad")
    short = tmp_path / "short.txt"
    short.write_text("a", encoding="utf-8")
    cases: list[tuple[tuple[object, ...], int, str]] = [
        (("--against", other), 2, "a vocabulary of 1021, toy.mlb one of 263"),
        (("--against", llama), 2, "are the same"),
        (("--against-kv", "f32"), 2, "are the same"),
        (("--against", tmp_path / "no.mlb"), 4, "no.mlb"),
        (("--text", tmp_path / "no.txt"), 4, "no.txt: cannot read"),
        (("--text", bad), 5, "bad.txt: byte 4 is not UTF-8"),
        (("--text", short), 2, "the text has 1 tokens"),
        (("-c", "5000"), 2, "the window is 5000, the model's context has 320"),
        (("-c", "16", "--stride", "16"), 2, "the stride is 16, must be at least 1 and less than the window"),
        (("--isa", "mmx"), 2, "no such ISA"),
        (("--plot", "x.png"), 2, ".svg"),
    ]
    for arguments, code, words in cases:
        found, sentence = fail(capsys, "-m", llama, *arguments)
        assert (found, words in sentence, sentence.count("\n")) == (code, True, 1), sentence


def test_logits_that_are_not_finite_are_refused(capsys: Capture, tmp_path: Path, text: Path) -> None:
    from krafla.tools.mlb import Model as File

    path = toy(tmp_path)
    at = File(path).tensors["wcls"].scales_offset
    data = bytearray(path.read_bytes())
    data[at : at + 4] = np.float32(np.inf).tobytes()
    path.write_bytes(data)
    code, sentence = fail(capsys, "-m", path, "--text", text)
    assert (code, "toy.mlb: logits after token 0 are not finite" in sentence) == (5, True), sentence


def test_figures_of_one_position() -> None:
    p, q = np.log(np.array([[0.5, 0.25, 0.25]])), np.log(np.array([[0.25, 0.5, 0.25]]))
    [found] = closeness.figures(q, [1], p)
    assert found["divergence"] == pytest.approx(0.25 * np.log(2))
    assert found["nats"] == pytest.approx(np.log(2))
    assert found["reference_nats"] == pytest.approx(np.log(4))
    assert found["agreement"] == 0
    assert found["largest_error"] == pytest.approx(np.log(2))
    assert found["squared_error"] == pytest.approx(2 / 3 * np.log(2) ** 2)
    [found] = closeness.figures(p + 3, (), p)
    assert found["divergence"] == pytest.approx(0, abs=1e-12)
    assert np.isnan(found["nats"])


def test_figures_do_not_depend_on_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    logits, reference = rng.standard_normal((2, 40, 333)).astype(np.float32)
    following = rng.integers(0, 333, 40).tolist()
    whole = closeness.figures(logits, following, reference)
    monkeypatch.setattr(closeness, "_AT_ONCE", 1000)
    assert closeness.figures(logits, following, reference).tobytes() == whole.tobytes()


def test_resamples_are_blocks_of_neighbours() -> None:
    rng = np.random.default_rng(3)
    for n in (2, 5, 27, 100, 1001):
        records = np.zeros(n, closeness.DTYPE)
        records["nats"] = rng.random(n)
        starts, ends = bootstrap._blocks(rng, n)
        joined = [at % n for start, end in zip(starts, ends, strict=True) for at in range(start, end)]
        assert len(joined) == n
        assert set(ends[:-1] - starts[:-1]) <= {bootstrap.block_length(n)}
        sample = bootstrap.Sample(bootstrap.Text(records), starts, ends)
        assert sample.counts.tolist() == np.bincount(joined, minlength=n).tolist()
        assert sample.mean("nats") == pytest.approx(records["nats"][joined].mean())
    assert bootstrap.block_length(1000) == 10


def test_intervals_cover_what_they_promise() -> None:
    """95 % intervals of the mean of an autocorrelated series hold the true mean in about 95 of 100 cases."""
    rng = np.random.default_rng(8)
    inside, n = 0, 600
    for _ in range(200):
        noise = rng.standard_normal(n + 20)
        series = noise.copy()
        for i in range(1, len(series)):
            series[i] += 0.3 * series[i - 1]
        records = np.zeros(n, closeness.DTYPE)
        records["nats"] = series[20:]
        found = bootstrap.estimates(records, {"mean": lambda s: s.mean("nats")}, resamples=200)["mean"]
        assert found.low is not None and found.high is not None
        inside += found.low <= 0 <= found.high
    assert 0.86 <= inside / 200 <= 0.99


def test_quantiles_with_and_without_counts() -> None:
    records = np.zeros(10, closeness.DTYPE)
    records["divergence"] = [9, 1, 8, 2, 7, 3, 6, 4, 5, 0]
    text = bootstrap.Text(records)
    plain = bootstrap.Sample(text)
    assert [plain.quantile("divergence", q) for q in (0.1, 0.5, 0.9, 1)] == [0, 4, 8, 9]
    blocks = bootstrap.Sample(text, np.array([0, 8]), np.array([5, 13]))  # 9 1 8 2 7, then 5 0 9 1 8
    assert [blocks.quantile("divergence", q) for q in (0.1, 0.5, 0.9, 1)] == [0, 5, 9, 9]
    assert blocks.mean("divergence") == pytest.approx(5)
    assert plain.largest("divergence") == 9
