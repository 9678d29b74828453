# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Operator Labs authors
"""Grades a submission with Operator Labs, as an autograder of Classroom 50.

Copy it to CLASSROOM/autograders/ASSIGNMENT/autograder.py of your classroom50 repository, change the constants, and give
the assignment the runtime {"go": "1.26"}. The runner starts it in the student's checkout and reads result.json there.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import uuid

# The number of the lab, and the folder of the student's repository in which its module is found.
LAB = "2"
FOLDER = "."
# Your copy of Operator Labs, and a commit of it: what grades must not change while students work.
REPOSITORY = "https://github.com/YOUR-ORGANIZATION/operator-labs"
COMMIT = "main"

# What Classroom 50 reads in the student's checkout.
RESULTS = RESULT, BODY = "result.json", "release-body.md"


def run(*command: str, cwd: pathlib.Path | None = None, check: bool = True) -> int:
    return subprocess.run(command, cwd=cwd, check=check).returncode


def remove_results() -> None:
    """Moves what is in place of the results aside: the student, or the submission that ran here, may have left anything there."""
    os.chmod(".", 0o755)
    for name in RESULTS:
        if os.path.lexists(name):
            os.rename(name, f".{name}.{uuid.uuid4()}")


def harness() -> pathlib.Path:
    """Returns a checkout of Operator Labs in which the lab command is built."""
    root = pathlib.Path(os.environ.get("OPERATOR_LABS", ""))
    if not os.environ.get("OPERATOR_LABS"):
        root = pathlib.Path(os.environ["RUNNER_TEMP"]) / "operator-labs"
        run("git", "init", "--quiet", str(root))
        run("git", "fetch", "--quiet", "--depth", "1", REPOSITORY, COMMIT, cwd=root)
        run("git", "checkout", "--quiet", "FETCH_HEAD", cwd=root)
    run("make", ".cache/bin/lab", cwd=root)
    return root


def allow_namespaces() -> None:
    """Lets ordinary users make namespaces, for the labs that run Pods: Ubuntu forbids that since 24.04. Raises inotify's low limits, too."""
    if os.environ.get("RUNNER_ENVIRONMENT") == "github-hosted" and shutil.which("sudo"):
        inotify = "fs.inotify.max_user_instances=1024", "fs.inotify.max_user_watches=524288"
        run("sudo", "-n", "sysctl", "-q", "-e", "-w", "kernel.apparmor_restrict_unprivileged_userns=0", *inotify, check=False)


def main() -> int:
    allow_namespaces()
    lab = str(harness() / ".cache" / "bin" / "lab")
    # What can't give the course's own solution full marks on this machine grades nobody.
    if run(lab, "grade", LAB, "--solution", check=False) != 0:
        print(f"Lab {LAB} is not graded: the course's own solution has not had full marks on this machine.", file=sys.stderr)
        return 1
    remove_results()
    try:
        return grade(lab)
    except (OSError, subprocess.CalledProcessError) as problem:
        print(f"There is no result: {problem}", file=sys.stderr)
    # Without a result, a file in its place is not ours.
    remove_results()
    return 1


def grade(lab: str) -> int:
    """Grades the submission, and writes its results. If the run has failed, it raises an error."""
    # If there is no module in the folder, or several fit, the report of the folder says so.
    found = subprocess.run([lab, "find", LAB, FOLDER, "--report"], stdout=subprocess.PIPE, check=False)
    folder = os.fsdecode(found.stdout.removesuffix(b"\n")) if found.returncode == 0 else FOLDER
    if found.returncode == 0:
        # 0 and 1 are verdicts. With any other exit code the run has failed or was killed, and a report that is there is not that of the run.
        graded = subprocess.run([lab, "grade", LAB, "--dir", folder, "--fetch", "--sandbox=required"], check=False)
        if graded.returncode not in (0, 1):
            graded.check_returncode()
    report = json.loads(subprocess.check_output([lab, "report", LAB, "--dir", folder, "--format", "json"]))
    remove_results()
    run(lab, "report", LAB, "--dir", folder, "--format", "classroom50", "-o", RESULT)
    with open(BODY, "x", encoding="utf-8") as body:
        subprocess.run([lab, "report", LAB, "--dir", folder, "--format", "markdown"], stdout=body, check=True)
    # Not 0 says that grading failed, and nothing of the submission.
    return 1 if report["outcome"] in ("error", "interrupted", "unfinished") else 0


if __name__ == "__main__":
    sys.exit(main())
