// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package work

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/placement"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/terminal"
)

// Work is a submission to a lab, and the folder of its reports.
type Work struct {
	*checkout.Checkout
	Lab *manifest.Lab
	// Dir is the folder of the submission. Main is the package of its program there. Default: where kubebuilder puts it.
	Dir, Main string
	// Out is the folder of its reports.
	Out string
	// Placement is the cluster for grading.
	Placement placement.Placement
	// Solution is true for the lab's solution. Foreign is true for any folder but the lab's and its solution's, which may
	// have another person's work.
	Solution, Foreign bool
}

// Selection selects the submission to a lab. Default: the lab's folder.
type Selection struct {
	// Dir is another folder. Main is as in Work.
	Dir, Main string
	// Solution selects the lab's solution.
	Solution bool
}

// Select finds the submission to a lab, and creates the folder of its reports.
func Select(repo *checkout.Checkout, lab *manifest.Lab, selected Selection) (w *Work, err error) {
	w = &Work{Checkout: repo, Lab: lab, Dir: repo.Dir(lab), Main: selected.Main}
	name := lab.Name
	switch {
	case selected.Solution:
		w.Solution, w.Dir, name = true, repo.SolutionDir(lab), filepath.Join("solutions", lab.Name)
	case selected.Dir != "":
		if w.Dir, err = filepath.Abs(selected.Dir); err != nil {
			return nil, err
		}
		if info, err := os.Stat(w.Dir); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("--dir %s is not a folder: name the folder that holds the submission's go.mod", selected.Dir)
		}
		switch w.Dir {
		case repo.Dir(lab):
		case repo.SolutionDir(lab):
			w.Solution, name = true, filepath.Join("solutions", lab.Name)
		default:
			w.Foreign, name = true, filepath.Join("submissions", checkout.ReportsOf(w.Dir), lab.Name)
		}
	}
	w.Out, err = repo.Out(name)
	return w, err
}

// Own returns the student's own work on a lab of the checkout. It creates no folder for reports.
func Own(repo *checkout.Checkout, lab *manifest.Lab) *Work {
	return &Work{Checkout: repo, Lab: lab, Dir: repo.Dir(lab), Out: filepath.Join(repo.Root, "out", lab.Name)}
}

// Last returns the report of the last run.
func (w *Work) Last() (*report.Report, error) { return w.last(report.JSONFile) }

// LastVerdict returns the report of the last run that was not interrupted.
func (w *Work) LastVerdict() (*report.Report, error) { return w.last(verdictDir, report.JSONFile) }

// ReportFile returns the file with the report of the last run.
func (w *Work) ReportFile() string { return filepath.Join(w.Out, report.JSONFile) }

// VerdictFile returns the file with the report of the last run that was not interrupted.
func (w *Work) VerdictFile() string { return filepath.Join(w.Out, verdictDir, report.JSONFile) }

// last returns the report of the last run from one of the files of Out. If no run can write into the file's folder, the
// file is no report of a run, because a submission may have brought it.
func (w *Work) last(file ...string) (*report.Report, error) {
	path := filepath.Join(append([]string{w.Out}, file...)...)
	last, err := report.Read(path)
	if err != nil {
		return nil, err
	}
	if err := report.Writable(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("%s may not be the report of a run: %w, then run `%s`",
			cli.Relative(path), err, w.Command("grade"))
	}
	if !last.Of(w.Dir) {
		return nil, fmt.Errorf("%s is the report of another folder, %s: run `%s` for one of %s",
			cli.Relative(path), report.Safe(last.Submission.Dir), w.Command("grade"), cli.Relative(w.Dir))
	}
	return last, nil
}

// Command returns a command line that selects the same work.
func (w *Work) Command(name string) string {
	text := fmt.Sprintf("%s %s %d", cli.Relative(os.Args[0]), name, w.Lab.Number)
	switch {
	case w.Foreign:
		text += " --dir " + cli.Relative(w.Dir)
	case w.Solution:
		text += " --solution"
	}
	if w.Main != "" {
		text += " --main " + w.Main
	}
	switch {
	case w.Placement.Pod:
		text += " --pod"
	case w.Placement.Process:
		text += " --process"
	}
	if !w.Placement.Embedded() {
		text += " --cluster " + w.Placement.Cluster
		if w.Placement.Address != "" {
			text += " --address " + w.Placement.Address
		}
	}
	return text
}

// read returns a function that returns the command to show a lecture. If a precondition failed, the lecture belongs to
// an earlier lab.
func (w *Work) read(command string) func(string) string {
	return func(lecture string) string {
		file, _, _ := strings.Cut(lecture, "#")
		n := w.Lab.Number
		if i := slices.IndexFunc(w.Labs.Labs, func(lab manifest.Lab) bool { return lab.Lecture == file }); i >= 0 {
			n = w.Labs.Labs[i].Number
		}
		return command + strconv.Itoa(n)
	}
}

// Screen returns the commands that the user can type next, in the form that the user typed.
func (w *Work) Screen(file string) terminal.Options {
	options := terminal.Options{
		File: cli.Relative(file), Dir: cli.Relative(w.Dir), Page: cli.Relative(filepath.Join(w.Out, report.HTMLFile)),
	}
	n := w.Lab.Number
	switch {
	case w.Foreign:
		program, dir := cli.Relative(os.Args[0]), cli.Relative(w.Dir)
		options.Commands = terminal.Commands{
			Hint: fmt.Sprintf("%s hint %d --dir %s", program, n, dir), Read: w.read(program + " read "),
			Grade: fmt.Sprintf("%s grade %d --dir %s", program, n, dir),
		}
	case w.Solution:
		options.Commands = terminal.Commands{Read: w.read("make read-"), Grade: fmt.Sprintf("make solution-%d", n)}
	default:
		options.Commands = terminal.Commands{
			Hint: fmt.Sprintf("make hint-%d", n), Read: w.read("make read-"), Grade: fmt.Sprintf("make lab-%d", n),
		}
		if next, err := w.Labs.Lab(fmt.Sprint(n + 1)); err == nil && w.Lab.Part == "" {
			options.Commands.Next = fmt.Sprintf("make read-%d", next.Number)
		}
	}
	if !w.Placement.Embedded() && options.Commands.Grade != "" {
		options.Commands.Grade = w.Command("grade")
	}
	options.Commands.Replay = w.Command("grade")
	if w.Lab.Operator {
		options.OperatorLog = cli.Relative(filepath.Join(w.Out, operatorLogFile))
	}
	switch {
	case !w.Lab.Operator || w.Solution || w.Lab.Part != "":
	case w.Foreign || !w.Placement.Embedded():
		options.Commands.Torture = w.Command("torture")
	default:
		options.Commands.Torture = fmt.Sprintf("make torture-%d", n)
	}
	return options
}
