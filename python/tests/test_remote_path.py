"""RemotePath compared with pathlib's pure paths, and `_files` with `os`.
tests/remote/test_python.py has the tests that need a server."""

import os
import pathlib
import pickle
import random

import pytest

import holdfast
from holdfast import _files, _libcurl, errors
from holdfast._remote_path import RemotePath, as_path, plain_path

NAMES = ["a", "b.json", "c.tar.gz", ".d", "7", "step_0007", "x y", "ü"]


def twins(count, seed):
    """Yields remote paths, with the pure paths that have the same names."""
    rng = random.Random(seed)
    for _ in range(count):
        names = rng.choices(NAMES, k=rng.randint(0, 4))
        url = "gs://bucket/" + "/".join(names)
        yield RemotePath(url), pathlib.PurePosixPath("/", *names)


def text_of(pure):
    return "gs://bucket" + str(pure).rstrip("/")


def test_is_as_pathlib_is():
    others = ["x", "x/y", "x//y/", "./x", "", "/x/y"]
    for remote, pure in twins(200, 1):
        assert str(remote) == text_of(pure)
        assert remote.name == pure.name
        assert remote.stem == pure.stem
        assert remote.suffix == pure.suffix
        assert remote.suffixes == pure.suffixes
        assert remote.parts[1:] == pure.parts[1:]
        assert str(remote.parent) == text_of(pure.parent)
        assert [str(p) for p in remote.parents] == [
            text_of(p) for p in pure.parents
        ]
        for other in others:
            assert str(remote / other) == text_of(pure / other)
            assert str(remote.joinpath(other, "z")) == text_of(
                pure.joinpath(other, "z")
            )
        if pure.name:
            for change in ("with_name", "with_stem"):
                assert str(getattr(remote, change)("n")) == text_of(
                    getattr(pure, change)("n")
                )
            assert str(remote.with_suffix(".q")) == text_of(
                pure.with_suffix(".q")
            )
        for pattern in ("*.json", "a/*", "*/7", "step_*"):
            below = pathlib.PurePosixPath(*pure.parts[1:])
            assert remote.match(pattern) == below.match(pattern)


def test_relative_to_is_as_pathlib_is():
    pairs = list(zip(twins(300, 2), twins(300, 3), strict=True))
    for (remote, pure), (other_remote, other_pure) in pairs:
        assert remote.is_relative_to(other_remote) == pure.is_relative_to(
            other_pure
        )
    path = RemotePath("s3://b/run")
    assert (path / "7" / "x").relative_to(path) == pathlib.PurePosixPath("7/x")
    with pytest.raises(ValueError, match="is not below"):
        path.relative_to("gs://b/run")


def test_is_a_value():
    path = RemotePath("s3://bucket//run/./7/")
    assert path == RemotePath("s3://bucket", "run", "7")
    assert hash(path) == hash(RemotePath("s3://bucket/run/7"))
    assert path != RemotePath("gs://bucket/run/7")
    assert path != "s3://bucket/run/7"
    assert pickle.loads(pickle.dumps(path)) == path
    assert os.fspath(path) == str(path) == path.as_posix()
    assert repr(path) == "RemotePath('s3://bucket/run/7')"
    assert sorted([path / "b", path, path / "a"])[0] == path
    assert path / "gs://other/x" == RemotePath("gs://other/x")
    assert path.parent.parent.parent == RemotePath("s3://bucket")
    assert path.anchor == "s3://bucket/"
    assert path.is_absolute()


def test_refuses_what_is_no_url():
    for text in ("/a/b", "a", "", "gs:/b", "://b", "1s://b"):
        with pytest.raises(ValueError, match="is not a URL"):
            RemotePath(text)
        assert not _files.is_url(text)
    with pytest.raises(ValueError, match="no name"):
        RemotePath("gs://b/x").with_name("a/b")
    with pytest.raises(TypeError):
        RemotePath("gs://b") / 3


def test_as_path_chooses():
    import sys

    url = "gs://bucket/x"
    assert type(as_path(url)) is RemotePath
    assert as_path(as_path(url)) == as_path(url)
    assert type(plain_path("/x")) is type(pathlib.Path("/x"))
    assert type(plain_path(url)) is RemotePath
    if "etils.epath" in sys.modules:
        assert isinstance(as_path("/x"), sys.modules["etils.epath"].Path)


