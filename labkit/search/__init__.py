"""One search per file, each over the engine's `moves`. A search decides; the engine knows what is enabled."""
