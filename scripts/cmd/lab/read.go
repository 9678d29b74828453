// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/charmbracelet/glamour"
	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/grading/report/terminal"
)

func readCommand() *cobra.Command {
	unfold := false
	command := &cobra.Command{
		Use: "read N", GroupID: groupStudents, Short: "Read the lecture of a lab in the terminal", Args: exactlyOneLab,
		Long: "read shows the lecture of a lab; `lab read 3a` shows the appendix of lecture 3.",
		RunE: func(_ *cobra.Command, args []string) error {
			repo, err := checkout.Find()
			if err != nil {
				return err
			}
			lecture, err := repo.Lecture(args[0])
			if err != nil {
				return err
			}
			return read(repo.Root, lecture, unfold)
		},
	}
	command.Flags().BoolVar(&unfold, "unfold", false, "show the answers to the questions, too")
	return command
}

// folded matches the parts of a page that are hidden until a reader opens them: answers, and files.
var folded = regexp.MustCompile(`(?s)<details>\s*<summary>(.*?)</summary>.*?</details>`)

// link matches a relative link to a file, with or without an anchor.
var link = regexp.MustCompile(`\]\([^():#\s]+[#)]`)

// read shows a page, given by its path from the root. On a terminal it is rendered and shown in a pager. In a pipe it
// is printed unchanged. Its links are relative to the root, where users type commands.
func read(root, name string, unfold bool) error {
	page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return fmt.Errorf("reading the lecture: %w", err)
	}
	if !unfold {
		page = folded.ReplaceAll(page, []byte("▸ $1 (folded; --unfold shows it)"))
	}
	page = link.ReplaceAllFunc(page, func(match []byte) []byte {
		end := len(match) - 1
		return []byte("](" + path.Join(path.Dir(name), string(match[len("]("):end])) + string(match[end]))
	})
	screen := terminal.Detect(os.Stdout, os.Getenv)
	if !screen.Interactive {
		_, err := os.Stdout.Write(page)
		return err
	}
	style := "notty"
	if screen.Color {
		style = "dark"
	}
	renderer, err := glamour.NewTermRenderer(
		glamour.WithStandardStyle(style), glamour.WithWordWrap(min(screen.Width, 100)),
	)
	if err != nil {
		return fmt.Errorf("rendering the lecture: %w", err)
	}
	text, err := renderer.RenderBytes(page)
	if err != nil {
		return fmt.Errorf("rendering the lecture: %w", err)
	}
	return pageThrough(string(text))
}

// pageThrough uses the user's pager, or less. Without either it prints the text.
func pageThrough(text string) error {
	pager := strings.Fields(os.Getenv("PAGER"))
	if len(pager) == 0 {
		pager = []string{"less", "-R"}
	}
	program, err := exec.LookPath(pager[0])
	if err != nil {
		_, err := fmt.Print(text)
		return err
	}
	command := exec.Command(program, pager[1:]...)
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(text), os.Stdout, os.Stderr
	return command.Run()
}
