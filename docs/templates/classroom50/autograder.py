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

# The number of the lab, and the folder of its module in the student's repository.
LAB = "2"
FOLDER = "."
# Your copy of Operator Labs, and a commit of it: what grades must not change while students work.
REPOSITORY = "https://github.com/YOUR-ORGANIZATION/operator-labs"
COMMIT = "main"


def run(*command: str, cwd: pathlib.Path | None = None, check: bool = True) -> int:
    return subprocess.run(command, cwd=cwd, check=check).returncode


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
    """Lets ordinary users make namespaces, for the labs that run Pods. Ubuntu forbids that since 24.04."""
    if os.environ.get("RUNNER_ENVIRONMENT") == "github-hosted" and shutil.which("sudo"):
        settings = "kernel.apparmor_restrict_unprivileged_userns=0", "fs.inotify.max_user_instances=1024"
        run("sudo", "-n", "sysctl", "-q", "-e", "-w", *settings, check=False)


def main() -> int:
    allow_namespaces()
    lab = str(harness() / ".cache" / "bin" / "lab")
    # What can't give the course's own solution full marks on this machine grades nobody.
    if run(lab, "grade", LAB, "--solution", check=False) != 0:
        print(f"Lab {LAB} is not graded: the course's own solution has not had full marks on this machine.", file=sys.stderr)
        return 1
    # Whatever the verdict is, it is in the report.
    run(lab, "grade", LAB, "--dir", FOLDER, "--fetch", check=False)
    run(lab, "report", LAB, "--dir", FOLDER, "--format", "classroom50", "-o", "result.json")
    with open("release-body.md", "w", encoding="utf-8") as body:
        subprocess.run([lab, "report", LAB, "--dir", FOLDER, "--format", "markdown"], stdout=body, check=True)
    report = json.loads(subprocess.check_output([lab, "report", LAB, "--dir", FOLDER, "--format", "json"]))
    # Not 0 says that grading failed, and nothing of the submission.
    return 1 if report["outcome"] in ("error", "interrupted") else 0


if __name__ == "__main__":
    sys.exit(main())
