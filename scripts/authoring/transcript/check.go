// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package transcript

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"lva.io/operators/scripts/authoring/docs"
)

// Pages returns the pages whose commands are run: the lectures, and guides that have a transcript.
func Pages(root string) ([]string, error) {
	all, err := docs.Pages(root)
	if err != nil {
		return nil, err
	}
	var pages []string
	for _, page := range all {
		switch path.Dir(page) {
		case "docs/lectures":
			pages = append(pages, page)
		case "docs/guides":
			entries, err := Load(root, page)
			if err != nil {
				return nil, err
			}
			if len(entries) > 0 {
				pages = append(pages, page)
			}
		}
	}
	return pages, nil
}

// Check compares pages with their transcripts without running anything. Each command must have an entry, or a reason
// why it is not run, and each block of printed output must match. The error lists all mistakes, each as a
// *docs.Problem.
func Check(root string) error {
	pages, err := Pages(root)
	if err != nil {
		return err
	}
	var problems []error
	for _, page := range pages {
		blocks, err := Blocks(root, page)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		entries, err := Load(root, page)
		if err != nil {
			return err
		}
		problems = append(problems, check(page, blocks, entries))
	}
	return errors.Join(problems...)
}

func check(page string, blocks []Block, entries []Entry) error {
	var problems []error
	problem := func(line int, format string, args ...any) {
		problems = append(problems, &docs.Problem{Page: page, Line: line, Message: fmt.Sprintf(format, args...)})
	}
	stale := fmt.Sprintf("run `make verify-docs PAGE=%s FLAGS=--record`", page)
	for _, block := range blocks {
		if block.NotRun != "" {
			continue
		}
		own := entries[:min(len(block.Commands), len(entries))]
		entries = entries[len(own):]
		if !slices.EqualFunc(block.Commands, own, func(command string, entry Entry) bool {
			return command == entry.Command
		}) {
			problem(block.Line, "%s has other commands than this block: %s", File(page), stale)
			return errors.Join(problems...)
		}
		for _, printed := range block.Printed {
			if line := shows(printed.Lines, own); line != "" {
				problem(printed.Line, "the commands above do not print this line here, %s has: %s",
					File(page), strings.TrimSpace(line))
			}
		}
	}
	if len(entries) > 0 {
		problem(1, "%s has a command that the page does not have: %s: %s", File(page), firstLine(entries[0].Command), stale)
	}
	return errors.Join(problems...)
}
