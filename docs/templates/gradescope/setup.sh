#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Operator Labs authors
#
# Gradescope runs this once, as root, when it builds the image of the autograder. The archive that you upload has, besides this
# file and run_autograder: the folder operator-labs (a checkout), and Go's own archive for Linux.
set -euo pipefail

apt-get update
apt-get install -y --no-install-recommends ca-certificates git make
rm -rf /var/lib/apt/lists/*
tar -C /usr/local -xzf /autograder/source/go[0-9]*.linux-*.tar.gz

# Submissions run as a user who may write neither here nor into /autograder.
useradd --create-home grader
mv /autograder/source/operator-labs /home/grader/operator-labs
chown -R grader: /home/grader

# All that a run needs is built now. A solution with less than full marks ends this: such an image must grade nobody.
source /autograder/source/lab.conf
runuser -u grader -- env PATH="/usr/local/go/bin:$PATH" HOME=/home/grader \
  sh -c 'cd ~/operator-labs && make .cache/bin/lab && .cache/bin/lab grade "$1" --solution' sh "$LAB"
