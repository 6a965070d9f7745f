"""Packets: a measurement is read back as it was written, with the operator that took it."""

from __future__ import annotations

from dataclasses import replace

from lowwater.control.measures import InputMeasure, Measures, NeededSlack, ShardMeasure
from lowwater.operators.packet import measure_of, measure_packet

NEEDED = NeededSlack(2, 1, "tokyo", made=((0, 90), (7, 2)), lost=((12, 1),))


def test_needed_slack_is_read_back_with_the_operator_of_its_packet():
    packet = replace(measure_packet(0, 5, NEEDED), operator=4)
    assert measure_of(packet) == replace(NEEDED, operator=4)


def test_measures_are_grouped_by_kind_and_operator():
    shard = ShardMeasure(0, cells=3, operator=2)
    every = Measures.of([NEEDED, InputMeasure(0, rows=1), shard, replace(NEEDED, operator=3)])
    assert every.needed_slacks(2) == [NEEDED]
    assert every.of_operator(2) == [shard]
    assert every.rows(0) == 1
