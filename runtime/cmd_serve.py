"""`krafla serve`: an OpenAI-compatible server for one model."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from krafla.runtime import options
from krafla.tools.errors import AccessError, UsageError

if TYPE_CHECKING:
    from krafla.runtime.server.service import Service, ServiceOptions

HELP = """Serve MODEL to programs that speak OpenAI's (or Anthropic's) HTTP interface, with a chat page at /.

Until the model is loaded, /health says 503. Ctrl-C or SIGTERM lets running answers go on for --grace seconds.
"""
EXAMPLES = options.examples(
    "krafla serve",
    "krafla serve -m model.gguf --port 9000 --api-key SECRET",
    "krafla serve --uds krafla.sock -q",
)


@click.command("serve", help=HELP, epilog=EXAMPLES)
@options.model_option
@click.option("--host", default="127.0.0.1", help="Address to listen on [default: 127.0.0.1].")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, help="Port [default: 8080; 0: any].")
@click.option("--uds", metavar="PATH", help="Listen on this Unix socket instead.")
@click.option("--api-key", "api_keys", multiple=True, envvar="KRAFLA_API_KEY", metavar="KEY",
              help="Ask clients for this key (repeatable; also KRAFLA_API_KEY).")  # fmt: skip
@click.option("--cors", multiple=True, metavar="ORIGIN", help="Let pages of this origin call; '*': any.")
@click.option("--alias", metavar="NAME", help="The model's name for clients [default: its file's].")
@click.option("--strict-model", is_flag=True, help="Refuse requests for models of another name.")
@click.option("-t", "--threads", type=click.IntRange(1), help="Threads [default: the physical cores].")
@click.option(
    "-c", "--ctx", type=click.IntRange(1), help="Positions of a request [default: the model's, at most 4096]."
)
@click.option("-b", "--batch", type=click.IntRange(1), help="Tokens per step at most.")
@click.option(
    "--kv", type=click.Choice(["f32", "f16", "q8"]), default="f32", help="KV memory [default: f32]."
)
@options.isa_option
@click.option("--no-pack", is_flag=True, help="Keep the weights row by row: slower.")
@click.option("--pack-cache", is_flag=True, help="Keep the packed weights in a file beside the model.")
@click.option(
    "--parallel", type=click.IntRange(1), default=16, help="Requests that run at once [default: 16]."
)
@click.option("--queue", type=click.IntRange(0), default=64, help="Requests that may wait [default: 64].")
@click.option(
    "--positions", type=click.IntRange(1), help="Positions that all requests and the prefix cache share."
)
@click.option("--speculate", type=click.Choice(["off", "ngram"]), default="off",
              help="Guess tokens from the text so far; changes the speed only.")  # fmt: skip
@click.option("--draft", metavar="MODEL", help="A smaller model with the same tokens that guesses ahead.")
@click.option(
    "--draft-tokens", type=click.IntRange(1), default=8, help="Tokens it guesses at most [default: 8]."
)
@click.option(
    "--temp",
    type=click.FloatRange(0, 2),
    default=0.0,
    help="Temperature of requests that say none [default: 0].",
)
@click.option(
    "--max-tokens", type=click.IntRange(1), help="Tokens of one answer at most [default: what fits]."
)
@click.option(
    "--max-body", type=click.IntRange(1024), default=16 << 20, help="Bytes of a request [default: 16 MiB]."
)
@click.option("--request-timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
              help="Time that a request may take [default: any].")  # fmt: skip
@click.option(
    "--pooling",
    type=click.Choice(["mean", "last"]),
    default="mean",
    help="How embeddings are made [default: mean].",
)
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=10.0,
    help="Seconds for running answers at the end [default: 10].",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", help="Log lines [default: text]."
)
@options.quiet_option
def command(**given: Any) -> None:
    """Run the subcommand."""
    _need_extra()
    from krafla.runtime.resolve import check_exists

    check_exists(given["model"])
    listener = _unix(given["uds"]) if given["uds"] else _listen(given["host"], given["port"])
    try:
        _log(given["log_format"], given["quiet"])
        _serve(_options(given), listener, given)
    finally:
        listener.close()
        if given["uds"]:
            Path(given["uds"]).unlink(missing_ok=True)


def _need_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import llguidance  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UsageError(f"the server needs {error.name}: pip install 'krafla[serve]'") from error


def _options(given: dict[str, Any]) -> ServiceOptions:
    from krafla.runtime.server.scheduler import SchedulerOptions
    from krafla.runtime.server.service import ServiceOptions

    names = "model isa threads ctx kv pack_cache batch parallel queue positions speculate draft draft_tokens"
    loading = {name: given[name] for name in names.split()}
    own = "alias strict_model api_keys cors max_body max_tokens request_timeout pooling grace"
    return ServiceOptions(
        SchedulerOptions(pack=not given["no_pack"], **loading),
        temperature=given["temp"],
        **{name: given[name] for name in own.split()},
    )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
        try:
            if os.name == "posix":  # elsewhere this would let two servers share a port
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise AccessError(f"{host}:{port}: cannot listen: {error.strerror or error}") from error
    return listener


def _unix(name: str) -> socket.socket:
    if not hasattr(socket, "AF_UNIX"):
        raise UsageError("--uds: this system has no Unix sockets")
    path = Path(name)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket() and _is_dead(path):
            path.unlink()
        listener.bind(name)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise AccessError(f"{name}: cannot listen: {error.strerror or error}") from error
    return listener


def _is_dead(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
    return False


def _log(layout: str, quiet: bool) -> None:
    from krafla.runtime.server.middleware import JsonLines, PlainLines

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if layout == "json" else PlainLines())
    for name in ("krafla", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.ERROR if quiet else logging.INFO if name == "krafla" else logging.WARNING)


def _serve(service_options: ServiceOptions, listener: socket.socket, given: dict[str, Any]) -> None:
    import uvicorn

    from krafla.runtime import progress
    from krafla.runtime.server.app import create_app
    from krafla.runtime.server.service import Service

    quiet = given["quiet"]

    def announce(sentence: str) -> None:
        if not quiet:
            click.echo(f"krafla: {sentence}", err=True)

    where = given["uds"] or "http://{}:{}".format(*listener.getsockname()[:2])
    service = Service(service_options, lambda: progress.console(quiet), announce)
    config = uvicorn.Config(
        create_app(service),
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=round(service_options.grace) + 5,  # until then the service has ended them
    )
    announce(f"listening on {where}")
    server = uvicorn.Server(config)
    interrupted: list[int] = []
    with _signals(server, service, interrupted):
        server.run(sockets=[listener])
    if signal.SIGINT in interrupted:
        raise KeyboardInterrupt


@contextmanager
def _signals(server: Any, service: Service, seen: list[int]) -> Iterator[None]:
    """The first SIGINT or SIGTERM ends gracefully, the second at once; then the process ends as usual."""
    server.capture_signals = _nothing  # uvicorn's own would raise the signal again

    def handle(number: int, frame: object) -> None:
        if seen:
            server.force_exit = True
        else:
            threading.Thread(target=service.drain, name="krafla-drain", daemon=True).start()
        server.should_exit = True
        seen.append(number)

    wanted = [signal.SIGINT, signal.SIGTERM]
    before = {number: signal.signal(number, handle) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _nothing() -> Iterator[None]:
    yield
