// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/terminal"
)

// choice is the subject of a command: a lab, and a submission to it.
type choice struct {
	*checkout.Checkout
	Lab *manifest.Lab
	// Dir is the folder of the submission. Main is the package of its program there, if the user named it.
	Dir, Main string
	// Out is the folder of its reports.
	Out string

	// placement is the cluster for grading.
	placement clusterFlags

	solution, foreign bool
}

// choiceFlags select the submission.
type choiceFlags struct {
	dir      string
	main     string
	solution bool
}

const mainUsage = "the package of the operator's program in the submission, " +
	"as ./cmd/manager (default: where kubebuilder puts it)"

func (f *choiceFlags) register(command *cobra.Command) {
	command.Flags().Var((*cli.Folder)(&f.dir), "dir",
		"a Go module of kubebuilder's layout, instead of the lab's folder here")
	command.Flags().StringVar(&f.main, "main", "", mainUsage)
	command.Flags().BoolVar(&f.solution, "solution", false, "the solution, instead of the lab")
	cli.Exclusive(command, "dir", "solution")
}

// choose finds the lab that ref names, and the folder of the submission.
func (f *choiceFlags) choose(ref string) (*choice, error) {
	repo, err := checkout.Find()
	if err != nil {
		return nil, err
	}
	lab, err := repo.Labs.Lab(ref)
	if err != nil {
		return nil, err
	}
	return f.choiceFor(repo, lab)
}

func (f *choiceFlags) choiceFor(repo *checkout.Checkout, lab *manifest.Lab) (c *choice, err error) {
	c = &choice{Checkout: repo, Lab: lab, Dir: repo.Dir(lab), Main: f.main}
	name := lab.Name
	switch {
	case f.solution:
		c.solution, c.Dir, name = true, repo.SolutionDir(lab), filepath.Join("solutions", lab.Name)
	case f.dir != "":
		if c.Dir, err = filepath.Abs(f.dir); err != nil {
			return nil, err
		}
		if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("--dir %s is not a folder: name the folder that holds the submission's go.mod", f.dir)
		}
		switch c.Dir {
		case repo.Dir(lab):
		case repo.SolutionDir(lab):
			c.solution, name = true, filepath.Join("solutions", lab.Name)
		default:
			c.foreign, name = true, filepath.Join("submissions", checkout.ReportsOf(c.Dir), lab.Name)
		}
	}
	c.Out, err = repo.Out(name)
	return c, err
}

// last returns the report of the last run from one of the files of Out. If no run can write into the file's folder, the
// file is no report of a run, because a submission may have brought it.
func (c *choice) last(file ...string) (*report.Report, error) {
	path := filepath.Join(append([]string{c.Out}, file...)...)
	last, err := report.Read(path)
	if err != nil {
		return nil, err
	}
	if err := report.Writable(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("%s may not be the report of a run: %w, then run `%s`",
			cli.Relative(path), err, c.command("grade"))
	}
	if !last.Of(c.Dir) {
		return nil, fmt.Errorf("%s is the report of another folder, %s: run `%s` for one of %s",
			cli.Relative(path), report.Safe(last.Submission.Dir), c.command("grade"), cli.Relative(c.Dir))
	}
	return last, nil
}

// command returns a command line for the same choice.
func (c *choice) command(name string) string {
	text := fmt.Sprintf("%s %s %d", cli.Relative(os.Args[0]), name, c.Lab.Number)
	switch {
	case c.foreign:
		text += " --dir " + cli.Relative(c.Dir)
	case c.solution:
		text += " --solution"
	}
	if c.Main != "" {
		text += " --main " + c.Main
	}
	switch {
	case c.placement.Pod:
		text += " --pod"
	case c.placement.Process:
		text += " --process"
	}
	if !c.placement.Embedded() {
		text += " --cluster " + c.placement.Cluster
		if c.placement.Address != "" {
			text += " --address " + c.placement.Address
		}
	}
	return text
}

// read returns a function that returns the command to show a lecture. If a precondition failed, the lecture belongs to
// an earlier lab.
func (c *choice) read(command string) func(string) string {
	return func(lecture string) string {
		file, _, _ := strings.Cut(lecture, "#")
		n := c.Lab.Number
		if i := slices.IndexFunc(c.Labs.Labs, func(lab manifest.Lab) bool { return lab.Lecture == file }); i >= 0 {
			n = c.Labs.Labs[i].Number
		}
		return command + strconv.Itoa(n)
	}
}

// screen returns the commands that the user can type next, in the form that the user typed.
func (c *choice) screen(file string) terminal.Options {
	options := terminal.Options{
		File: cli.Relative(file), Dir: cli.Relative(c.Dir), Page: cli.Relative(filepath.Join(c.Out, report.HTMLFile)),
	}
	n := c.Lab.Number
	switch {
	case c.foreign:
		program, dir := cli.Relative(os.Args[0]), cli.Relative(c.Dir)
		options.Commands = terminal.Commands{
			Hint: fmt.Sprintf("%s hint %d --dir %s", program, n, dir), Read: c.read(program + " read "),
			Grade: fmt.Sprintf("%s grade %d --dir %s", program, n, dir),
		}
	case c.solution:
		options.Commands = terminal.Commands{Read: c.read("make read-"), Grade: fmt.Sprintf("make solution-%d", n)}
	default:
		options.Commands = terminal.Commands{
			Hint: fmt.Sprintf("make hint-%d", n), Read: c.read("make read-"), Grade: fmt.Sprintf("make lab-%d", n),
		}
		if next, err := c.Labs.Lab(fmt.Sprint(n + 1)); err == nil && c.Lab.Part == "" {
			options.Commands.Next = fmt.Sprintf("make read-%d", next.Number)
		}
	}
	if !c.placement.Embedded() && options.Commands.Grade != "" {
		options.Commands.Grade = c.command("grade")
	}
	options.Commands.Replay = c.command("grade")
	if c.Lab.Operator {
		options.OperatorLog = cli.Relative(filepath.Join(c.Out, operatorLogFile))
	}
	switch {
	case !c.Lab.Operator || c.solution || c.Lab.Part != "":
	case c.foreign || !c.placement.Embedded():
		options.Commands.Torture = c.command("torture")
	default:
		options.Commands.Torture = fmt.Sprintf("make torture-%d", n)
	}
	return options
}

// exactlyOneLab is the argument check of commands that are about one lab.
func exactlyOneLab(command *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s needs one lab, as in `%s 2`; `lab labs` lists them", command.Name(), command.CommandPath())
	}
	return nil
}
