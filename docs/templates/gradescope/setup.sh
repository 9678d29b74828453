#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Operator Labs authors
#
# Gradescope runs this once, as root, when it builds the image of the autograder. The archive that you upload has, besides
# the files beside this one: operator-labs, a checkout, and Go's own archive for Linux.
set -euo pipefail
autograder=${AUTOGRADER:-/autograder}
home=${GRADER_HOME:-/home/grader}
# shellcheck source=/dev/null
source "$autograder/source/lab.conf"

apt-get update
apt-get install -y --no-install-recommends ca-certificates git make
tar -C /usr/local -xzf "$autograder"/source/go[0-9]*.linux-*.tar.gz

# Submissions run as a user who may write neither here nor in Gradescope's folders.
useradd --create-home --home-dir "$home" grader
mv "$autograder/source/operator-labs" "$home/operator-labs"
chown -R grader: "$home"

# All that a run needs is built now. A solution with less than full marks ends this: such an image must grade nobody.
if ! runuser -u grader -- env HOME="$home" PATH="/usr/local/go/bin:$PATH" sh -c '
  cd ~/operator-labs && make .cache/bin/lab && .cache/bin/lab grade "$1" --solution
' sh "$LAB"; then
  echo "Lab $LAB can't be graded in this container: the course's own solution has not had full marks, for the reason above." >&2
  echo "docs/guides/classrooms.md has a table of the labs that can be graded in a container." >&2
  exit 1
fi
