"""The fields of POST /v1/responses: OpenAI's newer form of a chat, here without memory."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from krafla.runtime.server.request import MAX_TOP_LOGPROBS
from krafla.runtime.server.schema import (
    Body,
    Effort,
    Inert,
    JsonObject,
    MisfitError,
    TextFormat,
)


class InputText(Body):
    """A part of a message."""

    type: Literal["input_text", "output_text", "text"]
    text: str
    # Empty in answers that clients send back.
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    logprobs: list[Any] | None = Field(None, description="ignored: clients send answers back with it")


class InputMessage(Body):
    """A message."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[InputText]
    id: str | None = None
    status: str | None = None


class InputCall(Body):
    """A call that the model made."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    status: str | None = None


class InputCallOutput(Body):
    """What a function returned."""

    type: Literal["function_call_output"]
    call_id: str
    output: str | list[InputText]
    id: str | None = None
    status: str | None = None


class ReasoningText(Body):
    """A thought."""

    type: Literal["reasoning_text"]
    text: str


class InputReasoning(Body):
    """What the model thought."""

    type: Literal["reasoning"]
    id: str | None = None
    summary: list[Any] | None = None
    content: list[ReasoningText] | None = None
    encrypted_content: None = None
    status: str | None = None


class ResponseTool(Body):
    """A function that the model may call."""

    type: Literal["function"]
    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class NamedFunction(Body):
    """The function that must be called."""

    type: Literal["function"]
    name: str


class SchemaFormat(Body):
    """JSON by a schema."""

    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=(), populate_by_name=True)
    type: Literal["json_schema"]
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class TextOptions(Body):
    """How the text must look."""

    format: Annotated[TextFormat | JsonObject | SchemaFormat, Field(discriminator="type")] | None = None
    verbosity: str | None = Field(None, description="inert")


class Reasoning(Body):
    """How much the model thinks."""

    effort: Effort | None = None
    summary: None = None


class ResponsesStreamOptions(Body):
    """What a stream carries besides the answer."""

    include_obfuscation: Literal[False] | None = None


Item = InputMessage | InputCall | InputCallOutput | InputReasoning


class ResponsesRequest(Inert):
    """POST /v1/responses."""

    model: str | None = Field(None, description="as in a chat")
    input: str | list[Item] = Field(description="a text, or messages, calls and their outputs")
    instructions: str | None = Field(None, description="a system message before the input")
    max_output_tokens: int | None = Field(None, ge=1, description="tokens of the answer; default: what fits")
    temperature: float | None = Field(None, ge=0, le=2, description="as in a chat")
    top_p: float | None = Field(None, gt=0, le=1, description="as in a chat")
    top_logprobs: int | None = Field(
        None, ge=0, le=MAX_TOP_LOGPROBS, description="with include: message.output_text.logprobs"
    )
    include: list[Literal["message.output_text.logprobs"]] | None = Field(
        None, description="message.output_text.logprobs"
    )
    stream: bool | None = Field(None, description="server-sent events")
    stream_options: ResponsesStreamOptions | None = Field(None, description="include_obfuscation: false")
    text: TextOptions | None = Field(None, description="format: text, json_object or json_schema")
    tools: list[ResponseTool] | None = Field(None, description="functions; their schemas are enforced")
    tool_choice: Literal["none", "auto", "required"] | NamedFunction | None = Field(
        None, description="as in a chat"
    )
    parallel_tool_calls: bool | None = Field(None, description="false: one call at most")
    reasoning: Reasoning | None = Field(None, description="effort, as reasoning_effort in a chat")
    truncation: Literal["disabled"] | None = Field(None, description="disabled")
    background: Literal[False] | None = Field(None, description="false")
    # Only as null: there is no memory.
    previous_response_id: None = Field(None, description="null: answers are not kept")
    conversation: None = Field(None, description="null: answers are not kept")

    @model_validator(mode="after")
    def _consistent(self) -> ResponsesRequest:
        if self.top_logprobs is not None and not self.include:
            raise MisfitError("top_logprobs", 'needs include: ["message.output_text.logprobs"]')
        if self.stream_options is not None and not self.stream:
            raise MisfitError("stream_options", "needs stream: true")
        return self
