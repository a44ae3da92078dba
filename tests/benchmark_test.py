"""Tests of tools/benchmark: its arithmetic, its arguments, programs that fail, and one tiny run of the
real command, with JAX beside it where Bazel (or this Python) has JAX. The other peers' scripts run only
where those are installed: see that each first loss is Onward's, as the command itself does."""

import contextlib
import io
import json
import os
import statistics
import sys
import tempfile
import textwrap
import time
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools", "benchmarks"))
import driver  # noqa: E402
import programs  # noqa: E402
import report  # noqa: E402
import runs  # noqa: E402
import works  # noqa: E402

PACKAGES = [os.path.abspath(p) for p in ("../keras", "../onnxruntime") if os.path.isdir(p)]
BINARY = os.environ.get("ONWARD") or os.path.abspath("tools/onward/onward")


def program(folder, name, text):
    """An executable Python script that speaks as peers do."""
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!{sys.executable}\nimport json, sys, time\n" + textwrap.dedent(text))
    os.chmod(path, 0o755)
    return path


EPOCHS = """
    print("a library's greeting")
    print(json.dumps({"event": "first_step", "loss": 2.3}), flush=True)
    while True:
        time.sleep(0.02)
        print(json.dumps({"event": "epoch", "samples": 100, "metrics": {"loss": 2.0}}), flush=True)
"""


class ArithmeticTest(unittest.TestCase):

    def test_ratios_are_of_the_same_round(self):
        # The machine slowed down in round 2; a ratio of medians would say 1.1.
        self.assertEqual(report.ratios([220, 110, 200], [100, 50, 180]), [2.2, 2.2, 200 / 180])
        self.assertEqual(report.spread([2.2, 2.2, 1.1]), (2.2, 1.1, 2.2))
        self.assertEqual(report.ratios([220, None, 200], [100, 50, None]), [2.2])
        self.assertIsNone(report.spread([]))

    def test_share_of_gemm(self):
        self.assertAlmostEqual(report.gemm_share(1000, 2 * 10**6, 10), 0.2)
        self.assertIsNone(report.gemm_share(1000, 10, None))
        self.assertIsNone(report.gemm_share(None, 10, 10))

    def test_operations_of_a_step(self):
        # 784-512-10: three products a layer, but for the gradient of the input.
        mlp = works.WORKS["mlp"].operations_per_sample()
        self.assertEqual(mlp, 2 * (2 * 784 * 512 + 3 * 512 * 10))
        cnn = works.WORKS["cnn"].multiply_adds
        self.assertEqual(cnn[:2], (32 * 32 * 32 * 27, 30 * 30 * 32 * 288))
        self.assertEqual(cnn[-2:], (6 * 6 * 64 * 512, 5120))
        # torchvision's ResNet-18 has 1.814e9 multiply-adds at 224x224 with 1000 classes.
        resnet = works.WORKS["resnet"].multiply_adds
        self.assertEqual(len(resnet), 21)
        self.assertAlmostEqual((sum(resnet) - 5120) * (224 / 64)**2 / 1.8135e9, 1, delta=0.001)

    def test_rate_leaves_the_first_epoch_out_and_takes_the_median(self):
        events = [(t, {"event": "epoch", "samples": 100}) for t in (5, 6, 7, 17, 18)]
        events.insert(0, (0.5, {"event": "first_step"}))
        self.assertEqual(runs.samples_per_second(events), 100)
        with self.assertRaisesRegex(runs.Failure, "second epoch"):
            runs.samples_per_second(events[:2])

    def test_enough_is_two_epochs_after_the_first_and_the_seconds(self):
        enough = runs.enough_epochs(1.5)
        events = [(t, {"event": "epoch", "samples": 1}) for t in (10.0, 11.0, 12.0)]
        self.assertFalse(enough(events[:2]))
        self.assertTrue(enough(events))
        self.assertFalse(runs.enough_epochs(2.5)(events))

    def test_a_loud_machine_is_told(self):
        self.assertEqual(report.doubts([0.0, 0.2]), "")
        self.assertIn("1 of 2 runs other programs kept up to 1.5 cores", report.doubts([0.1, 1.5]))

    def test_the_table(self):
        results = {"onward": [{"samples_per_second": 3000.0, "first_step_s": 0.125, "peak_mb": 50}],
                   "slow": [{"samples_per_second": 1500.0, "first_step_s": 2.5, "peak_mb": 600}],
                   "broken": [None]}
        text = report.work_table("onward", results, {"broken": "no such module"}, 10**6, 6.0)
        self.assertEqual(text.split("\n"), [
            "          samples/s  onward / it  of GEMM  first step  peak memory",
            "  onward      3,000                  50 %      0.12 s        50 MB",
            "  slow        1,500       2.00 x     25 %      2.50 s       600 MB",
            "  broken  failed: no such module"])


