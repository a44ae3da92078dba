"""The house's rules that a compiler does not see, checked on the source tree.

- Folders include only what stands above them in RULES.
- An outside library is included only where LIBRARIES says.
- No two headers define a type of the same name: all are in one namespace, and a
  linker would silently take either.
- No file is longer than 800 lines, but for long tables.
- No type or file is called Manager, Helper, Util, Impl, Info or Base.

The tree is the one that this file's WORKSPACE lies in; its own tests run on
small trees with a fault each.
"""

import os
import pathlib
import re
import tempfile
import unittest

# A folder, and the folders whose headers it may include beside its own. A file
# belongs to the longest folder that it lies in.
GRAPH = ["graph/base", "graph/ir", "graph/onnx", "graph/ops", "graph/passes", "graph/plan"]
RULES = {
    **{folder: GRAPH[:i] for i, folder in enumerate(GRAPH)},
    "strategy": GRAPH,
    "kernels": ["graph/base"],
    "backend/runtime": GRAPH + ["strategy", "kernels"],
    "backend/data": ["graph/base"],
    "backend": GRAPH + ["strategy", "kernels", "backend/runtime", "backend/data"],
    "tools": None,  # anything
    "tests": None,
    "examples": None,
}

# The beginning of an include, and the folders where it may stand.
LIBRARIES = {
    "onnx/": ["graph/onnx", "tests/check_model.cc"],
    "google/protobuf": ["graph/onnx"],
    "dnnl": ["kernels/onednn"],
    "oneapi/": ["kernels/onednn"],
    "hwy/": ["kernels/cpu"],
    "cuda": ["kernels/cuda", "backend/runtime"],
    "cudnn": ["kernels/cuda"],
    "cublas": ["kernels/cuda"],
    "nccl": ["backend/runtime"],
    "gloo/": ["backend/runtime"],
    "jerror.h": ["graph/ops/images"],
    "jpeglib.h": ["graph/ops/images"],
    "openjpeg": ["graph/ops/images"],
    "png.h": ["graph/ops/images"],
    "tiffio.h": ["graph/ops/images"],
    "webp/": ["graph/ops/images"],
    "zip.h": ["backend/data"],
    "csv.h": ["backend/data"],
    "zlib.h": ["backend/data"],
    "xxhash.h": ["graph/plan", "backend"],
    "nlohmann/": ["backend", "tools", "tests"],
    "yaml-cpp/": ["tools/onward"],
    "CLI/": ["tools/onward"],
    "pybind11/": ["backend/python"],
    "benchmark/": ["tools"],
}

# Tables of one row a line, which are easier to read whole.
LONG_TABLES = set()
MOST_LINES = 800

