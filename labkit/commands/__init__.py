"""What `python -m labkit` can do: one command per file, each with `add_to(commands)` and `run_command(options)`."""
