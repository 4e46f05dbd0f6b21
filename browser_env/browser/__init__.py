"""Browser processes and the protocol: one event loop and one browser per process, scripts in pages, page time."""
