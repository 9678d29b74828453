// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command pages writes the pages of the recorded runs for the site: pages ROOT OUT. It is a separate program so that
// `make docs` does not have to compile the whole lab command.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/html"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pages RUNS OUT: RUNS is docs/runs, and OUT the folder for the pages")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

// write writes a page for each report below a folder.
func write(from, to string) error {
	recordings, err := filepath.Glob(filepath.Join(from, "*", "*.json"))
	if err != nil {
		return err
	}
	if len(recordings) == 0 {
		return fmt.Errorf("%s has no recordings: name docs/runs", from)
	}
	for _, file := range recordings {
		recorded, err := report.Read(file)
		if err != nil {
			return err
		}
		recorded.Sanitize()
		var page bytes.Buffer
		if err := html.Write(&page, recorded, filepath.Dir(file)); err != nil {
			return err
		}
		relative, err := filepath.Rel(from, strings.TrimSuffix(file, ".json")+".html")
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("creating a folder for pages: %w", err)
		}
		if err := report.WriteFile(target, lecture.ReplaceAll(page.Bytes(), []byte("$1.html$2"))); err != nil {
			return err
		}
	}
	return nil
}

// lecture is a link to a page of the documents, which is HTML on the site.
var lecture = regexp.MustCompile(`(href="\.\./[^"]*)\.md(["#])`)
