"""The backend for servers with OpenAI's chat-completions API, including NVIDIA NIM."""
