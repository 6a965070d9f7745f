"""The settings that `lowwater try` compares: those of the user, or some that suit the recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.cli.policy_text import early_of, need_of, shed_of, watermark_of
from lowwater.cli.replay.length import plain_slack
from lowwater.cli.replay.length import setting as slack_text
from lowwater.cli.trial.trial import Setting, Trials
from lowwater.errors import SpecError
from lowwater.shedding.policy import ShedPolicy

SHARES = (0.9, 0.95, 0.99, 0.999)
"""The shares for which a fixed slack is tried if the user gives no setting."""
QUALITIES = ("quality 0.95", "quality 0.99")
EARLY, SHED = "before 0.25", "share 0.2, max gap 5"
BASE = 0.99
"""Early results and drops are tried with the slack for this share."""
FRESH, EPOCHS, RIGHT = 0.9, 6, 0.98
"""The need that is tried: `fresh` is the slack for this share, at least this number of epochs, and
`right` this accuracy."""


@dataclass(frozen=True)
class SettingTexts:
    """The settings of the user as text; empty lists leave the choice to the command."""

    watermarks: Sequence[str] = ()
    early: Sequence[str] = ()
    shed: Sequence[str] = ()
    needs: Sequence[str] = ()

    def settings(self, trials: Trials) -> list[Setting]:
        """Return the settings to try; the first watermark goes with early results and drops."""
        base = self.watermarks[0] if self.watermarks else slack_for(trials, BASE)
        early, shed, needs = self.early, self.shed, self.needs
        chosen = self.watermarks or ([] if early or shed or needs else usual(trials))
        if not (self.watermarks or early or shed or needs):
            early, shed, needs = (EARLY,), (SHED,), usual_needs(trials)
        return [
            *(Setting(f"need {n}", None, need=need_of(n)) for n in needs),
            *(Setting(text, watermark_of(text)) for text in dict.fromkeys(chosen)),
            *(Setting(f"{base} + early {e}", watermark_of(base), early_of(e)) for e in early),
            *(Setting(f"{base} + shed {s}", watermark_of(base), None, _shed(s)) for s in shed),
        ]


def _shed(text: str) -> ShedPolicy:
    policy = shed_of(text)
    if policy.latency is not None:
        raise SpecError(
            f"--shed {text!r}: a trial measures no durations of this machine, so that it always "
            f"ends the same; try a share, as in --shed 'share 0.2, max gap 5'"
        )
    return policy


def usual(trials: Trials) -> list[str]:
    """Return the watermark policies that are tried if the user gives none."""
    return ["ordered", *(slack_for(trials, share) for share in SHARES), *QUALITIES]


def usual_needs(trials: Trials) -> list[str]:
    """Return the need that is tried if the user gives no setting; none if the query has no need."""
    query = trials.query
    if query.axis.kind == "number" or trials.frontier is None:
        return []
    fresh = plain_slack(query.axis, max(_slack(trials, FRESH), EPOCHS * query.epochs.length))
    text = f"fresh {slack_text(query.axis, fresh).removeprefix('slack ')}, right {RIGHT:g}"
    try:
        query.query(None).explain(need=need_of(text))
    except SpecError:
        return []
    return [text]


def slack_for(trials: Trials, share: float) -> str:
    """Return the fixed slack with which a share of the pairs, or of the rows, is in time."""
    axis = trials.query.axis
    return slack_text(axis, plain_slack(axis, _slack(trials, share)))


def _slack(trials: Trials, share: float) -> int:
    frontier = trials.frontier
    return trials.late_degree(share) if frontier is None else frontier.slack(share)
