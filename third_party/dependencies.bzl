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

    # oneDNN 3.2.0, the newest one on PyPI that needs no SYCL runtime. It is built for
    # the OpenMP runtime of GCC, but its calls come to kernels/onednn/openmp_calls.cc.
    pip_archive(
        name = "onednn",
        build_file = "@onward//third_party:onednn.BUILD",
        renamed_calls = {
            "onednn_cpu_gomp-2023.2.0.data/data/lib/libdnnl.so.3": [
                "GOMP_=ONWD_",
                "omp_=onw_",
            ],
        },
        requirements = {
            "onednn-cpu-gomp==2023.2.0": "2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb",
            "onednn-devel-cpu-gomp==2023.2.0": "9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284",
        },
    )

    # The next two are for tests alone, in Python 3.11: fetched when one of them is built.
    pip_archive(
        name = "onnxruntime",
        build_file = "@onward//third_party:onnxruntime.BUILD",
        requirements = {
            "numpy==2.4.6": "89cd468399cfd2504718f0ba50e410dca55a170b61a02ad92bb18c8a65186e93",
            "onnxruntime==1.32.0": "5a34fc4dfeb5a7b4a74c95dcba1e773d722abda720b474edf1b0c419dc6d163d",
        },
    )

    # Keras on JAX, the lightest of its backends that computes convolutions.
    pip_archive(
        name = "keras",
        build_file = "@onward//third_party:keras.BUILD",
        requirements = {
            "absl-py==2.5.1": "721200f2f0e9960f2ca9dc3a2a706b201f5f75d812c158f059cbbe29eeafbdb8",
            "h5py==3.16.0": "fb1720028d99040792bb2fb31facb8da44a6f29df7697e0b84f0d79aff2e9bd3",
            "jax==0.10.2": "724d73c4678d8b06f6a6ab4db1b8a2fea8cd4f1e2c2564f99601634ec7b8d1c6",
            "jaxlib==0.10.2": "1faca3c5d4662cb4a6130a68105d68bb520764817e165d6eebfd6786c0d1f30f",
            "keras==3.15.1": "836460e480930acbd19bb7a17e62f9ecad40e8a9af9a651fc8d0586a96d27e20",
            "markdown-it-py==4.3.0": "7aa1511a46c39138de78d9eba92ce47e63124d8003fc98b3a351909e04239efa",
            "mdurl==0.1.2": "84008a41e51615a49fc9966191ff91509e3c40b939176e643fd50a5c2196b8f8",
            "ml-dtypes==0.6.0": "6c8e39b53e90afda8ce52859c93de4dba3e02b76d85dcf091cc469f9184c6dae",
            "namex==0.1.0": "e2012a474502f1e2251267062aae3114611f07df4224b6e06334c57b0f2ce87c",
            "onnx==1.23.2": "c03ecf6b835d136108eeaeeafbd0026fc7b3cf98661409fbc6b63d5a29361348",
            "opt-einsum==3.4.0": "69bb92469f86a1565195ece4ac0323943e83477171b91d24c35afe028a90d7cd",
            "optree==0.20.0": "cd49b5a6066ebb027b37afa19f02d77e33067f33b0d5b7602b537e6892789d00",
            "packaging==26.4": "81383611a09c1bc0b08b76e0fd5829d7c6824c65b27a6aee339da133f4233ea2",
            "protobuf==7.36.2": "89f23aa53c24553a2416fd4fd1ec06f74fa42b14b546d8883128813f775bbfd2",
            "pygments==2.21.0": "2363c69b61c4a97c838da3b130dcd6468f4848992b21a82f2a63ec34377137d9",
            "rich==15.0.0": "33bd4ef74232fb73fe9279a257718407f169c09b78a87ad3d296f548e27de0bb",
            "scipy==1.17.1": "43af8d1f3bea642559019edfe64e9b11192a8978efbd1539d7bc2aaa23d92de4",
            "typing-extensions==4.16.0": "481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8",
        },
    )

    cuda_configure(name = "local_cuda")
    python_configure(name = "local_python")
    system_protobuf(name = "com_google_protobuf")
