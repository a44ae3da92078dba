"""Runs a Python test as `python3 FILE` would, and reports its cases to Bazel.

    python_test_main.py FILE

Bazel reads cases from $XML_OUTPUT_FILE, as gtest writes it. Without that a whole
file counts as one case, passed even if every case in it was skipped.
"""

import os
import runpy
import sys
import unittest
import xml.etree.ElementTree as ElementTree


class RecordingResult(unittest.TextTestResult):
    """Keeps the end of every case: a subtest that fails is its case's failure."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.cases = {}  # id -> (kind, text); the first failure of a case stays

    def record(self, test, kind, text=""):
        name = test.id()
        if self.cases.get(name, ("passed",))[0] == "passed":
            self.cases[name] = (kind, text)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.record(test, "passed")

    def addError(self, test, err):
        super().addError(test, err)
        self.record(test, "error", self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.record(test, "failure", self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.record(test, "failure", self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.record(test, "skipped", reason)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.record(test, "passed")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.record(test, "failure", "it was expected to fail")


class RecordingRunner(unittest.TextTestRunner):
    resultclass = RecordingResult

    def run(self, test):
        result = super().run(test)
        path = os.environ.get("XML_OUTPUT_FILE")
        if path:
            suite = ElementTree.Element("testsuite", name="unittest")
            for name, (kind, text) in result.cases.items():
                case = ElementTree.SubElement(suite, "testcase", name=name, status="run")
                if kind != "passed":
                    ElementTree.SubElement(case, kind).text = printable(text)
            root = ElementTree.Element("testsuites")
            root.append(suite)
            ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
        return result


def printable(text):
    """`text` without the characters that XML cannot hold."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(c if c in "\n\t" or c >= " " else "?" for c in text)


if __name__ == "__main__":
    unittest.runner.TextTestRunner = RecordingRunner
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
