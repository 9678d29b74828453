// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command doctor checks whether a machine can grade the labs, and says how to fix what it lacks. A student runs it
// first, before anything is compiled, so it imports few packages. It uses the same code as the commands that later
// refuse to run on such a machine.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == probeArgument {
		os.Exit(probed())
	}
	format := flag.String("format", "text", "text or json")
	flag.Parse()
	if err := run(*format, os.Stdout); err != nil {
		if !errors.Is(err, errCannotGrade) {
			fmt.Fprintf(os.Stderr, "doctor: %v\n", err)
		}
		os.Exit(1)
	}
}

// errCannotGrade reports that some lab can't be graded here. The finding is printed already.
var errCannotGrade = errors.New("a lab can't be graded on this machine")

// run examines the machine, from the root of a checkout.
func run(format string, out io.Writer) error {
	if format != "text" && format != "json" {
		return fmt.Errorf("--format is text or json, and not %q: correct it", format)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := os.Stat("go.work"); err != nil {
		return errors.New("there is no go.work here: run `make doctor` in the root of the checkout")
	}
	findings := examine(root)
	if format == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(findings); err != nil {
			return err
		}
	} else {
		write(out, findings)
	}
	for _, f := range findings {
		if f.State == Bad {
			return errCannotGrade
		}
	}
	return nil
}

// State is the meaning of a finding.
type State string

// The states.
const (
	// Good means that nothing needs to be done.
	Good State = "ok"
	// Note means that everything can be graded, and that there is something to know.
	Note State = "note"
	// Bad means that a lab can't be graded.
	Bad State = "bad"
)

// Finding is one line of the examination.
type Finding struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Found is the state that was found, in a few words.
	Found string `json:"found"`
	// Labs names the labs that need it, if it is not good.
	Labs string `json:"labs,omitempty"`
	// Remedy is how to fix the finding: a command, or a sentence. Empty if nothing needs to be done.
	Remedy string `json:"remedy,omitempty"`
}

// These are the labs that need something.
const (
	allLabs  = "all labs"
	podsLabs = "labs 5, 6, 8 and 9"
)

func good(found string) Finding { return Finding{State: Good, Found: found} }

func note(labs, found, remedy string) Finding {
	return Finding{State: Note, Labs: labs, Found: found, Remedy: remedy}
}

func bad(labs, found, remedy string) Finding {
	return Finding{State: Bad, Labs: labs, Found: found, Remedy: remedy}
}

// write writes a line for each finding, with the remedy below it.
func write(out io.Writer, findings []Finding) {
	missing := map[string]bool{}
	for _, f := range findings {
		fmt.Fprintf(out, "%-4s  %-18s  %s\n", f.State, f.Name, f.Found)
		if f.State != Good {
			fmt.Fprintf(out, "%26s%s need it. %s\n", "", capitalized(f.Labs), f.Remedy)
		}
		if f.State == Bad {
			missing[f.Labs] = true
		}
	}
	switch {
	case missing[allLabs]:
		fmt.Fprintln(out, "\nNo lab can be graded on this machine yet: see the lines that begin with bad.")
	case len(missing) > 0:
		fmt.Fprintf(out, "\nAll labs can be graded on this machine but %s: see the lines that begin with bad.\n", podsLabs)
	default:
		fmt.Fprintln(out, "\nAll labs can be graded on this machine.")
	}
}
