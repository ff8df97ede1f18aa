"""The fields that requests may have. What is not here is refused by name; INERT is taken and does nothing."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from krafla.runtime.server.request import MAX_TOP_LOGPROBS

#: Fields that say nothing about the answer: accepted and not looked at.
INERT = ("user", "metadata", "store", "service_tier", "prompt_cache_key", "verbosity")
MAX_SEED = 2**64 - 1
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
StopString = Annotated[str, Field(min_length=1, max_length=1000)]


class MisfitError(ValueError):
    """A field that does not go with the others."""

    def __init__(self, param: str, sentence: str) -> None:
        super().__init__(sentence)
        self.param = param


class Body(BaseModel):
    """A part of a request: no field but its own, and no value of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Inert(Body):
    """What clients send along."""

    user: str | None = Field(None, description="inert")
    metadata: dict[str, Any] | None = Field(None, description="inert")
    store: bool | None = Field(None, description="inert")
    service_tier: str | None = Field(None, description="inert")
    prompt_cache_key: str | None = Field(None, description="inert")
    verbosity: str | None = Field(None, description="inert")


class StreamOptions(Body):
    """What a stream carries besides the answer."""

    include_usage: bool | None = Field(None, description="a last chunk with the usage and no choices")


class Sampled(Inert):
    """What chat and plain completions share."""

    model: str | None = Field(
        None, description="any name serves the loaded model, unless --strict-model is given"
    )
    stream: bool | None = Field(None, description="server-sent events instead of one JSON object")
    stream_options: StreamOptions | None = Field(None, description="only with stream")
    temperature: float | None = Field(
        None, ge=0, le=2, description="0 takes the likeliest token; default: the server's --temp"
    )
    top_p: float | None = Field(None, gt=0, le=1, description="sample among this much probability")
    top_k: int | None = Field(None, ge=0, lt=2**31, description="sample among this many tokens; 0: all")
    min_p: float | None = Field(
        None, ge=0, le=1, description="leave out tokens below this part of the likeliest"
    )
    repeat_penalty: float | None = Field(
        None, gt=0, le=100, description="divides logits of tokens in prompt and answer"
    )
    presence_penalty: float | None = Field(
        None, ge=-2, le=2, description="taken from logits of tokens in the answer"
    )
    frequency_penalty: float | None = Field(None, ge=-2, le=2, description="the same, once per occurrence")
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = Field(
        None, description="added to logits, by token id"
    )
    seed: int | None = Field(
        None, ge=-(2**63), le=MAX_SEED, description="choice i of n samples with seed + i; default: a new one"
    )
    stop: StopString | Annotated[list[StopString], Field(max_length=16)] | None = Field(
        None, description="up to 16 strings before which the answer ends"
    )
    n: int | None = Field(None, ge=1, le=128, description="how many answers")
    ignore_eos: bool | None = Field(None, description="never choose an end-of-text token")

    @model_validator(mode="after")
    def _consistent(self) -> Sampled:
        if self.stream_options is not None and not self.stream:
            raise MisfitError("stream_options", "needs stream: true")
        for key in self.logit_bias or ():
            if not (key.isascii() and key.isdecimal()):
                raise MisfitError("logit_bias", f"{key!r} is no token id")
        return self

    def stops(self) -> list[str]:
        """The stop strings."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or ())


class TextPart(Body):
    """A part of a message."""

    type: Literal["text"]
    text: str


class FunctionCall(Body):
    """What an assistant called."""

    name: str = Field(min_length=1)
    arguments: str = Field(description="a JSON object as a string")


class ToolCall(Body):
    """A call in the conversation so far."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall
    index: int | None = Field(None, description="ignored: clients send streamed calls back with it")


Content = str | list[TextPart]


class SystemMessage(Body):
    """Instructions."""

    role: Literal["system", "developer"]
    content: Content
    name: str | None = None


class UserMessage(Body):
    """What the user says."""

    role: Literal["user"]
    content: Content
    name: str | None = None


class AssistantMessage(Body):
    """What the model said."""

    role: Literal["assistant"]
    content: Content | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    reasoning_content: str | None = None
    # Empty in answers that clients send back whole.
    refusal: None = None
    audio: None = None
    function_call: None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None


class ToolMessage(Body):
    """What a tool returned."""

    role: Literal["tool"]
    content: Content
    tool_call_id: str
    name: str | None = None


