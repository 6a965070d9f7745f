"""A wheel, built from the tree and installed into an empty environment, does what the pages say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import urllib.parse
import urllib.request
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, TUTORIAL, blocks, shows

pytestmark = [pytest.mark.wheel, pytest.mark.xdist_group("wheel")]

MOST_LINES = 53_500
QUERY = "SELECT segment, count(*) AS n FROM cars [RANGE 10 seconds] GROUP BY segment"
CSV = """ts,segment
2024-05-01 12:00:01,6
2024-05-01 12:00:04,7
2024-05-01 12:00:02,6
2024-05-01 12:00:31,6
"""
ON_SPARK = re.compile(r"\bspark\b|\.start\(")


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheel, and the dependencies of the one that runs the tests."""

    path: Path

    @property
    def packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self.path)}))

    def command(self, program: str, *words: str) -> list[str]:
        return [str(self.path / "bin" / program), *words]

    def run(self, folder: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(program, *words),
            cwd=folder,
            env=bare(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


def bare() -> dict[str, str]:
    """Return the variables of this process without those that lead to the checkout."""
    led = ("PYTHON", "SPARK_", "PYSPARK_", "VIRTUAL_ENV", "COV")
    return {n: v for n, v in os.environ.items() if not n.startswith(led)} | {"COLUMNS": "100"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, env=bare(), check=True, capture_output=True)
    (path,) = folder.glob("lowwater-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    path = tmp_path_factory.mktemp("environment")
    venv.create(path, with_pip=False)
    environment = Environment(path)
    python = environment.command("python")[0]
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index"]
    subprocess.run([*pip, "--no-deps", str(wheel)], env=bare(), check=True)
    # Python reads no .pth file of a folder that another .pth file names: an editable install of
    # the checkout, which is one, stays out of sight.
    dependencies = sysconfig.get_path("purelib")
    (environment.packages / "dependencies.pth").write_text(f"{dependencies}\n")
    return environment


@pytest.fixture
def cars(tmp_path):
    path = tmp_path / "cars.csv"
    path.write_text(CSV)
    return ["--source", f"cars={path},time=ts", "--watermark", "slack 5 seconds"]


# -- contents ------------------------------------------------------------------------------------


def test_wheel_holds_the_library_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"lowwater", "lowwater-0.1.0.dist-info"}
    others = re.compile(r"/(experiments?|examples?|demo|bench|chaos|tests|scripts)(/|\.py$)")
    assert not [name for name in names if others.search(name)]
    assert "lowwater/py.typed" in names


def test_wheel_is_not_larger_than_planned(wheel):
    with zipfile.ZipFile(wheel) as archive:
        code = [name for name in archive.namelist() if name.endswith(".py")]
        lines = sum(archive.read(name).count(b"\n") for name in code)
    assert lines <= MOST_LINES


def test_the_package_comes_from_the_wheel(installed, tmp_path):
    code = "import lowwater, sys; print(lowwater.__file__); sys.exit('pyspark' in sys.modules)"
    shown = installed.run(tmp_path, "python", "-c", code)
    assert shown.returncode == 0, shown.stderr
    assert Path(shown.stdout.strip()) == installed.packages / "lowwater" / "__init__.py"


@pytest.mark.parametrize("name", ["experiments", "examples", "bench", "chaos", "tests"])
def test_nothing_of_the_checkout_can_be_imported(installed, tmp_path, name):
    code = f"from importlib.util import find_spec; print(find_spec({name!r}))"
    assert installed.run(tmp_path, "python", "-c", code).stdout == "None\n"


# -- the tutorial --------------------------------------------------------------------------------


def tutorial(*, spark: bool):
    """Return the tutorial's blocks up to the first that needs Spark, or all."""
    code = [b for b in blocks(TUTORIAL) if b.language == "python" and b.reason is None]
    first = next(n for n, b in enumerate(code) if ON_SPARK.search(b.code))
    return code if spark else code[:first]


def run_tutorial(installed, folder, *, spark: bool):
    steps = tutorial(spark=spark)
    script = folder / "tutorial.py"
    script.write_text("\n".join(block.code for block in steps))
    shown = installed.run(folder, "python", str(script))
    assert shown.returncode == 0, shown.stderr
    expected = "\n".join(block.shown for block in steps if block.shown is not None)
    assert shows(expected, shown.stdout), shown.stdout


def test_the_tutorial_runs_up_to_spark(installed, tmp_path):
    assert len(tutorial(spark=False)) >= 4
    run_tutorial(installed, tmp_path, spark=False)


@pytest.mark.spark
def test_the_tutorial_runs_on_spark_and_its_checkpoint_can_be_read(installed, tmp_path):
    run_tutorial(installed, tmp_path, spark=True)
    shown = installed.run(tmp_path, "lowwater", "state", "checkpoint")
    assert shown.returncode == 0, shown.stderr
    assert "144" in shown.stdout


# -- the command ---------------------------------------------------------------------------------


def test_command_runs_a_query_over_a_csv_file(installed, tmp_path, cars):
    options = [*cars, "--host", "local", "--sink", "json:-"]
    shown = installed.run(tmp_path, "lowwater", "run", QUERY, *options)
    assert shown.returncode == 0, shown.stderr
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert sorted((row["segment"], row["n"]) for row in rows) == [(6, 1), (6, 2), (7, 1)]


def test_command_explains_a_query(installed, tmp_path, cars):
    shown = installed.run(tmp_path, "lowwater", "explain", QUERY, *cars)
    assert shown.returncode == 0, shown.stderr
    assert "tumbling: range 10 seconds" in shown.stdout


@pytest.mark.usefixtures("cars")
def test_command_profiles_a_stream(installed, tmp_path):
    shown = installed.run(tmp_path, "lowwater", "profile", "cars.csv", "--time", "ts")
    assert shown.returncode == 0, shown.stderr
    assert "slack 2 seconds" in shown.stdout


def test_command_reads_the_checkpoint_of_a_run(installed, tmp_path, cars):
    options = [*cars, "--host", "local", "--sink", "csv:out", "--checkpoint", "checkpoint"]
    shown = installed.run(tmp_path, "lowwater", "run", QUERY, *options)
    assert shown.returncode == 0, shown.stderr
    shown = installed.run(tmp_path, "lowwater", "state", "checkpoint")
    assert shown.returncode == 0, shown.stderr
    assert "4 rows over ts" in shown.stdout


def test_command_refuses_a_folder_without_a_checkpoint(installed, tmp_path):
    shown = installed.run(tmp_path, "lowwater", "state", str(tmp_path))
    assert shown.returncode in {1, 2}
    assert shown.stderr.startswith("lowwater: ")
    assert "Traceback" not in shown.stderr


# -- the page ------------------------------------------------------------------------------------


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310  # the loopback address
        return str(answer.read().decode())


def test_page_is_served_with_all_that_it_needs(installed, tmp_path):
    source = "cars=-,time=ts,schema=ts timestamp, segment int"
    options = ["--source", source, "--watermark", "ordered", "--host", "local", "--ui"]
    command = installed.command("lowwater", "run", QUERY, *options, "--sink", "csv:out")
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=bare(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        try:
            url = next(
                found[0] for line in running.stdout if (found := re.search(r"http://\S+", line))
            )
            text = fetched(url)
            needed = re.findall(r'(?:src|href)="(?!data:)([^"#]+)"', text)
            sizes = [len(fetched(urllib.parse.urljoin(url, name))) for name in needed]
        finally:
            running.stdin.close()
            running.wait(60)
    assert url.startswith("http://127.0.0.1:")
    assert "<html" in text
    assert len(needed) >= 4
    assert all(sizes)
    assert not [n for n in needed if "//" in n], "the page needs no other server"
