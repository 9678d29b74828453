// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package manifest reads labs/labs.yaml, the one list of labs and checks, and answers what it says about a lab or a
// check; it neither runs a check nor knows what a check does.
//
// Load refuses a list that labs/labs.schema.json does not allow, or that contradicts itself. CheckLinks follows the
// links into the lectures; that is for `make verify`, so that an unfinished lecture does not keep anyone from grading.
package manifest
