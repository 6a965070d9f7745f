"""Stores of files: what was written is read, and one process alone creates a file."""

from __future__ import annotations

import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import lowwater as lw
from lowwater.engine.entry import Opening, Positions
from lowwater.engine.folder_log import FolderLog
from lowwater.engine.verify import verify
from lowwater.storage.arrow_store import ArrowStore
from lowwater.storage.folder import STORES, AtomicFolder
from tests.spark.streams import cut, disordered


@pytest.fixture(scope="module")
def s3():
    """The address of a bucket of an S3 server on loopback."""
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    pytest.importorskip("obstore", reason="obstore is not installed")
    import logging

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    _, port = running.get_host_and_port()
    settings = {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        made = urllib.request.Request(f"http://127.0.0.1:{port}/bucket", method="PUT")
        urllib.request.urlopen(made).close()  # noqa: S310
        yield "s3://bucket"
    running.stop()


@pytest.fixture(params=["disk", "address", "arrow", "s3"])
def folder(request, tmp_path, monkeypatch):
    if request.param == "s3":
        return f"{request.getfixturevalue('s3')}/{tmp_path.name}"
    if request.param == "arrow":
        local = ArrowStore(pafs.LocalFileSystem())
        monkeypatch.setitem(STORES, "arrow", lambda path: (local, path.removeprefix("arrow://")))
        return f"arrow://{tmp_path}/deep"
    return str(tmp_path / "deep") if request.param == "disk" else (tmp_path / "deep").as_uri()


def test_what_was_written_is_read(folder):
    at = AtomicFolder(folder)
    assert at.names() == []
    assert at.read("a") is None
    assert at.size("a") is None
    at.write("a", b"one")
    at.write("a", b"three")
    assert at.read("a") == b"three"
    assert at.size("a") == 5
    assert at.read_part("a", 1, 3) == b"hre"
    assert at.names() == ["a"]
    at.delete("a")
    at.delete("a")
    assert at.names() == []
    with pytest.raises(FileNotFoundError):
        at.read_part("a", 0, 1)


def test_a_tree_is_listed_and_deleted(folder):
    for name in ("b/c", "b/.c.crc", "b/d/e"):
        below, _, file = name.rpartition("/")
        AtomicFolder(f"{folder}/{below}").write(file, b"1")
    AtomicFolder(folder).write("a", b"1")
    at = AtomicFolder(folder)
    assert sorted(at.tree()) == ["a", "b/c", "b/d/e"]
    AtomicFolder(f"{folder}/b").delete_tree()
    AtomicFolder(f"{folder}/b").delete_tree()
    assert at.tree() == ["a"]
    assert AtomicFolder(f"{folder}/b").tree() == []


def test_a_file_is_created_once(folder):
    at = AtomicFolder(folder)
    assert at.create("a", b"1")
    assert not at.create("a", b"2")
    assert at.read("a") == b"1"


def test_one_of_many_creates_a_file(folder):
    if folder.startswith("arrow"):
        pytest.skip("a move on a local disk replaces; on HDFS it does not")
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: AtomicFolder(folder).create("a", b"%d" % n), range(16)))
    assert made.count(True) == 1
    assert AtomicFolder(folder).read("a") == b"%d" % made.index(True)


def test_torn_files_are_invisible_and_removed(tmp_path):
    at = AtomicFolder(str(tmp_path))
    (tmp_path / ".a.1-1.tmp").write_bytes(b"torn")
    assert at.names() == []
    at.remove_partial()
    assert not list(tmp_path.iterdir())


def test_without_the_extra_an_object_store_is_refused(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    with pytest.raises(lw.PlanError, match=r"pip install 'lowwater\[object-store\]'"):
        AtomicFolder("s3://bucket/x")


def test_claims_fence_in_an_object_store(s3):
    first, second = (FolderLog(f"{s3}/log", "q") for _ in range(2))
    first.claim(1)
    second.claim(2)
    with pytest.raises(lw.HostError, match="has taken over this checkpoint"):
        first.open(Opening(0, Positions()))
    second.open(Opening(0, Positions()))
    assert FolderLog(f"{s3}/log", "q").opened() == Opening(0, Positions())


def test_a_query_keeps_its_checkpoint_and_its_results_in_an_object_store(s3, tmp_path):
    rows = disordered(600, seconds=60, late_by=5).select(["ts", "key", "value"])
    (tmp_path / "stream").mkdir()
    pieces = cut(rows, 6)

    def run(host):
        stream = lw.stream(
            lw.files(tmp_path / "stream", files_per_epoch=1),
            time="ts",
            watermark=lw.slack("2 seconds"),
        )
        query = stream.window(range="5 seconds").group_by("key").agg(n=lw.count())
        if host is None:
            return query.run(host="local").results
        sink = lw.to_parquet(f"{s3}/out")
        running = query.start(host="local", sink=sink, checkpoint=f"{s3}/c")
        while running.status()["in"] < 100 * host or not running.newest.quiet:
            assert not running.wait(0.01)
        return running.stop()

    for n in range(0, 6, 3):
        for i, piece in enumerate(pieces[n : n + 3]):
            pq.write_table(piece, tmp_path / "stream" / f"{n + i}.parquet")
        run(n + 3)
    assert not list(verify(f"{s3}/c"))
    files = AtomicFolder(f"{s3}/out")
    names = [n for n in files.names() if n.endswith(".parquet")]
    found = pa.concat_tables(pq.read_table(pa.BufferReader(files.read(n))) for n in names)
    expected = {repr(r) for r in run(None).to_pylist()}
    assert {repr(r) for r in found.to_pylist()} < expected
    assert len(found) > len(expected) / 2
