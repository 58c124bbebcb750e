"""Tests S3Bucket on real servers: signatures, keys, regions, roles, TLS,
faults.

The program s3_server, which is built with the holdfast command, makes the
checks. This module gives it servers, named in many ways. The suite of all
buckets runs in test_conformance.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import servers

Check = Callable[..., str]


@pytest.fixture(scope="session")
def programs(cli: str) -> Path:
    """Returns the folder of the programs."""
    return Path(cli).parents[1] / "tests/remote"


@pytest.fixture(scope="session")
def check(programs: Path) -> Check:
    """Returns check(server, *words, **variables), which runs s3_server and
    requires that its tests pass."""
    def run_program(server: servers.Server, *words: str, **variables: str) -> str:
        environment = server.environment(HOLDFAST_TEST_S3_BUCKET=servers.BUCKET,
                                         **variables)
        ran = subprocess.run([programs / "s3_server", *words], check=False,
                             capture_output=True, text=True, timeout=300,
                             env=environment)
        assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
        # The output is public, so it must not contain a secret.
        assert server.secret_key not in ran.stdout + ran.stderr
        assert "PASSED" in ran.stdout
        return ran.stdout
    return run_program


def test_moto(check: Check, moto: servers.Server) -> None:
    """The tests pass with checked signatures and keys from the environment."""
    check(moto, HOLDFAST_TEST_S3_SOURCE="environment")


def profile_files(folder: Path, config: str, credentials: str) -> dict[str, str]:
    """Returns variables that lead to two shared files, and to no other keys."""
    (folder / "config").write_text(config)
    (folder / "credentials").write_text(credentials)
    return {"AWS_CONFIG_FILE": str(folder / "config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
            "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}


def test_profiles(check: Check, moto: servers.Server, tmp_path: Path) -> None:
    """Keys, region and endpoint come from the shared files, or from a
    program."""
    found = f"{moto.access_key}\naws_secret_access_key = {moto.secret_key}\n"
    config = ("[profile p]\nregion = us-east-1\nservices = local\n"
              f"[services local]\ns3 =\n  endpoint_url = {moto.url}\n")
    variables = profile_files(tmp_path, config,
                              f"[p]\naws_access_key_id = {found}")
    where = {"AWS_PROFILE": "p", "AWS_REGION": "", "AWS_DEFAULT_REGION": ""}
    quick = "--gtest_filter=*Conditions*:*Deletes*:*Says*"
    check(moto, quick, **variables, **where, AWS_ENDPOINT_URL="")
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"Version": 1, "AccessKeyId": moto.access_key,
                                "SecretAccessKey": moto.secret_key}))
    variables = profile_files(
        tmp_path, config + f"[default]\ncredential_process = cat '{keys}'\n", "")
    check(moto, quick + ":*Tells*", **variables,
          HOLDFAST_TEST_S3_SOURCE="credential_process")


@pytest.mark.parametrize("fault", ["lose_answer", "throttle"])
def test_lost_answers(check: Check, moto: servers.Server, fault: str) -> None:
    """A conditional write whose answer was lost is recognized."""
    rules = [{"kind": fault, "match": "^(PUT|DELETE) ", "every": 3}]
    with servers.chaos(moto, faults=rules) as proxy:
        check(proxy, "--gtest_filter=*Deletes*:*UploadsLook*:*HardKeys*")
        assert proxy.counters()[f"fault {fault}"] > 5


def test_clock(check: Check, moto: servers.Server) -> None:
    """The tests pass on a server whose clock is two hours ahead."""
    with servers.chaos(moto, date_offset_s=7200) as proxy:
        check(proxy, "--gtest_filter=*Deletes*:*UploadsLook*:*WrongClock*")


def test_tls(check: Check, tmp_path: Path) -> None:
    """Under TLS, bodies are not hashed, and the certificate is checked."""
    certificate, key = servers.self_signed(tmp_path)
    port = servers.free_port()
    with servers.program([sys.executable, "-m", "moto.server", "-H", "127.0.0.1",
                          "-p", str(port), "-c", certificate, "-k", key],
                         tmp_path / "moto.log") as process:
        servers.await_port(port, process, tmp_path / "moto.log")
        server = servers.Server("s3", f"https://127.0.0.1:{port}", "AKIATEST",
                                "secret-of-tls")
        server.boto(verify=certificate).create_bucket(Bucket=servers.BUCKET)
        quick = "--gtest_filter=*Conditions*:*Deletes*:*CopiesInParts*"
        check(server, quick, AWS_CA_BUNDLE=certificate)
        with pytest.raises(AssertionError, match="certificate"):
            check(server, "--gtest_filter=*Deletes*")


TRUST = json.dumps({"Version": "2012-10-17", "Statement": [{
    "Effect": "Allow", "Principal": {"AWS": ["arn:aws:iam:::user/tester"]},
    "Action": ["sts:AssumeRole"]}]})
ALL_OF_S3 = json.dumps({"Version": "2012-10-17", "Statement": [{
    "Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"]}]})


@pytest.mark.long
def test_ceph(check: Check, ceph: servers.Ceph) -> None:
    """The tests pass on a real server, with the bucket in the path and in the
    host name."""
    check(ceph)
    check(ceph, HOLDFAST_TEST_S3_STYLE="virtual",
          AWS_ENDPOINT_URL=ceph.url.replace("127.0.0.1", "localhost"))


@pytest.mark.long
def test_ceph_role(check: Check, ceph: servers.Ceph, tmp_path: Path) -> None:
    """The tests pass with a role's keys and session token from Ceph's STS."""
    ceph.admin("role", "create", "--role-name=R", "--path=/",
               f"--assume-role-policy-doc={TRUST}")
    ceph.admin("role-policy", "put", "--role-name=R", "--policy-name=P",
               f"--policy-doc={ALL_OF_S3}")
    variables = profile_files(
        tmp_path, "[default]\nrole_arn = arn:aws:iam:::role/R\n"
        "source_profile = base\n",
        f"[base]\naws_access_key_id = {ceph.access_key}\n"
        f"aws_secret_access_key = {ceph.secret_key}\n")
    # With a role, Ceph 16 refuses a copy into a part (with boto3, too), and
    # reports missing buckets in another way.
    check(ceph, "--gtest_filter=-*SaysWhatIsWrong*:*CopiesInParts*", **variables,
          HOLDFAST_TEST_S3_SOURCE="role arn:aws:iam:::role/R")
