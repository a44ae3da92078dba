"""Every outside dependency of Onward, in one place.

A workspace of your own that links //backend:onward calls onward_dependencies()
too (see examples/ in the README). Nothing here holds a URL: libraries come from
Debian's packages (tools/setup installs them) or from PyPI by pinned hash.
"""

load("//third_party/bazel:cuda_configure.bzl", "cuda_configure")
load("//third_party/bazel:debian_bazel.bzl", "debian_bazel_shims")
load("//third_party/bazel:pip_archive.bzl", "pip_archive")
load("//third_party/bazel:python_configure.bzl", "python_configure")
load("//third_party/bazel:system_protobuf.bzl", "system_protobuf")

def onward_dependencies():
    """Defines the repositories that Onward builds against."""
    debian_bazel_shims()

    pip_archive(
        name = "onnx",
        build_file = "@onward//third_party:onnx.BUILD",
        requirements = {"onnx==1.23.2": "008cb0467b2bbee41448acc7da8b6f4e704624cb0d327a2d5adafc7ce19bc5b8"},
        sdist_backend = "scikit_build_core.build",
        strip_prefix = "onnx-1.23.2",
    )

    # oneDNN 3.2.0 with the OpenMP runtime of GCC: the newest one on PyPI that
    # needs no SYCL runtime.
    pip_archive(
        name = "onednn",
        build_file = "@onward//third_party:onednn.BUILD",
        requirements = {
            "onednn-cpu-gomp==2023.2.0": "2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb",
            "onednn-devel-cpu-gomp==2023.2.0": "9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284",
        },
    )

    # For tests alone, in Python 3.11: fetched when one of them is built.
    pip_archive(
        name = "onnxruntime",
        build_file = "@onward//third_party:onnxruntime.BUILD",
        requirements = {
            "numpy==2.4.6": "89cd468399cfd2504718f0ba50e410dca55a170b61a02ad92bb18c8a65186e93",
            "onnxruntime==1.32.0": "5a34fc4dfeb5a7b4a74c95dcba1e773d722abda720b474edf1b0c419dc6d163d",
        },
    )

    cuda_configure(name = "local_cuda")
    python_configure(name = "local_python")
    system_protobuf(name = "com_google_protobuf")