Message = Annotated[SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


class Function(Body):
    """A function that the model may call."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = Field(None, description="JSON schema of an object; always enforced")
    strict: bool | None = Field(None, description="arguments are held to the schema with either value")


class Tool(Body):
    """Only functions are tools here."""

    type: Literal["function"]
    function: Function


class FunctionName(Body):
    """Which function."""

    name: str


class NamedTool(Body):
    """The function that must be called."""

    type: Literal["function"]
    function: FunctionName


class TextFormat(Body):
    """No constraint."""

    type: Literal["text"]


class JsonObject(Body):
    """Any JSON object."""

    type: Literal["json_object"]


class JsonSchema(Body):
    """A named schema."""

    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=(), populate_by_name=True)
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema", description="always enforced; refused if that cannot be")
    strict: bool | None = None


class JsonSchemaFormat(Body):
    """JSON by a schema."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[TextFormat | JsonObject | JsonSchemaFormat, Field(discriminator="type")]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class ChatRequest(Sampled):
    """POST /v1/chat/completions."""

    messages: list[Message] = Field(min_length=1, description="content: a string, text parts or null")
    max_tokens: int | None = Field(None, ge=0, description="tokens of the answer; default: what fits")
    max_completion_tokens: int | None = Field(None, ge=0, description="another name of max_tokens")
    tools: list[Tool] | None = Field(None, description="functions; their schemas are enforced")
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = Field(
        None, description="auto, none, required, or one function; default: auto"
    )
    parallel_tool_calls: bool | None = Field(None, description="false: one call at most")
    response_format: ResponseFormat | None = Field(None, description="text, json_object or json_schema")
    logprobs: bool | None = Field(None, description="the log-probability of each token")
    top_logprobs: int | None = Field(
        None, ge=0, le=MAX_TOP_LOGPROBS, description="and that of so many of the likeliest"
    )
    reasoning_effort: Effort | None = Field(
        None, description="for templates with reasoning_effort or enable_thinking, else refused"
    )
    chat_template_kwargs: dict[str, Any] | None = Field(
        None, description="variables of the chat template; those that it does not have are refused"
    )

    @model_validator(mode="after")
    def _chat_consistent(self) -> ChatRequest:
        limits = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(limits) > 1:
            raise MisfitError("max_completion_tokens", "is another name of max_tokens, and they differ")
        if self.top_logprobs is not None and not self.logprobs:
            raise MisfitError("top_logprobs", "needs logprobs: true")
        named = isinstance(self.tool_choice, NamedTool) or self.tool_choice == "required"
        if named and not self.tools:
            raise MisfitError("tool_choice", "needs tools")
        names = [tool.function.name for tool in self.tools or ()]
        if len(set(names)) < len(names):
            raise MisfitError("tools", "two have the same name")
        if isinstance(self.tool_choice, NamedTool) and self.tool_choice.function.name not in names:
            raise MisfitError("tool_choice", f"no tool is named {self.tool_choice.function.name!r}")
        return self


class CompletionRequest(Sampled):
    """POST /v1/completions."""

    prompt: str | list[str] | list[TokenId] | list[list[TokenId]] = Field(
        description="text or token ids, one or several"
    )
    max_tokens: int | None = Field(None, ge=0, description="default: 16; 0 only reads the prompt")
    echo: bool | None = Field(None, description="the prompt comes before the answer, in logprobs too")
    logprobs: int | None = Field(
        None, ge=0, le=MAX_TOP_LOGPROBS, description="log-probabilities, and so many of the likeliest"
    )


class EmbeddingRequest(Inert):
    """POST /v1/embeddings."""

    model: str | None = Field(None, description="as in a chat")
    input: str | list[str] | list[TokenId] | list[list[TokenId]] = Field(
        description="text or token ids, one or several"
    )
    encoding_format: Literal["float", "base64"] | None = Field(
        None, description="base64: float32, little-endian"
    )
    dimensions: int | None = Field(None, ge=1, description="refused unless it is the model's")


class TokenizeRequest(Body):
    """POST /tokenize."""

    content: str
    add_special: bool | None = Field(None, description="true: begin-of-text before it; default: false")
    parse_special: bool | None = Field(None, description="false: <s> and the like are text; default: true")
    with_pieces: bool | None = Field(None, description="each token's text too")


class DetokenizeRequest(Body):
    """POST /detokenize."""

    tokens: list[TokenId]


class TemplateRequest(Body):
    """POST /apply-template."""

    messages: list[Message] = Field(min_length=1)
    tools: list[Tool] | None = None
    reasoning_effort: Effort | None = None
    chat_template_kwargs: dict[str, Any] | None = None