def test_etils_takes_and_gives_remote_paths():
    epath = pytest.importorskip("etils.epath")
    theirs = epath.Path("gs://bucket/x")
    ours = as_path(theirs)
    assert ours == RemotePath("gs://bucket/x")
    assert type(epath.Path(ours)) is RemotePath
    assert epath.Path(ours) == ours


def test_names_of_urls():
    assert _files.abspath("gs://b//x/../y/./z/") == "gs://b/y/z"
    assert _files.abspath("gs://b/../../x") == "gs://b/x"
    assert _files.abspath("https://h/x/?q=1/2") == "https://h/x?q=1/2"
    assert _files.dirname("s3://b/x/y") == "s3://b/x"
    assert _files.dirname("s3://b/x") == _files.dirname("s3://b") == "s3://b"
    assert _files.isabs("s3://b/x")
    assert not _files.islink("s3://b/x")
    for path in ("x/../y", "/a//b/", "."):
        assert _files.abspath(path) == os.path.abspath(path)
        assert _files.normpath(path) == os.path.normpath(path)
        assert _files.dirname(path) == os.path.dirname(path)


def test_files_of_a_disk_are_those_of_os(tmp_path):
    directory = tmp_path / "d"
    _files.makedirs(directory / "e")
    with _files.open(directory / "f", "w", encoding="utf-8") as file:
        file.write("text")
        _files.sync(file)
    assert sorted(_files.listdir(directory)) == ["e", "f"]
    with _files.scandir(directory) as entries:
        assert {e.name: e.is_dir() for e in entries} == {"e": True, "f": False}
    assert _files.stat(directory / "f") == os.stat(directory / "f")
    _files.rename(directory / "f", directory / "g")
    _files.copyfile(directory / "g", directory / "h")
    _files.link(directory / "g", directory / "i")
    assert _files.read_bytes(directory / "i") == b"text"
    assert (directory / "i").samefile(directory / "g")
    with pytest.raises(FileExistsError):
        _files.write_bytes(directory / "g", b"", must_create=True)
    with pytest.raises(FileNotFoundError):
        _files.unlink(directory / "f")
    with pytest.raises(OSError, match="not empty"):
        _files.rmdir(directory)
    _files.rmtree(directory)
    assert not _files.exists(directory)


def test_unknown_schemes_are_refused_by_name():
    for call in (_files.exists, _files.listdir, _files.read_bytes):
        with pytest.raises(errors.UnimplementedError, match="azure"):
            call("azure://bucket/x")
    with pytest.raises(errors.UnimplementedError, match="azure"):
        holdfast.save("azure://bucket/x", {"a": 1})
    with pytest.raises(ValueError, match="mode 'r\\+' is not supported"):
        _files.open("gs://b/x", "r+")
    with pytest.raises(NotImplementedError, match="one is in a bucket"):
        _files.rename("/x", "gs://b/x")


def test_a_url_that_pathlib_has_spoilt_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spoilt = pathlib.Path("gs://bucket/x")
    for call in (holdfast.load, holdfast.open, holdfast.steps):
        with pytest.raises(ValueError, match="has lost a slash"):
            call(spoilt)
    with pytest.raises(ValueError, match="has lost a slash"):
        holdfast.save(spoilt, {"a": 1})
    assert not list(tmp_path.iterdir())


def test_finds_the_libcurl_of_pycurl(tmp_path, monkeypatch):
    libraries = tmp_path / "pycurl.libs"
    libraries.mkdir()
    (libraries / "libcurl-0123abcd.so.4.8.0").touch()
    (libraries / "libssl-0123abcd.so.3").touch()
    monkeypatch.setattr("sys.path", [str(tmp_path / "none"), str(tmp_path)])
    found = _libcurl.find_pycurls()
    assert found == str(libraries / "libcurl-0123abcd.so.4.8.0")
    monkeypatch.setattr("sys.path", [str(tmp_path / "none")])
    assert _libcurl.find_pycurls() is None
