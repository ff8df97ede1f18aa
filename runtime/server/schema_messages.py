"""The fields of POST /v1/messages, Anthropic's form of a chat."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from krafla.runtime.server.schema import Body, MisfitError, StopString


class CacheControl(Body):
    """Inert: prefixes are always cached."""

    type: Literal["ephemeral"]
    ttl: str | None = None


class TextBlock(Body):
    """Text."""

    type: Literal["text"]
    text: str
    cache_control: CacheControl | None = None
    citations: None = None


class ThinkingBlock(Body):
    """What the model thought."""

    type: Literal["thinking"]
    thinking: str
    signature: str | None = None


class ToolUseBlock(Body):
    """A call that the model made."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]
    cache_control: CacheControl | None = None


class ToolResultBlock(Body):
    """What a tool returned."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[TextBlock] | None = None
    is_error: bool | None = None
    cache_control: CacheControl | None = None


Block = Annotated[TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock, Field(discriminator="type")]


class TurnMessage(Body):
    """A turn of the conversation."""

    role: Literal["user", "assistant"]
    content: str | list[Block]


class CustomTool(Body):
    """A tool that the model may use."""

    type: Literal["custom"] | None = None
    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str | None = None
    input_schema: dict[str, Any]
    cache_control: CacheControl | None = None
    strict: bool | None = None


class Choose(Body):
    """How the model chooses a tool."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(Body):
    """Whether the model thinks first; a budget of tokens for it cannot be held."""

    type: Literal["adaptive", "disabled"]


class CountRequest(Body):
    """POST /v1/messages/count_tokens."""

    model: str | None = Field(None, description="as in a chat")
    messages: list[TurnMessage] = Field(min_length=1, description="text, thinking, tool_use, tool_result")
    system: str | list[TextBlock] | None = Field(None, description="the system message")
    tools: list[CustomTool] | None = Field(None, description="tools; their schemas are enforced")
    tool_choice: Choose | None = Field(None, description="auto, any, tool or none")
    thinking: Thinking | None = Field(None, description="disabled or adaptive, as the template allows")


class MessagesRequest(CountRequest):
    """POST /v1/messages."""

    max_tokens: int = Field(ge=1, description="tokens of the answer at most")
    temperature: float | None = Field(None, ge=0, le=1, description="as in a chat")
    top_p: float | None = Field(None, gt=0, le=1, description="as in a chat")
    top_k: int | None = Field(None, ge=0, lt=2**31, description="as in a chat")
    stop_sequences: Annotated[list[StopString], Field(max_length=16)] | None = Field(
        None, description="up to 16 strings before which the answer ends"
    )
    stream: bool | None = Field(None, description="server-sent events")
    metadata: dict[str, Any] | None = Field(None, description="inert")
    service_tier: str | None = Field(None, description="inert")

    @model_validator(mode="after")
    def _consistent(self) -> MessagesRequest:
        chosen = self.tool_choice
        names = [tool.name for tool in self.tools or ()]
        if chosen is not None and chosen.type in ("any", "tool") and not names:
            raise MisfitError("tool_choice", "needs tools")
        if chosen is not None and chosen.type == "tool" and chosen.name not in names:
            raise MisfitError("tool_choice", f"no tool is named {chosen.name!r}")
        if len(set(names)) < len(names):
            raise MisfitError("tools", "two have the same name")
        return self
