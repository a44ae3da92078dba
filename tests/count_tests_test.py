"""tools/count_tests.py on records of runs of every kind; the cases of Python's tests."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path("tools/count_tests.py").resolve()
MAIN = pathlib.Path("third_party/bazel/python_test_main.py").resolve()


class CountTests(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.events = []

    def result(self, label, status="PASSED", cases=None, **where):
        """One run of a test; `cases`: what stands in its test.xml, or None for none."""
        outputs = []
        if cases is not None:
            file = pathlib.Path(self.folder.name, f"{len(self.events)} %.xml")
            file.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
            outputs.append({"name": "test.xml", "uri": file.as_uri()})
        self.configured(label)
        self.events.append(
            {
                "id": {"testResult": {"label": label, **where}},
                "testResult": {"status": status, "testActionOutput": outputs},
            }
        )
        self.events.append(
            {
                "id": {"testSummary": {"label": label}},
                "testSummary": {"overallStatus": status},
            }
        )

    def configured(self, label):
        self.events.append(
            {
                "id": {"targetConfigured": {"label": label}},
                "configured": {"targetKind": "cc_test rule", "testSize": "SMALL"},
            }
        )

    def count(self, code=0, complete=True):
        file = pathlib.Path(self.folder.name, "events.json")
        events = self.events + ([{"id": {}, "lastMessage": True}] if complete else [])
        file.write_text("".join(json.dumps(e) + "\n" for e in events))
        done = subprocess.run(
            [sys.executable, SCRIPT, file, str(code)], capture_output=True, text=True, check=True
        )
        self.stderr = done.stderr
        return done.stdout.strip()

    def test_counts_cases(self):
        self.result(
            "//a:a",
            cases='<testcase status="run" result="completed"/>' * 3
            + '<testcase status="run" result="skipped"><skipped/></testcase>'
            + '<testcase status="notrun" result="suppressed"/>',
        )
        self.result("//b:b", cases="<testcase/>")
        self.assertEqual(self.count(), "4 0 2")

    def test_failed_cases(self):
        self.result("//a:a", "FAILED", '<testcase/><testcase><failure message="x"/></testcase>')
        self.assertEqual(self.count(3), "1 1 0")
        self.assertIn("failed: //a:a", self.stderr)

    def test_a_process_that_died_has_failed(self):
        self.result("//a:a", "FAILED", "<testcase/>")
        self.result("//b:b", "TIMEOUT")
        self.assertEqual(self.count(3), "1 2 0")

    def test_without_cases_a_test_is_one(self):
        self.result("//a:a")
        self.assertEqual(self.count(), "1 0 0")

    def test_shards_and_attempts(self):
        for shard in (1, 2):
            self.result("//a:a", cases="<testcase/>", shard=shard)
        self.result("//b:b", "FAILED", "<testcase><failure/></testcase>", attempt=1)
        self.events.pop()
        self.result("//b:b", "PASSED", "<testcase/>", attempt=2)
        self.assertEqual(self.count(), "3 0 0")

    def test_what_was_not_built_has_failed(self):
        self.result("//a:a", cases="<testcase/>")
        self.configured("//b:b")
        self.events.append(
            {"id": {"targetCompleted": {"label": "//b:b"}}, "completed": {"success": False}}
        )
        self.events.append({"id": {"targetCompleted": {"label": "//c:library"}}, "aborted": {}})
        self.assertEqual(self.count(1), "1 2 0")
        self.assertIn("failed: //c:library", self.stderr)

    def test_bazel_that_fails_alone(self):
        self.result("//a:a", cases="<testcase/>")
        self.assertEqual(self.count(37), "1 1 0")
        self.assertEqual(self.count(0, complete=False), "1 1 0")

    def test_nothing_ran(self):
        self.assertEqual(self.count(0), "0 1 0")


SAMPLE = """
import unittest
class Sample(unittest.TestCase):
    def test_passes(self): pass
    def test_skips(self): self.skipTest("no \\x01 keras \\udc80")
    def test_fails(self): self.fail("x")
    def test_errs(self): 1 / 0
    def test_parts(self):
        for i in range(3):
            with self.subTest(i=i): self.assertLess(i, 1)
@unittest.skip("all of them")
class Skipped(unittest.TestCase):
    def test_a(self): pass
class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise RuntimeError("no")
    def test_a(self): pass
unittest.main()
"""


class PythonTests(unittest.TestCase):
    def test_cases_of_a_python_test_are_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            sample = pathlib.Path(folder, "sample_test.py")
            sample.write_text(SAMPLE)
            xml = pathlib.Path(folder, "test.xml")
            done = subprocess.run(
                [sys.executable, MAIN, sample],
                env={"XML_OUTPUT_FILE": str(xml)},
                capture_output=True,
                check=False,
            )
            self.assertEqual(done.returncode, 1)
            sys.path.insert(0, str(SCRIPT.parent))
            from count_tests import count_cases  # pylint: disable=import-outside-toplevel

            # Failed: one that fails, one that errs, one with a failed part, one class.
            self.assertEqual(count_cases(xml), (1, 4, 2))


if __name__ == "__main__":
    unittest.main()
