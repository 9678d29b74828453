// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package parts splits what takes CI long into five parts, one of which each run proves:
// docs/decisions/0030-ci-in-five-parts.md. It does not choose the part of a run; .ci/run does.
package parts

import (
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"strconv"
	"strings"
)

// Parts is how many runs prove everything once.
const Parts = 5

// Of is the part, from 1 to Parts, of what has this name. It depends on nothing else, so that a new name moves no
// other.
func Of(name string) int {
	sum := fnv.New32a()
	_, _ = io.WriteString(sum, name) // it never fails
	return int(sum.Sum32()%Parts) + 1
}

// OfPlace is the part, from 1 to Parts, of what is at a place in a list, from 0.
func OfPlace(i int) int { return i%Parts + 1 }

// Check returns an error unless a part, as the flag --part gives it, is one. 0 is everything.
func Check(part int) error {
	if part < 0 || part > Parts {
		return fmt.Errorf("--part %d: there are parts 1 to %d", part, Parts)
	}
	return nil
}

// Variable and LeftOutVariable are the variables of the environment by which tests learn which part they prove, and the
// file into which they write what they leave out. Without them they prove everything.
const (
	Variable        = "OPERATOR_LABS_PART"
	LeftOutVariable = "OPERATOR_LABS_LEFT_OUT"
)

// Rows are the rows of a test's table that are of this run's part; a row's name is its part of the test's name. It is
// for tests whose rows are whole gradings.
func Rows[Row any](test interface {
	Name() string
	Fatalf(format string, args ...any)
}, rows []Row, name func(Row) string,
) []Row {
	part, err := strconv.Atoi(os.Getenv(Variable))
	if err != nil || part == 0 {
		return rows
	}
	var kept []Row
	var left []string
	for _, row := range rows {
		if Of(test.Name()+"/"+name(row)) == part {
			kept = append(kept, row)
		} else {
			left = append(left, name(row))
		}
	}
	if err := leaveOut(fmt.Sprintf("%s: %d of %d, of other parts: %s\n", test.Name(), len(left), len(rows), strings.Join(left, ", "))); err != nil {
		test.Fatalf("noting what is left out: %v", err)
	}
	return kept
}

func leaveOut(line string) error {
	file, err := os.OpenFile(os.Getenv(LeftOutVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line)
	if closing := file.Close(); err == nil {
		err = closing
	}
	return err
}
