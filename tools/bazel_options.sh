# Sourced by the scripts of tools/: sets BAZEL_OPTIONS, the options of this
# machine, for `bazel build` and `bazel test`.
#
# A build cache outside the clone serves several clones. It is used where
# ONWARD_BAZEL_CACHE names one or ~/.cache/onward-bazel exists, and is never
# needed. Bazel's keys do not cover the system's headers and libraries, so each
# set of package versions has a folder of its own in it.
BAZEL_OPTIONS=()
cache=${ONWARD_BAZEL_CACHE:-}
if [[ -z $cache && -n ${HOME:-} && -d $HOME/.cache/onward-bazel ]]; then
  cache=$HOME/.cache/onward-bazel
fi
if [[ -n $cache ]]; then
  versions=$(dpkg-query -W $(tools/setup --list) g++-12 libc6-dev 2>/dev/null | sha256sum | cut -c1-16)
  BAZEL_OPTIONS+=("--disk_cache=$cache/$versions")
fi
unset cache versions
