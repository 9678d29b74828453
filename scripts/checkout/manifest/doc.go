// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package manifest reads labs/labs.yaml, the only list of labs and checks, and looks up labs and checks in it. It
// neither runs a check nor knows what a check does.
//
// Load refuses a list that labs/labs.schema.json does not allow, or that contradicts itself. CheckLinks follows the
// links into the lectures. Only `make verify` calls it, so that an unfinished lecture does not prevent grading.
package manifest
