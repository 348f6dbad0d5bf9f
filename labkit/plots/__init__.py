"""Pictures, one per file, each drawn from a trace or a verdict."""
