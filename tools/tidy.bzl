"""The aspect behind `tools/lint tidy`: clang-tidy on every source file.

    bazel build --aspects=//tools:tidy.bzl%tidy --output_groups=tidy //...

Bazel remembers which files passed, so only what changed is looked at again. Tests
are left out: the headers of their library would cost more time than all else.
"""

# $1 report, $2 configuration, $3 source, then the compiler's flags. clang-tidy
# counts what it suppressed on stderr for every file: shown only if it failed.
_COMMAND = """
report=$1 config=$2 source=$3
shift 3
clang-tidy --quiet --config-file=$config $source -- "$@" >$report 2>$report.err && exit 0
sed "s|$PWD/||g" $report
grep -v ' generated.$' $report.err
exit 1
"""

def _flags(context, copts):
    # clang 14 has no _Float16 for plain x86-64; what is looked at here is style.
    flags = ["-std=c++17", "-Wno-everything", "-D_Float16=__fp16"]
    flags += ["-Xclang", "-fallow-half-arguments-and-returns", "-iquote", "."]
    for path in context.quote_includes.to_list():
        flags += ["-iquote", path]
    for path in context.includes.to_list():
        flags += ["-I", path]
    for path in context.system_includes.to_list():
        flags += ["-isystem", path]
    for define in context.defines.to_list() + context.local_defines.to_list():
        flags.append("-D" + define)
    return flags + [c for c in copts if c[:2] in ("-D", "-I")]

def _tidy_impl(target, ctx):
    rule = ctx.rule.attr
    if target.label.workspace_name or not hasattr(rule, "srcs") or getattr(rule, "testonly", False):
        return []
    if ctx.rule.kind not in ("cc_library", "cc_binary"):
        return []
    infos = [d[CcInfo] for d in getattr(rule, "deps", []) if CcInfo in d]
    if CcInfo in target:
        infos.append(target[CcInfo])
    context = cc_common.merge_cc_infos(cc_infos = infos).compilation_context
    reports = []
    for source in [f for s in rule.srcs for f in s.files.to_list()]:
        if not source.is_source or source.extension != "cc" or source.path.startswith("external/"):
            continue
        report = ctx.actions.declare_file("%s.%s.tidy" % (target.label.name, source.basename))
        flags = _flags(context, getattr(rule, "copts", []))
        private = [f for s in rule.srcs for f in s.files.to_list() if f.extension == "h"]
        ctx.actions.run_shell(
            inputs = depset([source, ctx.file._config] + private, transitive = [context.headers]),
            outputs = [report],
            command = _COMMAND,
            arguments = [report.path, ctx.file._config.path, source.path] + flags,
            mnemonic = "ClangTidy",
            progress_message = "Checking the style of %s" % source.short_path,
            use_default_shell_env = True,
        )
        reports.append(report)
    return [OutputGroupInfo(tidy = depset(reports))]

tidy = aspect(
    implementation = _tidy_impl,
    attrs = {"_config": attr.label(default = "//:.clang-tidy", allow_single_file = True)},
)
