"""The tables of docs/server-api.md; `python -m krafla.runtime.server.docs` writes them anew."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from krafla.runtime.paths import ROOT
from krafla.runtime.server import schema, schema_messages, schema_responses
from krafla.tools.doc_tables import replace_between

PAGE = ROOT / "docs" / "server-api.md"
TABLES: dict[str, type[schema.Body]] = {
    "chat": schema.ChatRequest,
    "completions": schema.CompletionRequest,
    "embeddings": schema.EmbeddingRequest,
    "responses": schema_responses.ResponsesRequest,
    "messages": schema_messages.MessagesRequest,
    "tokenize": schema.TokenizeRequest,
}


def table(request: type[schema.Body]) -> str:
    """The fields of a request: what they take and what they do; inert ones are left out."""
    properties = request.model_json_schema()["properties"]
    lines = ["| field | takes | what it does |", "|---|---|---|"]
    for name, described in properties.items():
        if described.get("description") != "inert":
            lines.append(f"| `{name}` | {_takes(described)} | {described.get('description', '')} |")
    return "\n".join(lines)


def _takes(described: Any) -> str:
    options = [o for o in described.get("anyOf", [described]) if o.get("type") != "null"]
    if not options:
        return "null"
    return " or ".join(dict.fromkeys(_one(option) for option in options))


def _one(option: Any) -> str:
    if "enum" in option or "const" in option:
        return ", ".join(f"`{value}`" for value in option.get("enum", [option.get("const")]))
    if "$ref" in option:
        return "object"
    if option.get("type") == "array":
        return f"list of {_takes(option['items'])}" if option.get("items") else "list"
    text = str(option.get("type", "object"))
    least, above = option.get("minimum"), option.get("exclusiveMinimum")
    most, below = option.get("maximum"), option.get("exclusiveMaximum")
    bounds = [f"≥ {least}" if least is not None else f"> {above}" if above is not None else ""]
    bounds.append(f"≤ {most}" if most is not None else f"< {below}" if below is not None else "")
    shown = ", ".join(bound for bound in bounds if bound and not re.search(r"\d{8}", bound))
    return f"{text} {shown}".strip()


def write(page: Path = PAGE) -> None:
    """Put the tables into the page."""
    for name, request in TABLES.items():
        replace_between(page, name, table(request))


if __name__ == "__main__":
    write()
