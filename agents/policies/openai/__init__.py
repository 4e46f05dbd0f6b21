"""The backend for any server with OpenAI's chat-completions API, NVIDIA NIM included."""
