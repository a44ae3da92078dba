"""The programs that are compared: Onward, and each peer with its interpreter and its script."""
import dataclasses
import os
import shutil
import subprocess
import sys
from typing import Dict, List, Optional, Sequence, Tuple

import works

HERE = os.path.dirname(os.path.abspath(__file__))
ONWARD = "onward"


@dataclasses.dataclass(frozen=True)
class Package:
    """What a peer needs in its interpreter. One of `distributions` must be there."""
    distributions: Tuple[str, ...]
    install: str


PACKAGES: Dict[str, Package] = {
    "pytorch": Package(("torch",), "pip install torch numpy"),
    "keras": Package(("tensorflow-cpu", "tensorflow"), "pip install keras tensorflow-cpu"),
    "jax": Package(("jax",), "pip install jax numpy"),
    "ort": Package(("onnxruntime-training-cpu", "onnxruntime-training"),
                   'pip install onnxruntime-training-cpu==1.19.2 onnx==1.16.2 "numpy<2" protobuf, '
                   "with Python 3.8 to 3.11"),
}

# name -> (package, script, its own flags)
PEERS: Dict[str, Tuple[str, str, Tuple[str, ...]]] = {
    "pytorch": ("pytorch", "pytorch_peer.py", ()),
    "pytorch-compile": ("pytorch", "pytorch_peer.py", ("--compile",)),
    "keras": ("keras", "keras_peer.py", ()),
    "jax": ("jax", "jax_peer.py", ()),
    "ort": ("ort", "ort_peer.py", ()),
}

VARIABLE = "ONWARD_BENCHMARK_PYTHON"

_PROBE = """
import sys
from importlib.metadata import PackageNotFoundError, version
for name in sys.argv[1:]:
    try:
        print(name, version(name))
    except PackageNotFoundError:
        pass
"""


@dataclasses.dataclass(frozen=True)
class Files:
    """Of one work: model, data, and data to validate on."""
    model: str
    data: Tuple[str, str]
    validation: Optional[Tuple[str, str]] = None


def onward_command(binary: str, work: works.Work, files: Files, threads: int, replicas: int = 1,
                   more: Sequence[str] = ()) -> List[str]:
    command = [binary, "train", files.model, "--data", files.data[0], "--labels", files.data[1],
               "--rescale", "1/255", "--batch-size", str(work.batch), "--threads", str(threads),
               "--devices", ",".join(f"cpu:{i}" for i in range(replicas)), *work.flags, "--json"]
    if files.validation:
        command += ["--validation-data", files.validation[0], "--validation-labels",
                    files.validation[1], "--metrics", "accuracy"]
    return [*command, *more]


def peer_command(python: str, peer: str, work: works.Work, files: Files, threads: int,
                 more: Sequence[str] = ()) -> List[str]:
    _, script, flags = PEERS[peer]
    command = [python, os.path.join(HERE, "peers", script), "--work", work.name, "--model",
               files.model, "--data", files.data[0], "--labels", files.data[1], "--batch-size",
               str(work.batch), "--threads", str(threads), *flags]
    if files.validation:
        command += ["--validation-data", files.validation[0], "--validation-labels",
                    files.validation[1]]
    return [*command, *more]


# ---- Finding them --------------------------------------------------------------------------------

def find_onward(given: Optional[str]) -> Optional[str]:
    """The binary that was named, or this checkout's, or the one on PATH; None: there is none."""
    if given:
        return given if os.access(given, os.X_OK) else None
    built = os.path.join(works.ROOT, "bazel-bin", "tools", "onward", "onward")
    return os.path.abspath(built) if os.access(built, os.X_OK) else shutil.which("onward")


def parse_pythons(texts: Sequence[str]) -> List[Tuple[str, str]]:
    """PEER=PATH or PATH, several with commas, to (package or "", path). Raises ValueError."""
    out = []
    for part in (p.strip() for text in texts for p in text.split(",")):
        name, equals, path = part.partition("=")
        if not equals:
            name, path = "", part
        package = PEERS[name][0] if name in PEERS else name
        if package and package not in PACKAGES:
            raise ValueError(f"'{name}' is no peer; there are {', '.join(PACKAGES)}")
        if not path or not shutil.which(path):
            raise ValueError(f"'{path}' is no program that can be run")
        out.append((package, shutil.which(path)))
    return out


def _versions(python: str, package: Package) -> str:
    """"torch 2.15.0", or "" where it is not there."""
    try:
        done = subprocess.run([python, "-c", _PROBE, *package.distributions], timeout=60,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ", ".join(done.stdout.split("\n")[:-1]) if done.returncode == 0 else ""


def find_pythons(named: Sequence[Tuple[str, str]],
                 packages: Sequence[str]) -> Dict[str, Tuple[str, str]]:
    """package -> (interpreter, versions), for those that are installed. Looked for, in this order:
    interpreters named for the package, interpreters named for all, this one, python3 on PATH."""
    found = {}
    everywhere = [path for package, path in named if not package]
    everywhere += [p for p in (sys.executable, shutil.which("python3")) if p]
    for package in packages:
        own = [path for name, path in named if name == package]
        for python in dict.fromkeys(own + everywhere):
            versions = _versions(python, PACKAGES[package])
            if versions:
                found[package] = (python, versions)
                break
    return found
