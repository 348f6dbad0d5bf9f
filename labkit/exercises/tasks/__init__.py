"""The exercises: one per file; an object of the file's own name."""
