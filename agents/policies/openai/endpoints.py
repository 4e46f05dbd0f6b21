"""OpenAI-compatible servers: addresses, and server-specific extensions of the chat-completions format.

The hosted services were not called in writing this module; each form is taken from the server's source or
documentation, cited next to it. For another server, create an `Endpoint(...)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from selfsurf.agents.policy import Guidance
from selfsurf.agents.reply.schema import Schema, strict

GrammarForm: TypeAlias = Literal["structured_outputs", "guided", "ebnf"]
"""Form of a grammar in a request."""

SchemaForm: TypeAlias = Literal["structured_outputs", "guided", "nvext", "json_schema", "strict"]
"""Form of a JSON schema in a request."""


@dataclass(frozen=True)
class Endpoint:
    """A server with the chat-completions format, and its extensions."""

    base_url: str
    """Address of the API, up to and including `/v1`."""
    key_variable: str = ""
    """Environment variable of the API key; empty if none is needed."""
    guidance: Guidance = "schema"
    """Default method of constraining replies."""
    grammar_form: GrammarForm | None = None
    """Form of grammars in requests; None if the server doesn't support grammars."""
    schema_form: SchemaForm | None = "json_schema"
    """Form of JSON schemas in requests; None if the server doesn't support schemas."""
    continues: bool = False
    """Whether the server can continue a partial assistant message (`continue_final_message`)."""
    token_ids: Literal["return_token_ids", "return_tokens_as_token_ids"] | None = None
    """Request field for token ids; None if unsupported. `return_tokens_as_token_ids` covers only sampled tokens, and
    needs `logprobs`."""
    logprobs: bool = False
    """Whether to request log-probabilities."""
    tokenizes: bool = False
    """Whether the server has `/tokenize` next to `/v1`."""
    lists_models: bool = False
    """Whether `/models` lists every model and adapter of the server."""
    length_field: str = "max_tokens"
    """Name of the request field that limits the reply's length."""
    neutral: Mapping[str, Any] = field(default_factory=dict)
    """Fields that undo the server's own sampling defaults, so that temperature 1 samples the model's distribution."""


# vLLM applies the sampling defaults of the model's generation_config.json unless a request overrides them:
# https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
_VLLM_NEUTRAL: dict[str, Any] = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}

ENDPOINTS: dict[str, Endpoint] = {
    # Schemas: https://platform.openai.com/docs/guides/structured-outputs
    # OpenAI's reasoning models refuse `max_tokens`.
    "openai": Endpoint(
        "https://api.openai.com/v1", "OPENAI_API_KEY", schema_form="strict", length_field="max_completion_tokens"
    ),
    # `nvext.guided_json`: https://docs.nvidia.com/nim/large-language-models/latest/structured-generation.html
    # NIM for vision-language models takes `response_format` instead: endpoint=replace(ENDPOINTS["nim"],
    # schema_form=...)
    "nim": Endpoint("https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY", schema_form="nvext"),
    # Request fields of vLLM: vllm/entrypoints/openai/chat_completion/protocol.py
    # The endpoint `/tokenize`: vllm/entrypoints/serve/tokenize
    # Grammars are in llguidance's Lark, which differs from xgrammar's, so the server must be started with
    # --structured-outputs-config '{"backend": "guidance"}'.
    "vllm": Endpoint(
        "http://localhost:8000/v1", "VLLM_API_KEY", "grammar", "structured_outputs", "structured_outputs",
        continues=True, token_ids="return_token_ids", logprobs=True, tokenizes=True, lists_models=True,
        neutral=_VLLM_NEUTRAL,
    ),
    # Older vLLM, with `guided_grammar` and `guided_json` instead of `structured_outputs`:
    # https://docs.vllm.ai/en/v0.9.0/features/structured_outputs.html
    "vllm-guided": Endpoint(
        "http://localhost:8000/v1", "VLLM_API_KEY", "grammar", "guided", "guided",
        continues=True, token_ids="return_tokens_as_token_ids", logprobs=True, tokenizes=True, lists_models=True,
        neutral=_VLLM_NEUTRAL,
    ),
    # `response_format` of type json_schema or ebnf: tensorrt_llm/serve/openai_protocol.py
    # The server's YAML must set guided_decoding_backend: xgrammar or llguidance for schemas, llguidance for grammars.
    "trtllm": Endpoint("http://localhost:8000/v1", grammar_form="ebnf", logprobs=True),
    # `response_format`, but no token ids or partial messages: https://docs.ollama.com/api/openai-compatibility
    "ollama": Endpoint("http://localhost:11434/v1"),
}  # fmt: skip
"""Known servers by name."""

PLAIN = Endpoint("")
"""Any other server at a `base_url`: only the chat-completions format, schemas by `response_format`, no key."""


def grammar_fields(form: GrammarForm, text: str) -> dict[str, Any]:
    """Return the request fields that constrain the reply to a grammar."""
    if form == "structured_outputs":
        return {"structured_outputs": {"grammar": text}}
    if form == "guided":
        return {"guided_grammar": text}
    return {"response_format": {"type": "ebnf", "ebnf": text}}


def schema_fields(form: SchemaForm, schema: Schema) -> dict[str, Any]:
    """Return the request fields that constrain the reply to a JSON schema."""
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
