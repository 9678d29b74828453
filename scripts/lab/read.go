// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/charmbracelet/glamour"
	"github.com/spf13/cobra"

	"lva.io/operators/scripts/report/terminal"
)

func readCommand() *cobra.Command {
	unfold := false
	command := &cobra.Command{
		Use: "read N", GroupID: groupStudents, Short: "Read the lecture of a lab in the terminal", Args: exactlyOneLab,
		RunE: func(_ *cobra.Command, args []string) error {
			chosen, err := (&choiceFlags{}).choose(args[0])
			if err != nil {
				return err
			}
			return read(filepath.Join(chosen.Root, filepath.FromSlash(chosen.Lab.Lecture)), unfold)
		},
	}
	command.Flags().BoolVar(&unfold, "unfold", false, "show the answers and the solution's code, too")
	return command
}

// folded is what a page hides until somebody opens it: answers, and the solution's code.
var folded = regexp.MustCompile(`(?s)<details>\s*<summary>(.*?)</summary>.*?</details>`)

// read shows a page: rendered and in a pager on a terminal, as it is in a pipe.
func read(file string, unfold bool) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the lecture: %w", err)
	}
	if !unfold {
		page = folded.ReplaceAll(page, []byte("▸ $1 (folded; --unfold shows it)"))
	}
	screen := terminal.Detect(os.Stdout, os.Getenv)
	if !screen.Interactive {
		_, err := os.Stdout.Write(page)
		return err
	}
	style := "notty"
	if screen.Color {
		style = "dark"
	}
	renderer, err := glamour.NewTermRenderer(glamour.WithStandardStyle(style), glamour.WithWordWrap(min(screen.Width, 100)))
	if err != nil {
		return fmt.Errorf("rendering the lecture: %w", err)
	}
	text, err := renderer.RenderBytes(page)
	if err != nil {
		return fmt.Errorf("rendering the lecture: %w", err)
	}
	return pageThrough(string(text))
}

// pageThrough uses the user's pager, or less; without either the text is just printed.
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
