"""Sentences of the experiments pages: what a search found, what becomes of each configuration and why."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from frontend.components.formats import counted, percent, significant
from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.selectors.jobs.many.experiment_rows import ConfigurationRow, ExperimentDetail
from scheduler.selectors.rows import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchVerdict:
    """What a configuration is worth. ``tone`` and ``icon`` are those of a badge."""

    word: str
    tone: str
    icon: str
    why: str


def values_words(values: Json) -> str:
    """Return the values of a configuration: ``lr 0.01, width 64``."""
    return ", ".join(f"{name} {value_text(value)}" for name, value in values.items())


def value_text(value: object) -> str:
    """Return one value, numbers with four digits at most."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def loss_of(one: ConfigurationRow) -> float:
    """Return the loss of a configuration, infinity where there is none."""
    return math.inf if one["loss"] is None else one["loss"]


def best_of(members: Sequence[ConfigurationRow]) -> ConfigurationRow | None:
    """Return the configuration with the least loss so far."""
    known = [one for one in members if one["loss"] is not None]
    return min(known, key=lambda one: (loss_of(one), one["number"])) if known else None


def may_report(experiment: ExperimentDetail) -> bool:
    """Return whether a loss may still come: there are configurations to submit, or jobs that have not ended."""
    return experiment["state"] == "running" or any(one["state"] not in TERMINAL for one in experiment["members"])


def finding(experiment: ExperimentDetail) -> str:
    """Return what is known so far, one sentence."""
    best = best_of(experiment["members"])
    if best is None:
        return f"No configuration of {experiment['name']} has a loss{' yet' if may_report(experiment) else ''}"
    if experiment["target_loss"] is None and experiment["state"] == "done":
        tried = counted(len(experiment["members"]), "configuration")
        return f"The best of {tried}: a loss of {significant(best['loss'])} with {values_words(best['values'])}"
    reached = experiment["state"] == "found"
    word = "Found" if reached else "Best so far"
    return f"{word}: a loss of {significant(best['loss'])} with {values_words(best['values'])}"


def goal(experiment: ExperimentDetail) -> str:
    """Return how the search stands against its target."""
    state = experiment["state"]
    tried = f"{experiment['submitted']} of {counted(experiment['configurations'], 'configuration')}"
    if experiment["target_loss"] is None:
        ends = {"running": "All run to their end", "done": "All have ended", "cancelled": "It was cancelled"}
        return f"{ends[state]}. {tried} submitted"
    target = significant(experiment["target_loss"])
    ends = {
        "running": f"It goes on until one has a loss of {target} or less. {tried} submitted",
        "found": f"The target was {target}. {tried} submitted",
        "exhausted": f"None reached the target of {target}. {tried} submitted",
        "cancelled": f"It was cancelled. The target was {target}. {tried} submitted",
    }
    return ends[state]


def is_given_up(one: ConfigurationRow) -> bool:
    """Return whether the search ended a configuration before its end."""
    return one["promise"] == "poor" and one["state"] != JobState.COMPLETED


def verdict_of(one: ConfigurationRow, experiment: ExperimentDetail) -> SearchVerdict:
    """Return what becomes of a configuration, and why."""
    if experiment["target_loss"] is None:
        return _without_target(one, experiment)
    target = significant(experiment["target_loss"])
    chance = f"{percent(one['chance'])} chance to reach {target}" if one["chance"] is not None else ""
    heads = f"Heads for {significant(one['heading_for'])}, {chance}." if chance else ""
    if one["loss"] is not None and one["loss"] <= experiment["target_loss"]:
        return SearchVerdict(
            word="Reached the target", tone="ok", icon="check", why=f"Loss {significant(one['loss'])}."
        )
    if is_given_up(one):
        return SearchVerdict(word="Given up", tone="mute", icon="x", why=f"Poor: {heads[:1].lower()}{heads[1:]}")
    if one["state"] in TERMINAL:
        return _ended(one, experiment, heads)
    if not chance:
        why = f"No verdict before its first look, after {counted(experiment['feedback_steps'] or 0, 'step')}."
        return SearchVerdict(word="No verdict yet", tone="mute", icon="clock", why=why)
    if one["promise"] == "promising":
        return SearchVerdict(word="Promising", tone="ok", icon="arrow-up", why=f"{heads} Has a GPU of its own.")
    return SearchVerdict(
        word="Opportunistic", tone="info", icon="rotate-ccw", why=f"{heads} Takes turns on what is left."
    )


def _without_target(one: ConfigurationRow, experiment: ExperimentDetail) -> SearchVerdict:
    """Return how a configuration stands that runs to its end."""
    if one["state"] in TERMINAL:
        return _ended(one, experiment, "")
    return SearchVerdict(word="Runs to its end", tone="info", icon="clock", why="")


def _ended(one: ConfigurationRow, experiment: ExperimentDetail, heads: str) -> SearchVerdict:
    if one["state"] == "completed":
        why = f"Trained to its end{', loss ' + significant(one['loss']) if one['loss'] is not None else ''}."
        return SearchVerdict(word="Completed", tone="mute", icon="check", why=why)
    if one["state"] == "failed":
        return SearchVerdict(word="Failed", tone="bad", icon="x", why="Its job failed; the log says why.")
    reason = {"found": "Ended because another one reached the target.", "cancelled": "The search was cancelled."}
    why = reason.get(experiment["state"], "Its job was cancelled.")
    return SearchVerdict(word="Ended", tone="mute", icon="ban", why=f"{why} {heads}".strip())
