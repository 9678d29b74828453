// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/manifest"
	"lva.io/operators/scripts/report/terminal"
)

// choice is what a command is about: a lab, and whose work on it.
type choice struct {
	*checkout.Checkout
	Lab *manifest.Lab
	// Dir is the folder of the submission.
	Dir string
	// Out is the folder of its reports.
	Out string

	// where it is graded.
	where clusterFlags

	solution, foreign bool
}

// choiceFlags choose whose work it is.
type choiceFlags struct {
	dir      string
	solution bool
}

func (f *choiceFlags) register(command *cobra.Command) {
	command.Flags().StringVar(&f.dir, "dir", "", "a Go module of kubebuilder's layout, instead of the lab's folder here")
	command.Flags().BoolVar(&f.solution, "solution", false, "the solution, instead of the lab")
	command.MarkFlagsMutuallyExclusive("dir", "solution")
}

// choose finds the lab that ref names, and the folder of the submission.
func (f *choiceFlags) choose(ref string) (*choice, error) {
	here, err := checkout.Find()
	if err != nil {
		return nil, err
	}
	lab, err := here.Labs.Lab(ref)
	if err != nil {
		return nil, err
	}
	return f.of(here, lab)
}

func (f *choiceFlags) of(here *checkout.Checkout, lab *manifest.Lab) (c *choice, err error) {
	c = &choice{Checkout: here, Lab: lab, Dir: here.Dir(lab)}
	name := lab.Name
	switch {
	case f.solution:
		c.solution, c.Dir, name = true, here.SolutionDir(lab), filepath.Join("solutions", lab.Name)
	case f.dir != "":
		if c.Dir, err = filepath.Abs(f.dir); err != nil {
			return nil, err
		}
		if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("--dir %s is not a folder: name the folder that holds the submission's go.mod", f.dir)
		}
		switch c.Dir {
		case here.Dir(lab):
		case here.SolutionDir(lab):
			c.solution, name = true, filepath.Join("solutions", lab.Name)
		default:
			c.foreign, name = true, filepath.Join("submissions", filepath.Base(c.Dir), lab.Name)
		}
	}
	c.Out, err = here.Out(name)
	return c, err
}

// command is how a person would type a command about the same choice.
func (c *choice) command(name string) string {
	text := fmt.Sprintf("%s %s %d", c.relative(os.Args[0]), name, c.Lab.Number)
	switch {
	case c.foreign:
		text += " --dir " + c.relative(c.Dir)
	case c.solution:
		text += " --solution"
	}
	if !c.where.embedded() {
		text += " --cluster " + c.where.cluster
		if c.where.local {
			text += " --local"
		}
		if c.where.address != "" {
			text += " --address " + c.where.address
		}
	}
	return text
}

// screen says what a person can type next, in the words of the one who typed this.
func (c *choice) screen(file string) terminal.Options {
	options := terminal.Options{File: c.relative(file), Dir: c.relative(c.Dir)}
	n := c.Lab.Number
	switch {
	case c.foreign:
		dir := c.relative(c.Dir)
		options.Commands = terminal.Commands{
			Hint: fmt.Sprintf("%s hint %d --dir %s", os.Args[0], n, dir), Read: fmt.Sprintf("%s read %d", os.Args[0], n),
			Grade: fmt.Sprintf("%s grade %d --dir %s", os.Args[0], n, dir),
		}
	case c.solution:
		options.Commands = terminal.Commands{Read: fmt.Sprintf("make read-%d", n), Grade: fmt.Sprintf("make solution-%d", n)}
	default:
		options.Commands = terminal.Commands{
			Hint: fmt.Sprintf("make hint-%d", n), Read: fmt.Sprintf("make read-%d", n), Grade: fmt.Sprintf("make lab-%d", n),
		}
		if next, err := c.Labs.Lab(fmt.Sprint(n + 1)); err == nil {
			options.Commands.Next = fmt.Sprintf("make read-%d", next.Number)
		}
	}
	if !c.where.embedded() && options.Commands.Grade != "" {
		options.Commands.Grade = c.command("grade")
	}
	options.Commands.Replay = c.command("grade")
	return options
}

// relative is a path as one would type it: short where it is below the working folder.
func (c *choice) relative(path string) string {
	folder, err := os.Getwd()
	if err != nil {
		return path
	}
	short, err := filepath.Rel(folder, path)
	if err != nil || !filepath.IsLocal(short) {
		return path
	}
	return short
}

// exactlyOneLab is the argument check of commands that are about one lab.
func exactlyOneLab(command *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s wants one lab, as in `%s 2`; `lab labs` lists them", command.Name(), command.CommandPath())
	}
	return nil
}
