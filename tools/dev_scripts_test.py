#!/usr/bin/env python3
"""Tests scripts/dev and scripts/sanitize in a temporary tree where cmake, ctest
and compilers only record how they were called."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOTING = """#!/bin/sh
echo "$(basename "$0") $*" >>calls
case "$(basename "$0") $*" in
  "cmake --preset"*)
    for word in "$@"; do case "$word" in
      -D*) word=${word#-D}; echo "${word%%=*}:STRING=${word#*=}" ;;
    esac; done >>build/dev/CMakeCache.txt ;;
esac
"""
# A fake compiler. Its programs succeed or fail, as the test wants.
COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\nexit %d\\n' "$STATUS" >"$2"
chmod +x "$2"
"""
FOLDERS = ("stores/http", "stores/http/tls", "formats/zarr", "ground/tree")


class ScriptsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in FOLDERS:
            made = self.root / "src" / name
            made.mkdir(parents=True)
            (made / "x_test.cc").write_text("")
        (self.root / "src/ground/tree/x.cc").write_text("std::mutex lock;")
        (self.root / "src/ground/untested").mkdir()
        (self.root / "src/ground/untested/x.cc").write_text("std::thread t;")
        for name in ("scripts", "bin", "build/dev", "python"):
            (self.root / name).mkdir(parents=True)
        for script in ("dev", "sanitize"):
            shutil.copy(ROOT / "scripts" / script, self.root / "scripts")
        shutil.copy(ROOT / "pyproject.toml", self.root)
        for name in ("cmake", "ctest"):
            self.program(name, NOTING)

    def program(self, name, text):
        (self.root / "bin" / name).write_text(text)
        (self.root / "bin" / name).chmod(0o755)

    def call(self, *words, status=0, **variables):
        """Returns the script's output and the calls it made, one per line."""
        (self.root / "calls").write_text("")
        done = subprocess.run(
            [self.root / "scripts" / words[0], *words[1:]],
            env=os.environ
            | {"PATH": f"{self.root}/bin:/usr/bin:/bin", **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout, (self.root / "calls").read_text().splitlines()

    def test_a_folder_is_built_alone_and_configured_once(self):
        _, calls = self.call("dev", "http", "--verbose")
        self.assertEqual(len(calls), 3)
        self.assertIn(
            "-DHOLDFAST_UNITY_EXCEPT=holdfast_stores_http;stores_http_test",
            calls[0],
        )
        self.assertRegex(calls[1], "--build build/dev .*target stores_http_test")
        self.assertRegex(calls[2], r"-R \^unit\\.stores_http\$.* --verbose$")
        for word in ("src/stores/http/", "stores/http", "http"):
            _, calls = self.call("dev", word)
            self.assertEqual([c.split()[1] for c in calls],
                             ["--build", "--test-dir"])

    def test_folders_add_up(self):
        self.call("dev", "tls")
        _, calls = self.call("dev", "zarr")
        self.assertIn(
            "-DHOLDFAST_UNITY_EXCEPT=holdfast_stores_http_tls;"
            "stores_http_tls_test;holdfast_formats_zarr;formats_zarr_test",
            calls[0],
        )

    def test_an_unknown_folder_is_named(self):
        for word in ("htt", "untested", "ttp"):
            said, calls = self.call("dev", word, status=2)
            self.assertIn(f"no folder with tests named {word}", said)
            self.assertEqual(calls, [])

    def test_the_module_comes_with_what_finds_it(self):
        python = shutil.which("python3")
        said, calls = self.call("dev", "module", HOLDFAST_PYTHON=python)
        self.assertIn("-DHOLDFAST_BUILD_PYTHON=ON", calls[0])
        self.assertRegex(calls[1], "--target _engine$")
        found = subprocess.run(
            ["python3", "-c", "from importlib.metadata import *;"
             "print(version('holdfast'), "
             "entry_points(group='fsspec.specs')['holdfast'].value)"],
            env=os.environ | {"PYTHONPATH": f"{self.root}/python"},
            capture_output=True, text=True, check=True,
        )
        self.assertRegex(
            found.stdout, r"^\d+\.\d+\.\d+ holdfast.fsspec:HoldfastFileSystem$"
        )
        self.assertEqual(
            len(self.call("dev", "module", HOLDFAST_PYTHON=python)[1]), 1
        )

    def test_sanitizers_have_their_folders(self):
        said, calls = self.call("sanitize", "asan", "--list")
        self.assertEqual(
            said.split("\n")[1:-1],
            ["formats/zarr", "stores/http", "stores/http/tls"],
        )
        self.assertEqual(calls, [])
        said, _ = self.call("sanitize", "tsan", "--list")
        self.assertEqual(said.split("\n")[1:-1], ["ground/tree"])
        said, _ = self.call("sanitize", "tsan", "--all", "--list")
        self.assertEqual(said.split("\n")[1:-1], [*sorted(FOLDERS), "twins"])

    def test_sanitizers_build_and_run_the_tests_of_folders(self):
        _, calls = self.call("sanitize", "tsan", HOLDFAST_SANITIZE_CXX="")
        self.assertRegex(
            calls[1],
            "--target ground_tree_test device_save_test checkpoint_e2e_test$")
        self.assertRegex(calls[2], r"-L unit -R \^unit\\.\(ground_tree\)\$")
        self.assertRegex(
            calls[3], r"-R \^e2e\\.\(device_save_test\|checkpoint_e2e_test\)\$")

    def test_clang_is_taken_where_it_can_link(self):
        self.program("clang++-19", COMPILER)
        _, calls = self.call("sanitize", "tsan", STATUS="0")
        self.assertIn("-B build/tsan-clang++-19", calls[0])
        self.assertIn("-DCMAKE_CXX_COMPILER=clang++-19", calls[0])
        self.assertIn("--test-dir build/tsan-clang++-19", calls[2])
        for name in ("clang++-14", "clang++"):
            self.program(name, COMPILER)
        _, calls = self.call("sanitize", "tsan", STATUS="1")
        self.assertIn("-B build/tsan ", calls[0])
        self.assertNotIn("CMAKE_CXX_COMPILER=", calls[0])
        said, _ = self.call("sanitize", "tsan", status=1, STATUS="1",
                            HOLDFAST_SANITIZE_CXX="clang++-19")
        self.assertIn("clang++-19 cannot sanitize", said)


if __name__ == "__main__":
    unittest.main()
