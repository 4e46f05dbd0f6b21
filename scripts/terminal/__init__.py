"""Terminal code shared by the commands: arguments, progress, live view, Ctrl-C."""
