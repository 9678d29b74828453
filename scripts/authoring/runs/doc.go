// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package runs keeps the recorded runs in docs/runs, which readers view and replay. Each lab has three recordings: the
// skeleton, a typical mistake and the solution. The package writes the submissions to record, compares the recordings
// with mutants.yaml and labs.yaml, and writes their index. The lab command grades the submissions, as a user would.
package runs
