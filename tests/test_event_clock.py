"""Event time goes on with the system clock, from where the stream was least behind."""

from __future__ import annotations

from lowwater.event_clock import REMEMBERED, SPAN, ClockMemory, EventClock


def played(clock, *seen):
    memory = ClockMemory()
    for newest, now in seen:
        memory = clock.advance(memory, newest, now)
    return memory


def test_before_the_first_row_nobody_knows():
    clock = EventClock()
    memory = played(clock, (None, 5))
    assert clock.now(memory, 7) is None
    assert clock.at_next_answer(memory, 7) is None


def test_it_goes_on_while_no_rows_come():
    clock = EventClock()
    memory = played(clock, (1_000, 50), (1_010, 60), (1_010, 90))
    assert clock.now(memory, 90) == 1_040
    for later in range(100, 5_000, 10):
        memory = clock.advance(memory, 1_010, later, rows=False)
    assert clock.now(memory, 5_000) == 5_950


def test_the_next_epoch_is_as_long_as_most_of_the_last():
    clock = EventClock()
    steady = [(1_000 + at, at) for at in range(0, 100, 10)]
    memory = played(clock, *steady, (1_190, 190))
    assert memory.lengths[-1] == 100
    assert clock.at_next_answer(memory, 190) == 1_200


def test_a_silence_that_ends_does_not_make_the_next_epoch_longer():
    clock = EventClock()
    memory = played(clock, *((1_000 + at, at) for at in range(0, 100, 10)))
    for at in range(100, 150, 10):
        memory = clock.advance(memory, 1_090, at, rows=False)
    memory = clock.advance(memory, 1_150, 150)
    assert clock.at_next_answer(memory, 150) == 1_160


def test_an_answer_takes_as_long_as_the_epochs_that_answered():
    clock = EventClock()
    memory = played(clock, *((1_000 + at, at) for at in range(0, 100, 10)))
    memory = clock.advance(memory, 1_090, 92, rows=False, answered=True)
    assert memory.length == 2


def test_epochs_without_rows_have_a_delay_of_their_own():
    # Under a trigger of 10, rows are answered after 10; prods of epochs without rows after 1.
    #
    #  rows     |----10----|----10----|            |----10----|
    #  no rows                            |1|  |1|
    clock, newest = EventClock(), 1_000
    memory = played(clock, *((1_000 + at, at) for at in range(0, 100, 10)))
    memory = clock.advance(memory, newest := 1_100, 100, answered=True)
    for at in (130, 150, 170):
        memory = clock.advance(memory, newest, at, rows=False)
        memory = clock.advance(memory, newest, at + 1, rows=False, answered=True)
    assert memory.length == 1
    assert clock.at_next_answer(memory, 171) == 1_172
    memory = clock.advance(memory, 1_180, 180)
    assert memory.length == 10
    assert clock.at_next_answer(memory, 180) == 1_190


def test_before_an_epoch_without_rows_was_answered_it_is_expected_to_be_like_others():
    clock = EventClock()
    memory = played(clock, *((1_000 + at, at) for at in range(0, 100, 10)))
    memory = clock.advance(memory, 1_100, 104, answered=True)
    memory = clock.advance(memory, 1_100, 190, rows=False)
    assert memory.length == 14


def test_a_stream_that_is_worked_off_too_slowly_does_not_hold_it():
    clock = EventClock()
    memory = played(clock, (1_000, 50), (1_001, 60), (1_002, 70))
    assert clock.now(memory, 70) == 1_020


def test_a_replay_faster_than_the_clock_is_ahead_of_it():
    clock = EventClock()
    memory = played(clock, (1_000, 50), (2_000, 51), (3_000, 52), (4_000, 53))
    assert clock.now(memory, 53) == 4_000
    assert clock.at_next_answer(memory, 53) == 5_000


def test_a_stream_that_begins_with_late_rows_is_not_a_replay():
    clock = EventClock()
    memory = played(clock, (0, 50), (55, 60), (65, 70), (75, 80))
    assert clock.at_next_answer(memory, 80) == 85


def test_a_stream_that_has_fallen_behind_for_good_is_believed_in_the_end():
    clock = EventClock()
    behind = [(100 + n, 1_000 + n) for n in range(REMEMBERED + SPAN + 1)]
    memory = played(clock, (0, 0), *behind)
    assert clock.now(memory, behind[-1][1]) == behind[-1][0]


def test_numbers_do_not_follow_the_clock():
    clock = EventClock(timed=False)
    memory = played(clock, (10, 0), (14, 1_000_000))
    assert clock.now(memory, 9_000_000) == 14
    assert clock.at_next_answer(memory, 9_000_000) == 18
