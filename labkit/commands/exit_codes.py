"""What the exit code of a command says."""

EXIT_CODES = {"holds": 0, "violated": 1, "undetermined": 2}
WRONG_USE = 3
