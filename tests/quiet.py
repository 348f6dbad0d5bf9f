"""A pytest plugin: no progress bars, so that outputs do not depend on how fast the machine is."""

import os

os.environ.setdefault("LABKIT_PROGRESS", "0")
