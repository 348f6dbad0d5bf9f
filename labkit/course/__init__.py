"""The course on a learner's disk: a copy of the notebooks that is theirs, and how far they have come."""
