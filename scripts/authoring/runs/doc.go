// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package runs keeps the recorded runs in docs/runs, which readers look at and replay: of each lab the skeleton, a
// typical mistake and the solution. It lays out what is recorded, compares the recordings with mutants.yaml and
// labs.yaml, and writes their index. It grades nothing.
package runs
