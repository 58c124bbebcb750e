#!/usr/bin/env python3
"""Tests which steps run_steps.py chooses, how it runs them, what it records."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

import run_steps

TABLE = """
prelude = "set -e; greeting=hello"
[areas]
stores = ["src/stores/"]
python = ["python/", "README.md"]
orbax = ["python/orbax/"]
all = ["stores", "python"]
[steps.build]
what = "builds"
when = "needed"
run = "echo built >built"
is_heavy = true
[steps.unit]
what = "C++"
when = "every"
needs = ["build"]
areas = ["stores"]
is_quick = true
is_heavy = true
run = "cat built; echo 100% tests passed; echo and a line"
[steps.package]
what = "Python"
when = "every"
needs = ["build"]
areas = ["python", "orbax", "tests/package/"]
sizes = { count = [2, 10] }
run = "echo $greeting $count ${full:-short}"
[steps.slow]
what = "everything"
when = "areas"
needs = ["unit"]
areas = ["all"]
run = "true"
"""


def table(text=TABLE):
    return run_steps.read_table(text)


def names(steps):
    return [step.name for step in steps]


class TableTest(unittest.TestCase):
    def refuses(self, before, after, message):
        self.assertIn(before, TABLE)
        with self.assertRaisesRegex(run_steps.Wrong, message):
            table(TABLE.replace(before, after, 1))

    def test_areas_hold_the_paths_of_areas(self):
        self.assertEqual(
            table().areas["all"], {"src/stores/", "python/", "README.md"}
        )

    def test_what_is_wrong_is_named(self):
        self.refuses('when = "every"', 'when = "often"', "unit: when: .*often")
        self.refuses('["build"]', '["bulid"]', "unit: needs 'bulid'")
        self.refuses('["build"]', '["slow"]', "unit: needs 'slow', not a step a")
        self.refuses('["stores"]\nis_q', '["cloud"]\nis_q', "unit: no area 'clo")
        self.refuses("is_heavy", "is_heavey", "build: .*is_heavey")
        self.refuses('["stores", "p', '["storez", "p', "all: no area 'storez'")
        self.refuses('["stores", "p', '["all", "p', "all contains itself")
        self.refuses("[2, 10]", "[10, 2]", "package: count: want")
        self.refuses('areas = ["stores"]\n', "", "unit: areas are for")

    def test_the_tree_has_what_the_real_table_names(self):
        real = run_steps.read_table(run_steps.TABLE.read_text())
        known = set().union(*real.areas.values())
        for step in real.steps.values():
            known |= set(filter(run_steps.is_path, step.areas))
        for path in known - {run_steps.ANY}:
            if not path.startswith("src/"):
                self.assertTrue((run_steps.ROOT / path).exists(), path)
        for folder in (run_steps.ROOT / "tests").iterdir():
            if folder.is_dir() and folder.name != "__pycache__":
                path = f"tests/{folder.name}/"
                self.assertIn(path, known)

    def test_a_page_and_the_package_need_no_sanitizer(self):
        real = run_steps.read_table(run_steps.TABLE.read_text())
        compiled = {"asan", "tsan", "crashes", "ctest"}
        for file in ("doc/cli.md", "python/holdfast/x.py"):
            chosen = run_steps.steps_for(real, [file])
            self.assertFalse(compiled & set(chosen), file)
            self.assertIn("documents", chosen)
        chosen = run_steps.steps_for(real, ["src/stores/http/url.cc"])
        self.assertLess(compiled, set(chosen))
        self.assertNotIn("transforms", chosen)
        every = [s.name for s in real.steps.values() if s.when != "needed"]
        for file in ("scripts/test", "cmake/deps.cmake", "tools/tidy.py", "x"):
            self.assertEqual(run_steps.steps_for(real, [file]), every)


class ChoiceTest(unittest.TestCase):
    def chosen(self, *words):
        args = run_steps.parse(list(words))
        return run_steps.chosen_names(table(), args)

    def test_words_choose(self):
        self.assertEqual(self.chosen(), ["unit", "package"])
        self.assertEqual(self.chosen("--quick"), ["unit"])
        self.assertEqual(self.chosen("--all"), ["unit", "package", "slow"])
        self.assertEqual(self.chosen("--all", "slow"), ["slow"])
        with self.assertRaisesRegex(run_steps.Wrong, "no step 'slwo'"):
            self.chosen("slwo")

    def test_needs_come_along_in_order(self):
        self.assertEqual(
            names(run_steps.with_needs(table(), ["slow"])),
            ["build", "unit", "slow"],
        )

    def test_files_choose(self):
        def steps(*files):
            return run_steps.steps_for(table(), files)

        self.assertEqual(steps("src/stores/a.cc"), ["unit", "slow"])
        self.assertEqual(steps("README.md"), ["package", "slow"])
        self.assertEqual(steps("tests/package/x.py"), ["package"])
        self.assertEqual(steps("python/orbax/x.py"), ["package", "slow"])
        self.assertEqual(steps("tests/package"), ["unit", "package", "slow"])
        self.assertEqual(steps("src/new/a.cc"), ["unit", "package", "slow"])
        self.assertEqual(steps("README.md.in"), ["unit", "package", "slow"])
        self.assertEqual(steps(), [])


class ChangedTest(unittest.TestCase):
    def test_files_since_the_branch_began(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)

            def git(*words):
                who = ["-c", "user.name=a", "-c", "user.email=a@b"]
                subprocess.run(
                    ["git", *who, *words], cwd=root, check=True,
                    capture_output=True,
                )

            git("init", "-b", "main")
            for name in ("old", "kept", "edited"):
                (root / name).write_text(name * 9)
            git("add", ".")
            git("commit", "-m", "one")
            git("checkout", "-b", "branch")
            git("mv", "old", "new")
            git("commit", "-m", "two")
            (root / "edited").write_text("")
            (root / "a name\n").write_text("")
            with mock.patch.object(run_steps, "ROOT", root):
                self.assertEqual(
                    run_steps.changed_files(""),
                    ["a name\n", "edited", "new", "old"],
                )
                self.assertEqual(
                    run_steps.changed_files("HEAD"), ["a name\n", "edited"]
                )
                git("branch", "-D", "main")
                with self.assertRaisesRegex(run_steps.Wrong, "name a BASE"):
                    run_steps.changed_files("")


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def run_all(self, text=TABLE, mode="every", lanes=2):
        whole = table(text)
        runner = run_steps.Runner(whole, self.root, mode, lanes)
        self.output = io.StringIO()
        with contextlib.redirect_stdout(self.output):
            outcomes = runner.run_all(list(whole.steps.values()), {})
        return {outcome.step.name: outcome for outcome in outcomes}

    def test_steps_run_after_what_they_need(self):
        outcomes = self.run_all()
        self.assertEqual({o.status for o in outcomes.values()}, {0})
        self.assertEqual(outcomes["unit"].last_line, "100% tests passed")
        self.assertEqual(outcomes["package"].last_line, "hello 2 short")
        self.assertEqual(
            (self.root / "build/logs/unit.log").read_text(),
            "built\n100% tests passed\nand a line\n",
        )
        self.assertIn("== unit\n", self.output.getvalue())

    def test_nights_have_their_sizes(self):
        last = self.run_all(mode="all")["package"].last_line
        self.assertEqual(last, "hello 10 yes")

    def test_a_failure_leaves_out_what_waits_for_it(self):
        text = TABLE.replace('"cat built;', '"echo oh; exit 3;')
        outcomes = self.run_all(text)
        self.assertEqual(outcomes["unit"].status, 3)
        self.assertIsNone(outcomes["slow"].status)
        self.assertEqual(outcomes["package"].status, 0)
        said = run_steps.summary(list(outcomes.values()), 61.5)
        self.assertIn("FAILED", said)
        self.assertRegex(said, r"left out +0s  slow +needs unit\n")
        self.assertIn("1 of 3 steps failed, 1 min 1 s in all", said)
        self.assertIn("oh\n   ... all of it is in build/logs/unit.log",
                      self.output.getvalue())

    def test_what_waits_for_what_is_left_out_is_left_out(self):
        text = TABLE.replace('"echo built >built"', '"false"')
        outcomes = self.run_all(text)
        self.assertIsNone(outcomes["slow"].status)
        self.assertEqual(outcomes["slow"].last_line, "needs unit")

    def test_heavy_steps_do_not_meet_others_do(self):
        waits = """
            touch $me; for i in $(seq 100); do
            [ -e $other ] && exit 0; read -rt 0.05 <> <(:) || true; done; exit 1
        """
        text = f"""
            [areas]
            [steps.first]
            what = "a"
            when = "every"
            areas = ["a/"]
            is_heavy = true
            run = '''me=a other=b; {waits}'''
            [steps.second]
            what = "b"
            when = "every"
            areas = ["a/"]
            run = '''me=b other=a; {waits}'''
            [steps.third]
            what = "c"
            when = "every"
            areas = ["a/"]
            is_heavy = true
            run = "test ! -e c"
        """
        outcomes = self.run_all(text, lanes=3)
        self.assertEqual({o.status for o in outcomes.values()}, {0})

    def test_the_next_is_what_most_waits_for(self):
        steps = list(table().steps.values())
        work = run_steps.work_behind(steps, {"unit": 5, "slow": 100})
        guess = run_steps.SECONDS_GUESSED
        self.assertEqual(work["slow"], 100)
        self.assertEqual(work["unit"], 105)
        self.assertEqual(work["build"], 105 + 2 * guess)
        build, unit, package, _ = steps

        def following(waiting, running):
            return run_steps.next_step(waiting, running, work)

        self.assertIs(following(steps, []), build)
        self.assertIsNone(following(steps[1:], [build]))
        self.assertIs(following([unit, package], []), unit)
        # Two heavy steps do not run at the same time.
        other = run_steps.Step("other", "", "", "every", is_heavy=True)
        self.assertIs(following([unit, package], [other]), package)


class LedgerTest(unittest.TestCase):
    def test_what_passed_is_kept_by_its_sizes(self):
        whole = table()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "seconds.json")
            path.write_text('{"about": "x", "all": {"gone": 1, "slow": 7}}')
            outcomes = [
                run_steps.Outcome(whole.steps["unit"], 0, 2.6, ""),
                run_steps.Outcome(whole.steps["package"], 1, 9, ""),
            ]
            run_steps.write_ledger(path, "every", whole, outcomes)
            kept = json.loads(path.read_text())
            self.assertEqual(kept["about"], "x")
            self.assertEqual(
                kept["every"],
                {"build": None, "unit": 3, "package": None, "slow": None},
            )
            self.assertEqual(kept["all"]["slow"], 7)
            self.assertNotIn("gone", kept["all"])
            # If a step has no seconds for these sizes, those for other sizes
            # count.
            self.assertEqual(
                run_steps.read_ledger(path, "every"), {"unit": 3, "slow": 7}
            )


class CommandTest(unittest.TestCase):
    """Tests scripts/test itself, with its own table."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, value in (
            ("ROOT", self.root),
            ("TABLE", self.root / "steps.toml"),
            ("LEDGER", self.root / "seconds.json"),
        ):
            patch = mock.patch.object(run_steps, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        run_steps.TABLE.write_text(TABLE)

    def call(self, *words):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            with contextlib.redirect_stderr(output):
                self.status = run_steps.main(list(words))
        return output.getvalue()

    def test_named_steps_run_with_their_needs_or_without(self):
        self.assertIn("0 of 2 steps failed", self.call("unit"))
        self.assertEqual(self.status, 0)
        os.remove(self.root / "built")
        self.assertIn("1 of 1 steps failed", self.call("unit", "--no-deps"))
        self.assertEqual(self.status, 1)
        self.assertIn("no step 'x'", self.call("x"))
        self.assertEqual(self.status, 2)

    def test_the_ledger_is_written_when_asked(self):
        self.call("unit")
        self.assertFalse(run_steps.LEDGER.exists())
        self.call("--all", "package", "--ledger")
        kept = json.loads(run_steps.LEDGER.read_text())
        self.assertEqual(kept["all"]["package"], 0)
        self.assertEqual(set(kept["every"].values()), {None})

    def test_list_and_dry_run_run_nothing(self):
        listed = self.call("--list")
        self.assertRegex(listed, r"package +\? +every +Python\n")
        self.assertIn("every change: 3 steps, 0 s of 0 of them", listed)
        planned = self.call("--all", "--dry-run")
        self.assertIn("== build: full=yes\necho built >built\n", planned)
        self.assertIn("== package: count=10 full=yes\n", planned)
        self.assertEqual([*self.root.glob("built")], [])
        self.assertIn("usage: scripts/test", self.call("--help"))


if __name__ == "__main__":
    unittest.main()
