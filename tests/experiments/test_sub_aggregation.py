"""The model of a low-level table: what leaves it when, and which rates it keeps up with."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.reference import sub_aggregation as model
from experiments.reference.sub_aggregation import IN_ORDER, LAZY, SLOW, Machine, Table, highest_rate


def naive(table, window, way, every):
    """Packet by packet, with the table as a list: (group, window) or None for each slot."""
    count = min(len(table.group), model.WINDOWS * window)
    slots = [None] * table.slots
    left = [0] * count
    for i in range(count):
        now, slot = i // window, int(table.slot[i])
        mine = (int(table.group[i]), now)

        def flush(which, i=i, now=now):
            out = [s for s in which if slots[s] is not None and slots[s][1] < now]
            for s in out:
                slots[s] = None
            left[i] += len(out)

        if way != IN_ORDER and i % window == 0:
            flush([s for s in range(table.slots) if slots[s] and slots[s][1] < now - 2])
        there = slots[slot]
        if there not in (None, mine):
            left[i] += 1
            if way == IN_ORDER and there[1] == now:
                flush(range(table.slots))
        slots[slot] = mine
        step = 1 if way == IN_ORDER else every
        if way != LAZY and now and i % window % step == step - 1:
            old = [s for s in range(table.slots) if slots[s] and slots[s][1] < now]
            flush(old[:1])
    return left


@pytest.mark.parametrize("way", [IN_ORDER, LAZY, SLOW])
@pytest.mark.parametrize("seed", range(8))
def test_what_leaves_is_what_a_table_packet_by_packet_lets_go(way, seed, monkeypatch):
    monkeypatch.setattr(model, "EVERY", 3)
    random = np.random.default_rng(seed)
    groups, slots = (int(n) for n in random.integers(2, 40, 2))
    table = Table.of(400, groups, slots, seed)
    window = int(random.integers(10, 80))
    assert table.leaving(window, way).tolist() == naive(table, window, way, 3)


def test_clash_in_the_new_window_makes_all_old_occupants_leave_in_order_only():
    # One packet each of ten groups, then two groups of the new window that share a slot.
    group = np.array([*range(10), 10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    slot = np.array([*range(10), 0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
    table = Table(group, slot, 10)
    in_order, lazy = (table.leaving(10, way) for way in (IN_ORDER, LAZY))
    # At packet 10 the occupant of its slot leaves and, slowly, one more; at 11 the eight others.
    assert in_order[10:].tolist() == [2, 9, 0, 0, 0, 0, 0, 0, 0, 0]
    assert lazy[10:].tolist() == [1] * 10


def test_backlog_is_what_comes_while_the_machine_is_busy():
    machine = Machine(packet=1e-6, output=1e-6)
    left = np.zeros(1_000, int)
    left[100] = 50
    # 100,000 packets a second: 51 µs of work let 5 more arrive behind the one at work.
    assert machine.backlog(100_000, left) == 6
    assert machine.backlog(100_000, np.zeros(1_000, int)) == 1
    assert machine.busy(100_000, left) == pytest.approx(0.105)


def test_highest_rate_is_bounded_by_the_processor_or_by_the_ring():
    table = Table.of(60_000, 100, 200, 1)
    fast, busy = highest_rate(table, IN_ORDER, Machine(ring=500), 0.01, top=1.2e6, step=1e4)
    assert busy == pytest.approx(1, abs=0.05)
    slow, idle = highest_rate(table, IN_ORDER, Machine(ring=10), 0.01, top=1.2e6, step=1e4)
    assert slow < 0.5 * fast
    assert idle < 0.5
