"""Faults of processes, disks and checkpoints: exact, or a named error and exact after a restart.

Each test is one schedule of the fault harness, with drivers in processes of their own.
"""

from __future__ import annotations

import subprocess
import types

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

import lowwater as lw
from chaos.schedule import Fault
from chaos.spark_processes import Pool
from chaos.spark_schedule import SparkSchedule
from chaos.spark_simulate import Simulation
from lowwater.spark.session import while_jvm_lives


@pytest.fixture(scope="module")
def simulation():
    with Pool() as pool:
        yield Simulation(pool)


def errors_after(simulation, kind, point, session):
    """Return the errors of a query whose third passage of a point meets a fault."""
    fault = Fault(point, 2, kind, seed=1)
    outcome = simulation.simulate(SparkSchedule(0, "windows of rows", session, (fault,)))
    assert outcome.met == [(point, kind)]
    assert outcome.wrong is None
    return outcome.errors


def test_a_slow_attempt_that_lost_against_a_speculative_copy_writes_later(simulation):
    assert errors_after(simulation, "zombie attempt", "appended", "cluster") == []


def test_an_executor_is_lost_after_one_shard_has_written_its_state(simulation):
    assert errors_after(simulation, "kill executor", "segment", "cluster") == []


def test_a_driver_that_slept_in_its_sink_loses_against_the_second_one(simulation):
    (error,) = errors_after(simulation, "second driver", "sink", "plain")
    assert "has taken over this checkpoint" in error


def test_a_driver_that_slept_before_it_discards_plans_deletes_none_of_the_second_one(simulation):
    halt, sleep = Fault("opened", 2, "halt", seed=1), Fault("recovered", 0, "second driver", seed=1)
    schedule = SparkSchedule(0, "windows of a frame", "ours", (halt, sleep))
    outcome = simulation.simulate(schedule)
    assert ("recovered", "second driver") in outcome.met
    assert outcome.wrong is None


def test_a_checkpoint_without_the_part_of_spark_is_refused(simulation):
    (error,) = errors_after(simulation, "lost offsets", "published", "plain")
    assert "so Spark would read other rows" in error


def test_the_offsets_of_an_opened_epoch_must_be_there(simulation):
    (error,) = errors_after(simulation, "lost batch", "opened", "plain")
    assert "so Spark would read other rows" in error


def test_a_full_disk_is_named_although_the_run_cannot_be_released(simulation):
    (error,) = errors_after(simulation, "full disk", "tasks", "plain")
    assert error.startswith("HostError: epoch 2 failed")
    assert "No space left on device" in error


def test_the_end_of_the_jvm_is_named(monkeypatch):
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    monkeypatch.setattr(SparkContext, "_gateway", types.SimpleNamespace(proc=ended))
    with pytest.raises(lw.HostError, match="JVM has ended"), while_jvm_lives():
        raise ConnectionRefusedError(111, "Connection refused")
    with pytest.raises(ZeroDivisionError), while_jvm_lives():
        raise ZeroDivisionError

    def fail(_):
        raise Py4JError("org.apache.spark.sql.classic.SparkSession$ does not exist in the JVM")

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", fail)
    with pytest.raises(lw.HostError, match="JVM has ended"):
        lw.spark_session()
