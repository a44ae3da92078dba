"""How tests run the real onward command."""

import os
import subprocess
import tempfile
import unittest

ONWARD = os.environ.get("ONWARD") or os.path.abspath("tools/onward/onward")


class CommandCase(unittest.TestCase):
    """Every test works in an empty folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        os.chdir(folder.name)

    def run_ok(self, *words):
        """The output of a program, which must end with 0."""
        done = subprocess.run(words, capture_output=True, text=True, timeout=600,
                              stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def run_onward(self, *words, code=0, preexec_fn=None):
        """The output of the command; where it must end with another code than 0, the one
        line in which it says why."""
        done = subprocess.run([ONWARD, *words], capture_output=True, timeout=120,
                              stdin=subprocess.DEVNULL, preexec_fn=preexec_fn, check=False)
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, out + err)
        self.assertEqual(len(err.splitlines()), 1 if code else 0, err)
        return err if code else out
