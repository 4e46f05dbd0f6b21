"""Language models behind the one protocol `agents.policy.Policy`: a folder a backend.

Each folder holds `policy.py` with the backend's class, and modules that only this backend needs:

- `transformers/`, `mlx/`: models sampled token by token in this process; `local/` holds what they share.
- `tensorrt/`: TensorRT-LLM's engine in this process.
- `openai/`: any server with OpenAI's chat-completions API, NVIDIA NIM and vLLM included.

`request.py` checks what `complete` is called with, the same for all.

To add a backend, write `policies/NAME/policy.py` with a class that has what `Policy` asks for (a model in this process:
a subclass of `local.policy.LocalPolicy`, which leaves `_sample` and `context_length` to write), import its libraries
inside of functions, and give it a line in `agents.BACKENDS`: name, `module:Class`, required packages. Its constructor's
annotated parameters become options of the command line by themselves. A policy of one's own needs no line:
`agents.make("module:Class")`.
"""
