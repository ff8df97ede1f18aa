"""`krafla serve`: starts, says why it cannot, and ends as it should."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the serve extra is not installed")
httpx = pytest.importorskip("httpx", reason="the clients extra is not installed")

from krafla.runtime import cli
from tests.servers import small

KRAFLA = (sys.executable, "-m", "krafla.runtime.cli", "serve")
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def fail(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = cli.call(["serve", *arguments])
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return code, line.removeprefix("krafla: ")


@contextmanager
def serve(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The running command and what it said until it listened."""
    process = subprocess.Popen(
        [*KRAFLA, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    assert process.stderr is not None
    said = []
    try:
        for line in process.stderr if "-q" not in arguments else ():
            said.append(line.rstrip())
            if "listening on" in line:
                break
        yield process, said
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def until_ready(client: Any) -> None:
    end = time.monotonic() + 300  # the first time, the engine is compiled
    while client.get("/health").status_code != 200:
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals work otherwise on Windows")
def test_it_serves_and_ends(tmp_path: Path) -> None:
    with serve("-m", str(small(tmp_path)), "--port", "0", "--log-format", "json") as (process, said):
        url = said[-1].rpartition(" ")[2]
        with httpx.Client(base_url=url, timeout=60) as client:
            until_ready(client)
            answer = client.post("/v1/chat/completions", json={**HELLO, "max_tokens": 3}).json()
            assert answer["usage"]["completion_tokens"] <= 3
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == ""
    lines = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert {"/health", "/v1/chat/completions"} <= {line["path"] for line in lines}


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="this system has no Unix sockets")
def test_a_unix_socket_and_an_interruption(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as stale:  # what a killed server leaves behind is replaced
        stale.bind(str(path))
    with serve("-m", str(small(tmp_path)), "--uds", str(path), "-q") as (process, _):
        end = time.monotonic() + 300  # the first time, the engine is compiled
        while True:
            with socket.socket(socket.AF_UNIX) as probe:
                if path.exists() and probe.connect_ex(str(path)) == 0:
                    break
            assert time.monotonic() < end
            time.sleep(0.05)
        with httpx.Client(
            transport=httpx.HTTPTransport(uds=str(path)), base_url="http://x", timeout=60
        ) as client:
            until_ready(client)
            # An answer that is under way is finished first.
            body = {**HELLO, "max_tokens": 40, "stream": True, "ignore_eos": True}
            with client.stream("POST", "/v1/chat/completions", json=body) as response:
                lines = response.iter_lines()
                next(lines)
                process.send_signal(signal.SIGINT)
                rest = list(lines)
        _, err = process.communicate(timeout=30)
    assert "data: [DONE]" in rest
    assert '"finish_reason":"length"' in "".join(rest)
    assert process.returncode == 130
    assert err == ""
    assert not path.exists()


def test_what_cannot_be_served(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, sentence = fail(capsys, "-m", str(tmp_path / "none.mlb"))
    assert code == 4
    assert "none.mlb: no such file" in sentence
    path = str(small(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, sentence = fail(capsys, "-m", path, "--port", str(port))
    assert code == 4
    assert sentence.startswith(f"127.0.0.1:{port}: cannot listen: ")
    code, sentence = fail(capsys, "-m", path, "--uds", str(tmp_path / "no" / "s"))
    assert code == 4
    assert "cannot listen" in sentence
    assert fail(capsys, "-m", path, "--temp", "9")[0] == 2


def test_without_the_extra(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert fail(capsys) == (2, "the server needs uvicorn: pip install 'krafla[serve]'")
