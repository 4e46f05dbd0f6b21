"""What commands share on the terminal: arguments, progress, live view, Ctrl-C."""
