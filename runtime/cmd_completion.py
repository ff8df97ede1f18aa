"""`krafla completion`: the script that lets a shell complete commands, options and names of models."""

from __future__ import annotations

import click

from krafla.runtime import options

EXAMPLES = options.examples(
    "krafla completion bash > ~/.local/share/bash-completion/completions/krafla",
    "krafla completion zsh > ~/.zfunc/_krafla",
    "krafla completion fish > ~/.config/fish/completions/krafla.fish",
)


@click.command("completion", epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of SHELL (bash from 4.4 on, zsh, fish).

    Put it where the shell looks for such scripts, as below, or load it in the shell's start file: for bash,
    `eval "$(krafla completion bash)"`. For zsh, ~/.zfunc must be in fpath before compinit runs.
    """
    from click.shell_completion import get_completion_class

    from krafla.runtime.cli import COMPLETE, cli

    found = get_completion_class(shell)
    if found is None:  # cannot be: click brings these three
        raise AssertionError(shell)
    click.echo(found(cli, {}, "krafla", COMPLETE).source())
