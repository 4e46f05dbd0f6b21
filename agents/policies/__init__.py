"""Language models behind the protocol `agents.policy.Policy`, one folder per backend.

Each folder contains `policy.py` with the backend's class, and modules that only this backend needs:

- `transformers/`, `mlx/`: models sampled token by token in this process; `local/` has their common parts.
- `tensorrt/`: TensorRT-LLM's engine in this process.
- `openai/`: any server with OpenAI's chat-completions API, including NVIDIA NIM and vLLM.

`request.py` checks the arguments of `complete` for all backends.

To add a backend, write `policies/NAME/policy.py` with a class that implements `Policy` (for a model in this process: a
subclass of `local.policy.LocalPolicy` with `_sample` and `context_length`), import its libraries inside functions, and
add a line to `agents.BACKENDS`: name, `module:Class`, required packages. The annotated parameters of the constructor
become command-line options automatically. A custom policy needs no line: `agents.make("module:Class")`.
"""
