"""Counts the test cases of one `bazel test`, from Bazel's own record of it.

    count_tests.py BUILD_EVENTS.json BAZEL_EXIT_CODE

The record (--build_event_json_file) names every test and its test.xml; a case
is a gtest case there, or the whole test where its runner writes none. A test
that Bazel did not build, that timed out or whose process died counts as failed
even if its cases do not show it. Prints the names of what failed on stderr and
"PASSED FAILED SKIPPED" on stdout.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


def count_cases(path):
    """(passed, failed, skipped) of one test.xml; None where it cannot be read."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    passed = failed = skipped = 0
    for case in root.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif (
            case.find("skipped") is not None
            or case.get("result") in ("skipped", "suppressed")
            or case.get("status") == "notrun"
        ):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main(events_path, bazel_exit_code):
    results = {}  # (label, run, shard) -> (attempt, status, path of test.xml)
    expected = set()
    failed_labels = set()
    complete = False
    with open(events_path, encoding="utf-8") as events:
        for line in events:
            event = json.loads(line)
            identity = event.get("id", {})
            if "testResult" in event:
                key = identity["testResult"]
                result = event["testResult"]
                xml = [
                    urllib.parse.unquote(urllib.parse.urlparse(output.get("uri", "")).path)
                    for output in result.get("testActionOutput", [])
                    if output["name"] == "test.xml"
                ]
                where = (key["label"], key.get("run", 1), key.get("shard", 1))
                attempt = key.get("attempt", 1)
                if where not in results or results[where][0] <= attempt:
                    results[where] = (attempt, result["status"], xml[0] if xml else "")
            elif "targetConfigured" in identity and "configured" in event:
                if event["configured"].get("testSize"):
                    expected.add(identity["targetConfigured"]["label"])
            elif "targetCompleted" in identity and not event.get("completed", {}).get("success"):
                failed_labels.add(identity["targetCompleted"]["label"])
            elif "testSummary" in event:
                if event["testSummary"]["overallStatus"] not in ("PASSED", "FLAKY"):
                    failed_labels.add(identity["testSummary"]["label"])
            if event.get("lastMessage"):
                complete = True

    passed = failed = skipped = 0
    seen_failing = set()
    for (label, _, _), (_, status, xml) in sorted(results.items()):
        cases = count_cases(xml)
        ok = status in ("PASSED", "FLAKY")
        if cases is None:
            cases = (1, 0, 0) if ok else (0, 1, 0)
        if not ok and cases[1] == 0:
            cases = (cases[0], 1, cases[2])
        passed, failed, skipped = (a + b for a, b in zip((passed, failed, skipped), cases))
        if cases[1]:
            seen_failing.add(label)

    # What was to be tested but never ran, and what did not build.
    never_ran = (expected - {label for label, _, _ in results}) | (failed_labels - seen_failing)
    failed += len(never_ran)
    for label in sorted(seen_failing | never_ran):
        print("failed: " + label, file=sys.stderr)
    if failed == 0 and (bazel_exit_code != 0 or not complete):
        print("failed: bazel itself, exit code %d" % bazel_exit_code, file=sys.stderr)
        failed = 1
    if passed + failed == 0:
        print("failed: no test ran", file=sys.stderr)
        failed = 1
    print(passed, failed, skipped)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
