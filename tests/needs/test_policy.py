"""What a need requests and allows, epoch by epoch, beside brute force over the epochs.

The model of a run here has no rows: an epoch has an end on the clock and a newest time, and the
answers that the engine would emit follow from the requests and the slack.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.codec import decode, encode
from lowwater.learners.slack_frontier import SlackFrontier
from lowwater.needs.memory import MOST, NeedMemory
from lowwater.needs.part import DELAY, NeedPart, PartNews
from lowwater.needs.policy import NeedNews, NeedPolicy
from lowwater.windows.sliding import Sliding
from tests.strategies import examples

SECOND = 1_000_000
ORDERED = SlackFrontier((0,), (1.0,))
DISORDERED = SlackFrontier((0, 1000 * SECOND), (0.5, 1.0))


def part(fresh="8 seconds", exact="60 seconds", range=10, slide=10, gives=("exact", "right")):
    need = lw.need(fresh=fresh, right=0.9, exact=exact, gives=gives)
    windows = (Sliding(range=range * SECOND, slide=slide * SECOND),)
    return NeedPart("results", 0, need, windows, (0,), gives)


@dataclass
class Run:
    """A run of a need over (end on the clock, newest time) of epochs, both in seconds."""

    part: NeedPart
    frontier: SlackFrontier = DISORDERED
    slack: int = 10**6 * SECOND
    memory: NeedMemory = field(init=False)
    first: dict[int, int] = field(default_factory=dict)
    requests: list[tuple[int, int, int]] = field(default_factory=list)

    def __post_init__(self):
        self.policy = NeedPolicy((self.part,))
        self.memory = self.policy.begin()

    def play(self, epochs, *, hurried=True):
        wanted, low, done = None, None, None
        for now, newest in epochs:
            early = [] if wanted is None else self.ends(done, wanted)
            finals = [] if low is None else self.ends(None, low)
            early = [e for e in early if e not in finals and e <= (newest + 10) * SECOND]
            for end in (*early, *finals):
                self.first.setdefault(end, now * SECOND)
            done = wanted if wanted is not None else done
            news = PartNews(newest * SECOND, low, tuple(early), tuple(finals), self.frontier)
            self.memory = self.policy.advance(
                self.memory, NeedNews(now * SECOND, [news]), hurried=hurried
            )
            kept = self.memory.parts[0]
            slack = self.slack if kept.cap is None else min(self.slack, kept.cap)
            low = self.part.last_end(newest * SECOND - slack)
            if kept.asked is not None and kept.asked != wanted:
                self.requests.append((now * SECOND, newest * SECOND, kept.asked))
            wanted = kept.asked
        return self

    def ends(self, since, upto):
        since = -self.part.slide * 2 if since is None else since
        return [e for e in self.part.ends(since, upto)[::-1] if e not in self.first]


def steady(seconds, length=1, rate=1):
    return [(n * length, n * length * rate) for n in range(1, seconds // length)]


def test_an_early_result_is_requested_three_epochs_before_it_is_due():
    run = Run(part()).play(steady(40))
    # The epoch from 9 to 10 reaches the end 10, so the answer is due at 17. A request at 15 is
    # answered at 16; one at 16 at 17, which is too late for a row that waited for its epoch.
    requests = [one for one in run.requests if one[2] == 10 * SECOND]
    assert requests == [(15 * SECOND, 15 * SECOND, 10 * SECOND)]
    assert run.first[10 * SECOND] == 16 * SECOND


def test_finals_are_the_first_answers_where_the_rows_are_in_by_then():
    run = Run(part(), frontier=ORDERED).play(steady(60))
    assert run.memory.parts[0].alone
    assert run.memory.parts[0].cap == (8 - DELAY) * SECOND


def test_finals_may_take_until_exact_where_the_rows_are_not_in_by_then():
    run = Run(part()).play(steady(60))
    assert not run.memory.parts[0].alone
    assert run.memory.parts[0].cap == (60 - DELAY) * SECOND


def test_one_long_epoch_does_not_change_the_pace():
    epochs = [*steady(40), (99, 99), *((n, n) for n in range(100, 140))]
    assert Run(part()).play(epochs).memory.pace.length == SECOND


def test_long_epochs_request_windows_before_their_end_but_not_before_their_begin():
    run = Run(part()).play([(n * 4, n * 4) for n in range(1, 40)])
    assert any(asked > newest for _, newest, asked in run.requests)
    assert all(asked - 10 * SECOND <= newest for _, newest, asked in run.requests)


def test_right_that_must_not_give_is_never_requested_before_the_end():
    run = Run(part(gives=("exact",))).play([(n * 4, n * 4) for n in range(1, 40)])
    assert run.requests
    assert all(asked <= newest for _, newest, asked in run.requests)


def test_the_clock_alone_makes_an_answer_due_in_a_silence():
    run = Run(part()).play(steady(12))
    assert not run.policy.due(run.memory, 11 * SECOND)
    assert run.policy.due(run.memory, 30 * SECOND)


def test_windows_close_by_the_clock_before_exact_in_a_silence():
    """Event time stands at 12; the end 10 was reached in the epoch from 9 to 10, and ends at 70."""
    silent = [(n, 12) for n in range(13, 67)]
    run = Run(part()).play([*steady(13), *silent])
    assert run.memory.parts[0].cap == (60 - DELAY) * SECOND
    assert run.policy.due(run.memory, 67 * SECOND)
    run.play([(67, 12)])
    assert run.memory.parts[0].cap == 2 * SECOND
    assert not run.policy.due(run.memory, 67 * SECOND)
    run.play([(68, 12)])
    assert run.first[10 * SECOND] <= 68 * SECOND
    run.play([(n, n) for n in range(69, 80)])
    assert run.memory.parts[0].cap == (60 - DELAY) * SECOND


lengths = st.lists(st.integers(1, 3), min_size=30, max_size=80)


@given(lengths, st.sampled_from([(10, 10), (10, 5), (6, 2)]), st.integers(12, 30))
@examples(60)
def test_first_answers_come_within_fresh(lengths, window, fresh):
    """Any epochs of 1 to 3 seconds: every ended window is answered in time, by the arrivals."""
    now, epochs = 0, []
    for length in lengths:
        now += length
        epochs.append((now, now - length))  # rows up to the begin of the epoch
    run = Run(part(f"{fresh} seconds", "1000 seconds", *window)).play(epochs)
    ends = [e for e in run.part.ends(0, epochs[-1][1] * SECOND) if e >= 20 * SECOND]
    for end in ends:
        if end + fresh * SECOND < epochs[-1][0] * SECOND:
            assert run.first[end] - end <= fresh * SECOND, end


@given(lengths, st.integers(0, 40), st.integers(1, 40))
@examples(40)
def test_a_run_that_stops_and_goes_on_decides_as_one_that_never_stopped(lengths, at, jump):
    """The memory in the log, written and read again, is all that decisions depend on."""
    now, epochs = 0, []
    for n, length in enumerate(lengths):
        now += length + (jump if n == at else 0)
        epochs.append((now, now))
    whole = Run(part()).play(epochs)
    policy, memory = whole.policy, whole.policy.begin()
    for now, newest in epochs:
        news = NeedNews(now * SECOND, [PartNews(newest * SECOND, frontier=DISORDERED)])
        one = policy.advance(memory, news, hurried=True)
        again = policy.advance(decode(NeedMemory, encode(memory)), news, hurried=True)
        assert one == again
        memory = one


@given(st.lists(st.integers(0, 30), min_size=20, max_size=60))
@examples(40)
def test_the_tally_counts_each_window_once(steps):
    """Windows may end many at a time, or none: each has one first answer and at most one final."""
    epochs, newest = [], 0
    for now, step in enumerate(steps, 1):
        newest += step
        epochs.append((now, newest))
    run = Run(part(), slack=15 * SECOND).play(epochs)
    tally = run.memory.parts[0].tally
    assert tally.first == len(run.first)
    assert tally.final <= tally.first
    assert tally.first == tally.in_time + tally.lateness + tally.work + tally.stopped


# -- beside brute force --------------------------------------------------------------------------


@dataclass
class Windows:
    """The same need, window by window: a dictionary of every end, and lists of all epochs."""

    fresh: int
    range: int
    slide: int
    reached: dict[int, int] = field(default_factory=dict)
    requested: dict[int, int | None] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    asked: int | None = None
    before: tuple[int, int] | None = None

    def after(self, now, newest, *, alone=False):
        """The last end that is requested after an epoch from `before` to (now, newest)."""
        began, decided = now, None
        if self.before is not None:
            decided = self.before[0]
            self.lengths = [*self.lengths, now - decided][-16:]
            began = now - min(now - decided, self.length)
            if newest > self.before[1]:
                self.steps = [*self.steps, newest - self.before[1]][-16:]
        first = newest - newest % self.slide - self.slide - self.range
        known = max(self.reached, default=first)
        for end in range(known // self.slide * self.slide + self.slide, newest + 1, self.slide):
            self.reached[end] = began
            was = self.asked is not None and end <= self.asked
            self.requested[end] = decided if was else None
        epochs = 2 if alone else 3
        late = now + epochs * self.length - self.fresh
        due = [e for e, m in self.reached.items() if self.requested[e] is None and m < late]
        ends = [self.asked, *due]
        if 3 * self.length > self.fresh:
            step = sorted(self.steps)[len(self.steps) // 2] if self.steps else 0
            ahead = min(newest + step, newest + self.range - 1)
            ends.append(ahead // self.slide * self.slide)
        self.requested |= dict.fromkeys(due, now)
        self.asked = max([e for e in ends if e is not None], default=None)
        self.before = now, newest
        return self.asked

    @property
    def length(self):
        few = len(self.lengths) < 4
        return sorted(self.lengths)[-1 if few else -2] if self.lengths else 0


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 25)), min_size=5, max_size=50),
    st.sampled_from([(10, 10), (10, 5), (6, 2), (3, 3)]),
    st.integers(2, 60),
    st.booleans(),
)
@examples(100)
def test_requests_are_those_of_brute_force(epochs, window, fresh, ordered):
    """Epochs of any length, in which event time goes on by any step, in order or not."""
    rows = part(f"{fresh} seconds", "1000 seconds", *window)
    frontier = ORDERED if ordered else DISORDERED
    policy, naive = NeedPolicy((rows,)), Windows(fresh, *window)
    memory, now, newest = policy.begin(), 0, 100
    for length, step in epochs:
        now, newest = now + length, newest + step
        news = PartNews(newest * SECOND, frontier=frontier)
        memory = policy.advance(memory, NeedNews(now * SECOND, [news]), hurried=True)
        (kept,) = memory.parts
        wanted = naive.after(now, newest, alone=kept.alone)
        assert kept.asked == (None if wanted is None else wanted * SECOND)
        cap = max((fresh if kept.alone else 1000) - 3 * naive.length, 0)
        assert kept.cap == cap * SECOND
        assert kept.alone == ordered


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 12)), min_size=10, max_size=40),
    st.integers(2, 40),
    st.integers(0, 30),
    st.data(),
)
@examples(60)
def test_the_account_is_that_of_brute_force(epochs, fresh, slack, data):
    """Answers at any time, early, final or both: late ones are those more than `fresh` after."""
    rows = part(f"{fresh} seconds", "1000 seconds", 10, 5)
    policy = NeedPolicy((rows,))
    memory, now, newest, low = policy.begin(), 0, 100, 0
    reached, answered, finals = {}, {}, set()
    for length, step in epochs:
        open_ones = [e for e in reached if e > low and e not in finals]
        early = data.draw(st.sets(st.sampled_from(open_ones))) if open_ones else set()
        low = (newest - slack) // 5 * 5 if reached else 0  # decided before the rows of the epoch
        began, now, newest = now, now + length, newest + step
        done = [e for e in reached if e <= low and e not in finals]
        news = PartNews(
            newest * SECOND,
            low * SECOND,
            tuple(e * SECOND for e in sorted(early)),
            tuple(e * SECOND for e in done),
            DISORDERED,
        )
        memory = policy.advance(memory, NeedNews(now * SECOND, [news]), hurried=True)
        for end in (*sorted(early), *done):
            answered.setdefault(end, now - reached[end])
        finals |= set(done)
        span = min(now - began, memory.pace.length // SECOND) if memory.pace.lengths else 0
        for end in range(max(reached, default=newest // 5 * 5 - 15) + 5, newest + 1, 5):
            reached[end] = now - span
    tally = memory.parts[0].tally
    assert tally.first == len(answered)
    assert tally.in_time == sum(took <= fresh for took in answered.values())
    assert tally.first - tally.in_time == tally.lateness + tally.work + tally.stopped
    assert tally.final == len(finals)


def test_memory_is_bounded():
    run = Run(part("1 hour", "2 hours", 1, 1)).play(steady(1_000))
    kept = run.memory.parts[0]
    assert len(kept.sections) <= MOST
    assert len(kept.answered) <= MOST


def test_work_may_take_all_of_fresh_if_right_gives_before_windows():
    run = Run(part(gives=("exact", "right", "windows"))).play(steady(60))
    assert run.memory.parts[0].latency == 8 * SECOND
    assert run.policy.load(run.memory) == {}  # shed= decides
    assert NeedPolicy((run.part,), drops=True).load(run.memory) == {"latency": "8 seconds"}


def test_windows_that_give_first_leave_the_wait_for_rows_alone():
    frontier = SlackFrontier((0, 2 * SECOND, 20 * SECOND), (0.5, 0.95, 0.999))
    first = Run(part(gives=("windows", "exact", "right")), frontier=frontier).play(steady(60))
    assert first.memory.parts[0].latency == (8 - 2) * SECOND
    tight = part(exact="9 seconds", gives=("windows",))
    assert Run(tight, frontier=frontier).play(steady(60)).memory.parts[0].latency == 4.5 * SECOND
    assert Run(part(gives=("exact",))).play(steady(60)).memory.parts[0].latency is None