class WorksTest(unittest.TestCase):

    def test_a_wider_resnet_is_the_thin_one_with_more_channels(self):

        def initializers(model):
            (graph,) = [v for f, v in works.fields(model) if f == 7]
            out = {}
            for tensor in (list(works.fields(v)) for f, v in works.fields(graph) if f == 5):
                (name,), (raw,) = ([v for f, v in tensor if f == k] for k in (8, 9))
                out[name.decode()] = ([v for f, v in tensor if f == 1], memoryview(raw).cast("f"))
            return out

        thin = works.WORKS["resnet-thin"].make_model()
        wide = works.widened(thin, 4, seed=1)
        self.assertEqual(wide, works.widened(thin, 4, seed=1))
        before, after = initializers(thin), initializers(wide)
        self.assertEqual(list(before), list(after))
        self.assertEqual(after["conv1.weight"][0], [16, 3, 7, 7])
        self.assertEqual(after["layer2.0.downsample.0.weight"][0], [32, 16, 1, 1])
        self.assertEqual(after["fc.weight"][0], [10, 128])
        self.assertEqual(after["fc.bias"][1].tolist(), before["fc.bias"][1].tolist())
        self.assertEqual(after["bn1.weight"][1].tolist(), [1.0] * 16)
        # As torchvision draws them: by the fan of the output.
        weights = after["layer1.0.conv1.weight"][1].tolist()
        self.assertAlmostEqual(statistics.pvariance(weights), 2 / (16 * 9), delta=5e-4)
        self.assertNotEqual(weights[:144], weights[144:288])

    def test_data_are_idx_files(self):
        with tempfile.TemporaryDirectory() as folder:
            images, labels = works.write_data(os.path.join(folder, "x"), (4, 5, 3), 7, 1)
            with open(images, "rb") as file:
                raw = file.read()
            self.assertEqual(raw[:4], b"\0\0\x08\x04")
            self.assertEqual([int.from_bytes(raw[i:i + 4], "big") for i in range(4, 20, 4)],
                             [7, 4, 5, 3])
            self.assertEqual(len(raw), 20 + 7 * 60)
            with open(labels, "rb") as file:
                raw = file.read()
            self.assertEqual(raw[:8], b"\0\0\x08\x01\0\0\0\7")
            self.assertLess(max(raw[8:]), 10)


class RunsTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def program(self, text):
        return [program(self.folder, "program", text)]

    def test_a_program_is_ended_when_it_has_said_enough(self):
        ran = runs.run(self.program(EPOCHS), threads=1, timeout=60,
                       enough=runs.enough_epochs(0.1))
        self.assertEqual([e["event"] for _, e in ran.events[:2]], ["first_step", "epoch"])
        self.assertGreater(ran.peak_mb, 1)
        self.assertTrue(all(a[0] <= b[0] for a, b in zip(ran.events, ran.events[1:])))

    def test_only_the_cores_that_were_asked_for(self):
        ran = runs.run(self.program("""
            import os
            cores = len(os.sched_getaffinity(0))
            print(json.dumps({"event": "cores", "cores": cores}))
        """), threads=1, timeout=60)
        self.assertEqual(ran.events[0][1]["cores"], 1)

    def test_a_quiet_machine_is_waited_for(self):
        # 1 s of others' time, then none.
        with mock.patch.object(runs, "busy_seconds", side_effect=[0, 1, 1, 1]), \
                mock.patch.object(runs, "_own_seconds", return_value=0):
            self.assertTrue(runs.await_quiet(60, 0.25, look=0.01))
        with mock.patch.object(runs, "busy_seconds", side_effect=range(1000)), \
                mock.patch.object(runs, "_own_seconds", return_value=0):
            self.assertFalse(runs.await_quiet(0.03, 0.25, look=0.01))

    def test_a_failure_is_its_last_line(self):
        with self.assertRaisesRegex(runs.Failure, "^ImportError: no such thing$"):
            runs.run(self.program("raise ImportError('no such thing')"), threads=1, timeout=60)
        with self.assertRaisesRegex(runs.Failure, "exit code 3, without a word"):
            runs.run(self.program("sys.exit(3)"), threads=1, timeout=60)
        with self.assertRaisesRegex(runs.Failure, "No such file"):
            runs.run([os.path.join(self.folder, "nothing")], threads=1, timeout=60)

    def test_one_that_hangs_is_ended_with_what_it_started(self):
        pids = os.path.join(self.folder, "pids")
        hanging = self.program(f"""
            import os, subprocess
            child = subprocess.Popen(["sleep", "600"])
            with open({pids!r}, "w") as file:
                file.write(str(child.pid))
            time.sleep(600)
        """)
        with self.assertRaisesRegex(runs.Failure, "longer than 2 s"):
            runs.run(hanging, threads=1, timeout=2)
        with open(pids, encoding="ascii") as file:
            child = int(file.read())
        for _ in range(100):
            try:
                with open(f"/proc/{child}/stat", encoding="ascii") as file:
                    if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                        return
            except OSError:
                return
            time.sleep(0.05)
        self.fail("the child still runs")


class DriverTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def main(self, *words):
        """(exit code, stdout, stderr)"""
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            try:
                code = driver.main(words)
            except SystemExit as error:
                code = error.code
        return code, out.getvalue(), errors.getvalue()

    def test_arguments(self):
        args = driver.parse(["--work", "cnn,mlp,cnn", "--peers", "jax", "--threads", "1"])
        self.assertEqual((args.work, args.peers, args.threads), (["cnn", "mlp"], ["jax"], 1))
        self.assertEqual((args.rounds, args.measure), (3, list(driver.MEASURES)))
        self.assertEqual(driver.parse(["--quick"]).rounds, 1)
        self.assertEqual(driver.parse(["--quick", "--rounds", "2"]).rounds, 2)
        for words, told in ((["--work", "mpl"], "'mpl' is none of mlp, cnn"),
                            (["--peers", "torch"], "'torch' is none of onward, pytorch"),
                            (["--rounds", "0"], "'0' is not a number above 0"),
                            (["--seconds", "nan"], "'nan' is not a number above 0"),
                            (["--python", "torhc=python3"], "'torhc' is no peer"),
                            (["--python", "jax=/no/python"], "'/no/python' is no program"),
                            (["--json", "/no/folder/x.json"], "no such folder")):
            code, _, errors = self.main(*words)
            self.assertEqual(code, 2, words)
            self.assertIn(told, errors)
        code, _, errors = self.main("--onward", "/no/onward")
        self.assertEqual(code, 2)
        self.assertIn("/no/onward cannot be run", errors)

    def test_interpreters_of_peers(self):
        python = sys.executable
        self.assertEqual(programs.parse_pythons([f"pytorch-compile={python},{python}"]),
                         [("pytorch", python), ("", python)])

    def test_help_names_every_work_and_peer(self):
        code, out, _ = self.main("--help")
        self.assertEqual(code, 0)
        for name in (*works.WORKS, *programs.PEERS, *driver.MEASURES):
            self.assertIn(name, out)

    def test_an_absent_peer_is_told_with_what_to_do(self):
        with mock.patch.dict(programs.PACKAGES, jax=programs.Package(("no-such-thing",), "pip x")):
            code, out, _ = self.main("--peers", "jax", "--measure", "speed", "--quick")
        self.assertEqual(code, 0)
        self.assertIn("jax      absent: pip x; or name an interpreter that has it, --python jax=",
                      out)

    def test_a_broken_peer_is_told_and_the_others_go_on(self):
        broken = program(self.folder, "broken", "sys.exit('ImportError: libtorch.so is missing')")
        good = program(self.folder, "good", EPOCHS)
        result = os.path.join(self.folder, "result.json")
        found = {"pytorch": (broken, "torch 0"), "jax": (good, "jax 0")}
        with mock.patch.object(programs, "find_pythons", return_value=found), \
                mock.patch.object(driver.Benchmark, "gemm_commands", return_value=[[broken]]):
            code, out, _ = self.main("--peers", "pytorch,jax", "--work", "mlp", "--measure",
                                     "speed", "--rounds", "2", "--seconds", "0.05", "--json",
                                     result)
        self.assertEqual(code, 0)
        self.assertRegex(out, r"pytorch +failed: ImportError: libtorch.so is missing")
        self.assertRegex(out, r"jax +[0-9,]+ +- ")
        self.assertIn("GEMM: not measured", out)
        with open(result, encoding="utf-8") as file:
            written = json.load(file)
        self.assertEqual(written["speed"]["mlp"]["pytorch"], [None])
        self.assertEqual(len(written["speed"]["mlp"]["jax"]), 2)
        self.assertEqual(written["failures"],
                         {"mlp": {"pytorch": "ImportError: libtorch.so is missing"}})

    def test_a_disturbed_run_is_done_again_where_there_is_patience(self):
        for words, runs_done in (([], 1), (["--patience", "5"], 2)):
            benchmark = driver.Benchmark(driver.parse(words), None, {}, self.folder)
            loud, quiet = (runs.Ran([], 0.0, cores) for cores in (1.5, 0.0))
            with mock.patch.object(runs, "await_quiet"), \
                    mock.patch.object(runs, "run", side_effect=[loud, quiet]) as run:
                benchmark.run(["x"])
            self.assertEqual(run.call_count, runs_done)
            self.assertEqual(benchmark.foreign, [1.5] if runs_done == 1 else [0.0])

    def test_other_work_is_noticed(self):
        benchmark = driver.Benchmark(driver.parse([]), None, {}, self.folder)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            benchmark.compare_losses({"onward": [{"first_loss": 2.4}], "jax": [{"first_loss": 2.5}],
                                      "keras": [{"first_loss": 9.0}], "ort": [None]})
        self.assertEqual(out.getvalue().count("not the same work?"), 1)
        self.assertIn("the first loss of keras is 9.000", out.getvalue())

    def test_jax_does_the_same_work(self):
        result = os.path.join(self.folder, "result.json")
        with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(PACKAGES),
                             HOME=self.folder):
            if not programs.find_pythons([], ["jax"]):
                self.skipTest("there is no JAX")
            code, out, _ = self.main("--quick", "--peers", "onward,jax", "--work", "resnet-thin",
                                     "--onward", BINARY, "--threads", "1", "--measure", "speed",
                                     "--json", result)
        self.assertEqual(code, 0, out)
        with open(result, encoding="utf-8") as file:
            speed = json.load(file)["speed"]["resnet-thin"]
        (ours,), (theirs,) = speed["onward"], speed["jax"]
        # No dropout: the same weights and the same batch give the same loss.
        self.assertAlmostEqual(ours["first_loss"], theirs["first_loss"], delta=1e-4)
        self.assertRegex(out, r"jax +[0-9,.]+ +[0-9.]+ x")

    def test_a_tiny_run_of_onward(self):
        result = os.path.join(self.folder, "result.json")
        code, out, errors = self.main("--quick", "--peers", "onward", "--work", "resnet-thin",
                                      "--onward", BINARY, "--threads", "1", "--measure", "speed",
                                      "--json", result)
        self.assertEqual((code, errors), (0, ""), out)
        with open(result, encoding="utf-8") as file:
            written = json.load(file)
        (measured,) = written["speed"]["resnet-thin"]["onward"]
        self.assertGreater(measured["samples_per_second"], 0)
        self.assertGreater(measured["first_step_s"], 0)
        self.assertGreater(measured["peak_mb"], 1)
        # The first convolution alone makes 32 x 4 x 32 x 32 floats.
        planned = written["memory"]["resnet-thin"]["planned_mb"]
        self.assertGreater(planned["arena"], 32 * 4 * 32 * 32 * 4 / 1e6)
        self.assertGreater(measured["peak_mb"], sum(planned.values()) / 2)
        # Weights that were read, and a loss over ten classes.
        self.assertAlmostEqual(measured["first_loss"], 2.34, delta=0.2)


if __name__ == "__main__":
    unittest.main()
