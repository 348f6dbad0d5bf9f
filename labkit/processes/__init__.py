"""Real processes on real servers."""
