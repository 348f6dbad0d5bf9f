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

ENOUGH_STATES = 500  # a slider that is moved should answer at once
JOBS, BEATS = 4, 3  # beats in a visibility timeout; see `labkit.workers.Heartbeat`
_NAMES = {
    "visibility_timeout": ("visibility timeout", 10, 180),
    "job_seconds": ("job duration", 5, 120),
    "grace_period": ("grace period", 0, 120),
}


class Tuner(Shown):
    """Sliders for the numbers of a system of workers; the verdict and the picture of a deploy follow.

    Parameters
    ----------
    visibility_timeout: seconds for which a received message is hidden, 10 to 180.
    job_seconds: how long a job takes, 5 to 120.
    heartbeat: whether workers hide their message anew, each third of the visibility timeout.
    grace_period: seconds from SIGTERM to SIGKILL, up to 120.

    Raises `ValueError` on what no slider shows.
    """

    def __init__(
        self, visibility_timeout: int = 30, job_seconds: int = 45, heartbeat: bool = False, grace_period: int = 30
    ) -> None:
        super().__init__("tuner")
        values = (visibility_timeout, job_seconds, grace_period)
        self.sliders: dict[str, ipw.IntSlider | ipw.Checkbox] = {}
        rows: list[ipw.Widget] = []
        for (name, (words, low, high)), value in zip(_NAMES.items(), values, strict=True):
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise ValueError(f"{name} is {value!r}; the slider goes from {low} to {high} seconds, whole ones")
            slider = ipw.IntSlider(value, low, high, 5, description=f"{words}, s", continuous_update=False)
            slider.style.description_width, slider.layout.width = "190px", "560px"
            slider.observe(self.guarded(self._refresh), "value")
            self.sliders[name] = slider
            slider.layout.max_width = "100%"
            rows.append(slider)
        if not isinstance(heartbeat, bool):
            raise ValueError(f"heartbeat is True or False, not {heartbeat!r}")
        self.sliders["heartbeat"] = ipw.Checkbox(heartbeat, indent=False, layout={"width": "auto"})
        self.sliders["heartbeat"].observe(self.guarded(self._refresh), "value")
        rows.insert(2, self.sliders["heartbeat"])
        self.advice, self.picture = ipw.HTML(), ipw.HTML()
        self.picture.add_class("lk-picture")
        self.show(*rows, self.status, self.advice, self.picture)
        self._refresh()

    def __getattr__(self, name: str) -> int:
        """The value of a slider, by its name."""
        if name not in (*_NAMES, "heartbeat"):
            raise AttributeError(name)
        return self.sliders[name].value  # type: ignore[no-any-return]

    def set(self, **values: int) -> None:
        """Move sliders, and tick the heartbeat or not, by their names."""
        for name, value in values.items():
            self.sliders[name].value = value

    # ---- what follows from the numbers

    def verdict(self) -> Verdict:
        """Every order of two workers on one order, searched."""
        scenario = OneOrder(self.job_seconds, self.visibility_timeout, bool(self.heartbeat))
        return explore(scenario, max_states=ENOUGH_STATES)

    def rollout(self) -> Picture:
        """A deploy with these numbers, one run of it."""
        rollout = Rollout(
            jobs=JOBS,
            job_seconds=self.job_seconds,
            visibility_timeout=self.visibility_timeout,
            grace_period=self.grace_period,
            heartbeat=bool(self.heartbeat),
            old_receipts="delete",
        )
        return deploy_timeline(rollout.run())

    def problems(self) -> list[str]:
        """Which of the numbers do not fit together."""
        never = 10 * (self.job_seconds + self.visibility_timeout)
        return Timings(
            job_p95=self.job_seconds,
            visibility_timeout=self.visibility_timeout,
            lock_ttl=never,
            grace_period=self.grace_period,
            retry_budget=2 * never,
            dedup_retention=never,
            max_redelivery_age=never,
            extended=bool(self.heartbeat),
        ).problems()

    def _refresh(self) -> None:
        beat = f"{self.visibility_timeout / BEATS:g} s"
        self.sliders["heartbeat"].description = f"heartbeat: the message is hidden anew every {beat} while a job runs"
        verdict = self.verdict()
        self._words, self._problems = verdict.headline, self.problems()
        kind = {"holds": "good", "violated": "bad"}.get(verdict.outcome, "calm")
        self.say(f"One order in the queue: {self._words}", kind)
        items = "".join(f"<li>{html.escape(problem)}</li>" for problem in self._problems)
        self.advice.value = f"<ul>{items}</ul>" if items else "<p>These numbers fit together.</p>"
        self._picture = self.rollout()
        self.picture.value = f"<p>One deploy with {JOBS} orders:</p>{self._picture.html}"

    @property
    def text(self) -> str:
        """The numbers and what follows from them, as plain text."""
        numbers = ", ".join(f"{words} {self.sliders[name].value} s" for name, (words, *_) in _NAMES.items())
        numbers += f", heartbeat {'on' if self.heartbeat else 'off'}"
        fits = self._problems or ["these numbers fit together"]
        told = self._picture.text.rpartition("\n")[2]
        return "\n".join([f"Tuner: {numbers}. {LIVE}", self._words, *fits, f"One deploy: {told}"])

    @property
    def static_html(self) -> str:
        """The same with the picture."""
        return static(self.text, self._picture.html)
