"""Tests the promises of Bucket and of Store on real servers.

The program cloud_conformance, which is built with the holdfast command, runs
the suites of tests/conformance below a fresh prefix.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import servers

# The tests that depend on the server. The other tests already run on
# BucketStore with buckets in memory and with Google's fake.
QUICK = ["*BucketConformance*", "RealStoreTest*", "*StoreConformance*Create*",
         "*StoreConformance*Unusual*", "*StoreConformance*ByPrefix*",
         "*StoreConformance*PastTheEnd*"]
# Amazon's and Google's APIs accept only UTF-8 keys, and Google's accepts no
# line ends.
VARIABLES = {"HOLDFAST_TEST_UTF8_KEYS": "1"}


@pytest.fixture(scope="session")
def cloud_conformance(cli: str) -> str:
    """Returns the program, which is in the command's build."""
    return str(Path(cli).parents[1] / "tests/remote/cloud_conformance")


def check(program: str, server: servers.Server, tests: list[str],
          **variables: str) -> None:
    """Runs these tests of both suites against that server."""
    words = [program, f"{server.root}/conformance", "--gtest_brief=1",
             "--gtest_filter=" + ":".join(tests)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False,
                         timeout=540,
                         env=server.environment(**VARIABLES, **variables))
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
    assert " 0 tests ran" not in ran.stdout


def test_moto(cloud_conformance: str, moto: servers.Server) -> None:
    """The quick tests pass on S3 with signatures checked."""
    check(cloud_conformance, moto, QUICK)


def test_gcs(cloud_conformance: str, gcs: servers.Server) -> None:
    """All tests pass on the fake of Google's store."""
    check(cloud_conformance, gcs, ["*"])


@pytest.mark.long
def test_ceph(cloud_conformance: str, ceph: servers.Server) -> None:
    """All tests pass on a real S3 server."""
    check(cloud_conformance, ceph, ["*"])


@pytest.mark.long
def test_moto_whole(cloud_conformance: str, moto: servers.Server) -> None:
    """The tests that the quick run leaves out pass, too."""
    check(cloud_conformance, moto, ["*"])


@pytest.mark.long
@pytest.mark.parametrize("fault", ["lose_answer", "throttle"])
def test_through_chaos(cloud_conformance: str, gcs: servers.Server,
                       fault: str) -> None:
    """Lost answers and a throttling server change nothing."""
    with servers.chaos(gcs) as proxy:
        proxy.set(faults=[{"kind": fault, "every": 7}])
        check(cloud_conformance, proxy, QUICK)
