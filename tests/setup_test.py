"""tools/setup on machines of every kind, played by programs of the test's own."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SETUP = pathlib.Path("tools/setup").resolve()
BOOKWORM = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_CODENAME=bookworm\n'
OTHER = 'PRETTY_NAME="Elsewhere 7"\nVERSION_CODENAME=seven\n'

DPKG_QUERY = """#!/bin/bash
grep -qx -- "${@: -1}" "$MACHINE/missing" && exit 1
echo -n installed
"""
APT_GET = """#!/bin/bash
echo "apt-get $*" >> "$MACHINE/calls"
[[ -e $MACHINE/offline ]] && { echo "E: no route"; exit 100; }
exit 0
"""
SUDO = """#!/bin/bash
[[ $1 == -n ]] && exit 0
echo sudo >> "$MACHINE/calls"
exec "$@"
"""


class Setup(unittest.TestCase):
    def setUp(self):
        self.machine = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.machine)
        self.path = self.machine / "bin"
        self.path.mkdir()
        for tool in ["bash", "cat", "env", "grep", "mktemp", "rm", "sed", "tail"]:
            (self.path / tool).symlink_to(shutil.which(tool))
        self.program("dpkg-query", DPKG_QUERY)
        self.program("apt-get", APT_GET)
        self.user(0)
        self.release(BOOKWORM)
        self.missing([])

    def program(self, name, text):
        file = self.path / name
        file.write_text(text)
        file.chmod(0o755)

    def user(self, number):
        self.program("id", f"#!/bin/bash\necho {number}\n")

    def release(self, text):
        (self.machine / "os-release").write_text(text)

    def missing(self, packages):
        (self.machine / "missing").write_text("".join(p + "\n" for p in packages))

    def calls(self):
        file = self.machine / "calls"
        return file.read_text() if file.exists() else ""

    def run_setup(self, *arguments):
        environment = {
            "PATH": str(self.path),
            "MACHINE": str(self.machine),
            "ONWARD_OS_RELEASE": str(self.machine / "os-release"),
        }
        return subprocess.run(
            [SETUP, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def test_says_nothing_where_all_is_there(self):
        done = self.run_setup("--tests")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(self.calls(), "")

    def test_installs_only_what_is_missing(self):
        self.missing(["libabsl-dev", "clang-tidy"])
        done = self.run_setup()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("install -y --no-install-recommends libabsl-dev\n", self.calls())
        self.assertNotIn("sudo", self.calls())

    def test_tests_need_more(self):
        self.missing(["libabsl-dev", "clang-tidy"])
        self.assertEqual(self.run_setup("--tests").returncode, 0)
        self.assertIn("--no-install-recommends libabsl-dev clang-tidy\n", self.calls())

    def test_uses_sudo_where_one_is_not_root(self):
        self.missing(["g++"])
        self.user(1000)
        self.program("sudo", SUDO)
        done = self.run_setup()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sudo\n", self.calls())
        self.assertIn("--no-install-recommends g++\n", self.calls())

    def test_without_sudo_names_the_command(self):
        self.missing(["g++", "libzip-dev"])
        self.user(1000)
        done = self.run_setup()
        self.assertEqual(done.returncode, 2)
        self.assertEqual(self.calls(), "")
        self.assertIn(
            "apt-get update && apt-get install -y --no-install-recommends g++ libzip-dev\n",
            done.stderr,
        )

    def test_another_system_is_told_what_is_needed(self):
        self.release(OTHER)
        done = self.run_setup()
        self.assertEqual(done.returncode, 2)
        self.assertIn("Elsewhere 7", done.stderr)
        self.assertIn("Debian 12", done.stderr)
        self.assertIn("libabsl-dev", done.stderr)
        self.assertEqual(self.calls(), "")

    def test_a_system_without_apt(self):
        (self.path / "apt-get").unlink()
        self.assertEqual(self.run_setup().returncode, 2)

    def test_a_failed_installation_is_shown(self):
        self.missing(["g++"])
        (self.machine / "offline").touch()
        done = self.run_setup()
        self.assertEqual(done.returncode, 2)
        self.assertIn("E: no route", done.stderr)
        self.assertIn("install -y --no-install-recommends g++", done.stderr)

    def test_list_and_mistakes(self):
        listed = self.run_setup("--list").stdout.split()
        self.assertIn("bazel-bootstrap", listed)
        self.assertNotIn("clang-tidy", listed)
        self.assertEqual(len(listed), len(set(listed)))
        done = self.run_setup("--bogus")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--bogus", done.stderr)
        self.assertEqual(self.calls(), "")


if __name__ == "__main__":
    unittest.main()