SOURCES = {".h", ".cc", ".cu", ".cuh"}
COUNTED = SOURCES | {".py", ".bzl"}
BAD_WORDS = {"manager", "helper", "util", "impl", "info", "base"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
TYPE = re.compile(
    r"^\s*(?:template\s*<[^;{]*>\s*)?(?:class|struct|union|enum(?:\s+class)?|using|typedef)\s+"
    r"(?:\[\[\w+\]\]\s*)?(\w+)",
    re.MULTILINE,
)
# At the margin: members of types are indented.
DEFINITION = re.compile(
    r"^(?:class|struct|union|enum(?:\s+class)?)\s+(\w+)[^;{(]*\{", re.MULTILINE
)
CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")


def bad_words(words):
    return [w for w in words if w.lower() in BAD_WORDS or w.lower().rstrip("s") in BAD_WORDS]


def under(path, folder):
    return path == folder or path.startswith(folder + "/")


def folder_of(path):
    """The folder of RULES that a path belongs to, or None."""
    return max((f for f in RULES if under(path, f)), key=len, default=None)


def check_includes(path, text):
    own = folder_of(path)
    is_test = path.endswith("_test.cc") or os.path.basename(path).startswith(("test_", "try_"))
    for quote, include in INCLUDE.findall(text):
        for start, folders in LIBRARIES.items():
            inside = include.startswith(start) and folder_of(include) is None
            if inside and not any(under(path, f) for f in folders):
                yield f"{path}: includes {include}, which only {', '.join(folders)} may"
        if include.startswith(("gtest/", "gmock/")) and not is_test and not under(path, "tests"):
            yield f"{path}: includes {include} outside a test"
        other = folder_of(include)
        if quote == "<" and other is not None:
            yield f"{path}: includes <{include}>; the project's own headers stand in quotes"
        if own is None or RULES[own] is None or other is None or other == own:
            continue
        if other not in RULES[own]:
            yield f"{path}: includes {include}, but {own} may see only {', '.join(RULES[own])}"


def check_names(path, text):
    # A folder called base is in the design; a file named after its folder is named by it.
    parts = pathlib.PurePath(path)
    stem = parts.name.split(".")[0]
    words = [w for w in stem.split("_") if w != parts.parent.name]
    for word in bad_words(words):
        yield f"{path}: '{word}' in a file's name says nothing"
    if parts.suffix in SOURCES:
        for name in TYPE.findall(text):
            for word in bad_words(CAMEL.findall(name)):
                yield f"{path}: '{word}' in the type's name {name} says nothing"


def source_files(root):
    for folder, folders, files in os.walk(root):
        relative = os.path.relpath(folder, root)
        folders[:] = sorted(
            f
            for f in folders
            if not f.startswith((".", "bazel-"))
            and f not in ("__pycache__", "third_party")
            and not os.path.islink(os.path.join(folder, f))
        )
        for name in sorted(files):
            if pathlib.PurePath(name).suffix in COUNTED:
                yield os.path.normpath(os.path.join(relative, name))


def check_tree(root):
    """Every breach in the tree, one line each, and the number of files looked at."""
    found, count, defined = [], 0, {}
    for path in source_files(root):
        text = (pathlib.Path(root) / path).read_text(encoding="utf-8")
        count += 1
        if pathlib.PurePath(path).suffix in SOURCES:
            found += check_includes(path, text)
            if folder_of(path) is None:
                found.append(f"{path}: lies in no folder of the house")
        found += check_names(path, text)
        if pathlib.PurePath(path).suffix == ".h":
            for name in DEFINITION.findall(text):
                if defined.setdefault(name, path) != path:
                    found.append(f"{path}: {name} is defined in {defined[name]} too")
        lines = text.count("\n")
        if lines > MOST_LINES and path not in LONG_TABLES:
            found.append(f"{path}: {lines} lines; more than {MOST_LINES} want splitting")
    return found, count


class TheTree(unittest.TestCase):
    def test_keeps_the_rules(self):
        root = pathlib.Path("WORKSPACE").resolve().parent
        found, count = check_tree(root)
        self.assertGreater(count, 50, f"the source tree is not at {root}")
        self.assertEqual(found, [], "\n" + "\n".join(found))


class SeededFaults(unittest.TestCase):
    def breaches(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                where = pathlib.Path(root, path)
                where.parent.mkdir(parents=True, exist_ok=True)
                where.write_text(text, encoding="utf-8")
            return check_tree(root)[0]

    def expect(self, path, text, *parts):
        found = self.breaches({path: text})
        self.assertEqual(len(found), 1, found)
        for part in (path,) + parts:
            self.assertIn(part, found[0])

    def test_what_is_allowed(self):
        allowed = {
            "graph/base/base_test.cc": '#include <gtest/gtest.h>\n#include "graph/base/shape.h"\n',
            "graph/onnx/import.cc": '#include "onnx/checker.h"\n#include "graph/ir/graph.h"\n',
            "graph/plan/plan.cc": '#include "graph/onnx/text.h"\n#include "graph/passes/x.h"\n',
            "strategy/mirrored.cc": '#include "graph/plan/plan.h"\n',
            "kernels/onednn/conv.cc": '#include <dnnl.hpp>\n#include "kernels/kernel.h"\n',
            "backend/training/trainer.cc": '#include "backend/data/loader.h"\n',
            "tests/all_test.cc": '#include "backend/onward.h"\n#include "kernels/kernel.h"\n',
            "tools/onward/main.cc": "struct Information {};\nclass Database;\nint info_count;\n",
            "third_party/x/util.h": "struct Util {};\n",
            "bazel-out/graph/base/a.cc": '#include "backend/onward.h"\n',
        }
        self.assertEqual(self.breaches(allowed), [])

    def test_folders_point_upwards(self):
        for path, include in [
            ("graph/base/shape.cc", "graph/ir/graph.h"),
            ("graph/ir/graph.h", "graph/onnx/import.h"),
            ("graph/onnx/import.cc", "graph/ops/operators.h"),
            ("graph/ops/conv.cc", "graph/passes/autodiff.h"),
            ("graph/ops/conv.cc", "kernels/kernel.h"),
            ("graph/passes/fold.cc", "graph/plan/plan.h"),
            ("graph/passes/fold_test.cc", "backend/runtime/interpreter.h"),
            ("graph/plan/plan.cc", "strategy/mirrored.h"),
            ("strategy/mirrored.cc", "kernels/kernel.h"),
            ("strategy/mirrored.cc", "backend/runtime/device.h"),
            ("kernels/cpu/add.cc", "graph/ir/graph.h"),
            ("kernels/cpu/add.cc", "backend/runtime/device.h"),
            ("backend/runtime/executor.cc", "backend/training/trainer.h"),
            ("backend/data/loader.cc", "backend/training/config.h"),
            ("backend/training/trainer.cc", "tools/onward/commands.h"),
        ]:
            with self.subTest(path=path, include=include):
                self.expect(path, f'#include "{include}"\n', include, "may see only")

    def test_libraries_stay_in_their_folder(self):
        for path, include in [
            ("graph/ops/conv.cc", "onnx/defs/schema.h"),
            ("backend/runtime/executor.cc", "onnx/onnx_pb.h"),
            ("kernels/cpu/conv.cc", "dnnl.hpp"),
            ("kernels/cpu/conv.cc", "cudnn.h"),
            ("strategy/mirrored.cc", "gloo/context.h"),
            ("backend/training/config.cc", "yaml-cpp/yaml.h"),
            ("graph/plan/plan.cc", "nlohmann/json.hpp"),
        ]:
            with self.subTest(path=path, include=include):
                self.expect(path, f"  #  include <{include}>\n", include, "which only")

    def test_tests_only(self):
        self.expect("backend/data/npy.cc", "#include <gtest/gtest.h>\n", "outside a test")

    def test_own_headers_in_quotes(self):
        self.expect("graph/ir/graph.cc", "#include <graph/base/shape.h>\n", "in quotes")

    def test_no_file_outside_the_house(self):
        self.expect("attic/old.cc", "int x;\n", "no folder of the house")

    def test_one_definition(self):
        found = self.breaches(
            {
                "backend/runtime/a.h": "template <typename T>\nclass Progress final : public B {\n",
                "backend/training/b.h": "struct Progress {\n  struct Row {\n",
                "backend/training/c.h": "class Progress;\nstruct Other {\n  struct Row {\n",
                "backend/training/c.cc": "struct Progress {\n",
            }
        )
        self.assertEqual(
            found, ["backend/training/b.h: Progress is defined in backend/runtime/a.h too"]
        )

    def test_length(self):
        self.expect("graph/ir/graph.cc", "\n" * 801, "801 lines")
        self.assertEqual(self.breaches({"graph/ir/graph.cc": "\n" * 800}), [])

    def test_names_of_types(self):
        for text in [
            "class DeviceManager {\n",
            "struct [[nodiscard]] StringUtils;\n",
            "enum class TypeInfo { k };\n",
            "template <typename T>\nclass ExecutorImpl {};\n",
            "using PassBase = int;\n",
            "  struct Helper {};\n",
        ]:
            with self.subTest(text=text):
                self.expect("graph/ir/graph.h", text, "type's name")

    def test_names_of_files(self):
        for name in ["string_util.h", "graph_utils.cc", "helpers.py", "info.cc", "kernel_base.h"]:
            with self.subTest(name=name):
                self.expect(f"graph/ir/{name}", "", "file's name")


if __name__ == "__main__":
    unittest.main()
