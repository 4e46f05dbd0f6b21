"""OpenAI-compatible servers: their addresses, and their own forms of what the chat-completions format leaves open.

None of the hosted services was called to write this; each form is from its server's source or documentation, named
next to it. For another server, make an `Endpoint(...)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from selfsurf.agents.policy import Guidance
from selfsurf.agents.reply.schema import Schema, strict

GrammarForm: TypeAlias = Literal["structured_outputs", "guided", "ebnf"]
"""How a grammar is written in a request."""

SchemaForm: TypeAlias = Literal["structured_outputs", "guided", "nvext", "json_schema", "strict"]
"""How a JSON schema is written in a request."""


@dataclass(frozen=True)
class Endpoint:
    """A server that speaks the chat-completions format."""

    base_url: str
    """Up to and including `/v1`."""
    key_variable: str = ""
    """Environment variable of the key; empty where none is needed."""
    guidance: Guidance = "schema"
    """How the server constrains replies by default."""
    grammar_form: GrammarForm | None = None
    """How it takes grammars; None if it takes none."""
    schema_form: SchemaForm | None = "json_schema"
    """How it takes JSON schemas; None if it takes none."""
    continues: bool = False
    """Whether it can continue a partial assistant message (`continue_final_message`)."""
    token_ids: Literal["return_token_ids", "return_tokens_as_token_ids"] | None = None
    """The field that makes it return token ids; the second returns only the sampled ones, and needs `logprobs`."""
    logprobs: bool = False
    """Whether to ask for log-probabilities."""
    tokenizes: bool = False
    """Whether it has `/tokenize` next to `/v1`."""
    lists_models: bool = False
    """Whether `/models` names every model and adapter that it serves."""
    length_field: str = "max_tokens"
    """The field that limits the reply's length."""
    neutral: Mapping[str, Any] = field(default_factory=dict)
    """Fields that undo the server's own sampling defaults, so that a temperature of 1 is the model's distribution."""


# vLLM applies the sampling defaults of the model's generation_config.json unless a request says otherwise:
# https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
_VLLM_NEUTRAL: dict[str, Any] = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}

ENDPOINTS: dict[str, Endpoint] = {
    # schema: https://platform.openai.com/docs/guides/structured-outputs; its reasoning models refuse `max_tokens`
    "openai": Endpoint(
        "https://api.openai.com/v1", "OPENAI_API_KEY", schema_form="strict", length_field="max_completion_tokens"
    ),
    # https://docs.nvidia.com/nim/large-language-models/latest/structured-generation.html: `nvext.guided_json`. NIM for
    # vision-language models takes `response_format` instead: endpoint=replace(ENDPOINTS["nim"], schema_form=...)
    "nim": Endpoint("https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY", schema_form="nvext"),
    # vllm/entrypoints/openai/chat_completion/protocol.py: `structured_outputs`, `continue_final_message`,
    # `return_token_ids`; vllm/entrypoints/serve/tokenize: `/tokenize`. The grammar is llguidance's Lark: start the
    # server with --structured-outputs-config '{"backend": "guidance"}', for xgrammar reads another Lark.
    "vllm": Endpoint(
        "http://localhost:8000/v1", "VLLM_API_KEY", "grammar", "structured_outputs", "structured_outputs",
        continues=True, token_ids="return_token_ids", logprobs=True, tokenizes=True, lists_models=True,
        neutral=_VLLM_NEUTRAL,
    ),
    # vLLM before `structured_outputs`: `guided_grammar`, `guided_json`,
    # https://docs.vllm.ai/en/v0.9.0/features/structured_outputs.html
    "vllm-guided": Endpoint(
        "http://localhost:8000/v1", "VLLM_API_KEY", "grammar", "guided", "guided",
        continues=True, token_ids="return_tokens_as_token_ids", logprobs=True, tokenizes=True, lists_models=True,
        neutral=_VLLM_NEUTRAL,
    ),
    # tensorrt_llm/serve/openai_protocol.py: `response_format` of type json_schema or ebnf. It needs
    # guided_decoding_backend in the server's YAML (xgrammar or llguidance), and a grammar needs llguidance.
    "trtllm": Endpoint("http://localhost:8000/v1", grammar_form="ebnf", logprobs=True),
    # https://docs.ollama.com/api/openai-compatibility: `response_format`; no token ids, no partial messages
    "ollama": Endpoint("http://localhost:11434/v1"),
}  # fmt: skip
"""The servers known by name."""

PLAIN = Endpoint("")
"""Any other server at a `base_url`: the chat-completions format alone, schemas by `response_format`, no key."""


def grammar_fields(form: GrammarForm, text: str) -> dict[str, Any]:
    """Return the fields of a request that constrain the reply to a grammar."""
    if form == "structured_outputs":
        return {"structured_outputs": {"grammar": text}}
    if form == "guided":
        return {"guided_grammar": text}
    return {"response_format": {"type": "ebnf", "ebnf": text}}


def schema_fields(form: SchemaForm, schema: Schema) -> dict[str, Any]:
    """Return the fields of a request that constrain the reply to a JSON schema."""
    if form == "structured_outputs":
        return {"structured_outputs": {"json": schema}}
    if form == "guided":
        return {"guided_json": schema}
    if form == "nvext":
        return {"nvext": {"guided_json": schema}}
    described: dict[str, Any] = {"name": "action", "schema": strict(schema) if form == "strict" else schema}
    if form == "strict":
        described["strict"] = True
    return {"response_format": {"type": "json_schema", "json_schema": described}}
