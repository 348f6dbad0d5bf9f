"""Every schedule of two workers, each replayed from the start: what pictures of all schedules must agree with.

A choice is tried by replaying it, so this knows nothing of what is enabled but what `replay` refuses.
"""

from labkit import ScheduleError, replay

_TRACES = {}  # by scenario: several tests ask for the same


class EveryReplay:
    """The schedules of workers A and B without faults.

    Parameters
    ----------
    scenario: builds the world.
    property: the one that is looked at; None for all.
    pauses: how often time may pass while a worker could step.
    """

    def __init__(self, scenario, property=None, pauses=0):
        self.scenario, self.property, self.pauses = scenario, property, pauses
        self._traces, self._chances = _TRACES.setdefault(scenario, {}), {}

    def trace(self, schedule):
        """What a schedule, a tuple of words, does; None when it is impossible."""
        if schedule not in self._traces:
            try:
                self._traces[schedule] = replay(self.scenario, " ".join(schedule))
            except ScheduleError:
                self._traces[schedule] = None
        return self._traces[schedule]

    def after(self, schedule):
        """The schedules that are longer by one choice."""
        steps = [(*schedule, name) for name in "AB" if self.trace((*schedule, name)) is not None]
        clock = (*schedule, "clock")
        may_pass = not steps or self.pauses_of(schedule) < self.pauses
        return steps + ([clock] if may_pass and self.trace(clock) is not None else [])

    def pauses_of(self, schedule):
        """How often time passed while a worker could have stepped."""
        places = [place for place, word in enumerate(schedule) if word == "clock"]
        return sum(any(self.trace((*schedule[:place], name)) is not None for name in "AB") for place in places)

    def broken(self, schedule):
        """Whether the property has been violated."""
        names = [found.property for found in self.trace(schedule).violations]
        return bool(names) if self.property is None else self.property in names

    def doomed(self, schedule):
        """Whether every way to go on violates it."""
        after = self.after(schedule)
        return self.broken(schedule) or (bool(after) and all(map(self.doomed, after)))

    def prefixes(self, start=()):
        """Every schedule, whole or begun."""
        yield start
        for longer in self.after(start):
            yield from self.prefixes(longer)

    def fates(self):
        """For each pair of step counts, what is so whichever way one came: broken, doomed, open, or it depends."""
        found = {}
        for schedule in self.prefixes():
            fate = "broken" if self.broken(schedule) else "doomed" if self.doomed(schedule) else "open"
            found.setdefault((schedule.count("A"), schedule.count("B")), set()).add(fate)
        return {point: _together(each) for point, each in found.items()}

    def chance(self, schedule):
        """The share of violations when each choice that is possible is as likely as any other."""
        if self.broken(schedule):
            return 1.0
        if schedule not in self._chances:
            shares = [self.chance(longer) for longer in self.after(schedule)]
            self._chances[schedule] = sum(shares) / len(shares) if shares else 0.0
        return self._chances[schedule]

    def alone(self, schedule, name):
        """The schedules by which one worker goes on alone; time passes where nobody can step."""
        while True:
            yield schedule
            while self.after(schedule) == [(*schedule, "clock")]:
                schedule = (*schedule, "clock")
            schedule = (*schedule, name)
            if self.trace(schedule) is None:
                return

    def switches(self, clock=False):
        """For each pair of switch points, the share of violations."""
        found = {}
        for i, first in enumerate(self.alone((), "A")):
            first = (*first, "clock") if clock else first
            if self.trace(first) is not None:
                for j, second in enumerate(self.alone(first, "B")):
                    found[i, j] = self.chance(second)
        return found


def _together(fates):
    if fates == {"broken"} or fates == {"open"}:
        return fates.pop()
    return "depends" if "open" in fates else "doomed"
