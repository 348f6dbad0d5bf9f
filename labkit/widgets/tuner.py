"""The tuner: numbers that must fit together, and what happens in a deploy when they do not."""

from __future__ import annotations

import html

import ipywidgets as ipw

from labkit.incidents.one_order import OneOrder
from labkit.incidents.rollout import Rollout
from labkit.plots import Picture, deploy_timeline
from labkit.search.every_schedule import explore
from labkit.verdict import Verdict
from labkit.widgets.shown import LIVE, Shown, static
from labkit.workers import Timings

ENOUGH_STATES = 400  # a slider that is moved should answer at once
JOBS = 4
_NAMES = {
    "visibility_timeout": ("visibility timeout", 10, 180),
    "job_seconds": ("job duration", 5, 120),
    "heartbeat": ("heartbeat every (0: never)", 0, 60),
    "grace_period": ("grace period", 0, 120),
}


class Tuner(Shown):
    """Sliders for the numbers of a system of workers; the verdict and the picture of a deploy follow.

    Parameters
    ----------
    visibility_timeout: seconds for which a received message is hidden, 10 to 180.
    job_seconds: how long a job takes, 5 to 120.
    heartbeat: seconds between two beats that hide the message anew, up to 60; 0 for none.
    grace_period: seconds from SIGTERM to SIGKILL, up to 120.
    """

    def __init__(
        self, visibility_timeout: int = 30, job_seconds: int = 45, heartbeat: int = 0, grace_period: int = 30
    ) -> None:
        super().__init__("tuner")
        values = (visibility_timeout, job_seconds, heartbeat, grace_period)
        self.sliders: dict[str, ipw.IntSlider] = {}
        rows: list[ipw.Widget] = []
        for (name, (words, low, high)), value in zip(_NAMES.items(), values, strict=True):
            if not low <= value <= high:
                raise ValueError(f"{name} is {value!r}; the slider goes from {low} to {high} seconds")
            slider = ipw.IntSlider(value, low, high, 5, description=f"{words}, s", continuous_update=False)
            slider.style.description_width, slider.layout.width = "190px", "560px"
            slider.observe(self.guarded(self._refresh), "value")
            self.sliders[name] = slider
            slider.layout.max_width = "100%"
            rows.append(slider)
        self.advice, self.picture = ipw.HTML(), ipw.HTML()
        self.picture.add_class("lk-picture")
        self.show(*rows, self.status, self.advice, self.picture)
        self._refresh()

    def __getattr__(self, name: str) -> int:
        """The value of a slider, by its name."""
        if name.startswith("_") or name not in _NAMES:
            raise AttributeError(name)
        return int(self.sliders[name].value)

    def set(self, **values: int) -> None:
        """Move sliders, by their names."""
        for name, value in values.items():
            self.sliders[name].value = value

    # ---- what follows from the numbers

    def verdict(self) -> Verdict:
        """Every order of two workers on one order, searched."""
        scenario = OneOrder(self.job_seconds, self.visibility_timeout, self.heartbeat or None)
        return explore(scenario, max_states=ENOUGH_STATES)

    def rollout(self) -> Picture:
        """A deploy with these numbers, one run of it."""
        rollout = Rollout(
            jobs=JOBS,
            job_seconds=self.job_seconds,
            visibility_timeout=self.visibility_timeout,
            grace_period=self.grace_period,
            heartbeat=self.heartbeat or None,
            old_receipts="delete",
        )
        return deploy_timeline(rollout.run())

    def problems(self) -> list[str]:
        """Which of the numbers do not fit together."""
        beats = 0 < self.heartbeat < self.visibility_timeout
        never = 10 * (self.job_seconds + self.visibility_timeout)
        found = Timings(
            job_p95=self.job_seconds,
            visibility_timeout=self.visibility_timeout,
            lock_ttl=never,
            grace_period=self.grace_period,
            retry_budget=2 * never,
            dedup_retention=never,
            max_redelivery_age=never,
            extended=beats,
        ).problems()
        if self.heartbeat and not beats:
            found.append(f"the first heartbeat comes after {self.heartbeat} s, when the message is visible again")
        return found

    def _refresh(self) -> None:
        verdict = self.verdict()
        self._words, self._problems = verdict.headline, self.problems()
        kind = {"holds": "good", "violated": "bad"}.get(verdict.outcome, "calm")
        self.say(f"Two workers, one order, every order of their steps. {self._words}", kind)
        items = "".join(f"<li>{html.escape(problem)}</li>" for problem in self._problems)
        self.advice.value = f"<ul>{items}</ul>" if items else "<p>These numbers fit together.</p>"
        self._picture = self.rollout()
        self.picture.value = f"<p>One deploy with {JOBS} orders:</p>{self._picture.html}"

    @property
    def text(self) -> str:
        """The numbers and what follows from them, as plain text."""
        numbers = ", ".join(f"{words} {self.sliders[name].value} s" for name, (words, *_) in _NAMES.items())
        fits = self._problems or ["these numbers fit together"]
        told = self._picture.text.rpartition("\n")[2]
        return "\n".join([f"Tuner: {numbers}. {LIVE}", self._words, *fits, f"One deploy: {told}"])

    @property
    def static_html(self) -> str:
        """The same with the picture."""
        return static(self.text, self._picture.html)
