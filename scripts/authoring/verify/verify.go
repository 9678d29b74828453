// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/authoring/clientgen"
	"lva.io/operators/scripts/checkout/changes"
	"lva.io/operators/scripts/checkout/command"
)

// Check is one rule that the repository must follow.
type Check struct {
	// Name is the name of the check for Options.Only, in kebab-case.
	Name string
	// Sentence states the rule.
	Sentence string
	// Find returns the violations of the rule, and an error if it could not look for them. It never edits the tree.
	Find func(ctx context.Context, repository *Repository) ([]Finding, error)
	// Fix fixes what a program can, and returns the files that it changed. Nil: a person must fix the findings.
	Fix func(ctx context.Context, repository *Repository) ([]string, error)
}

// Finding is one violation of a rule.
type Finding struct {
	// Location is a file, file:line or folder, seen from the root of the repository.
	Location string
	// Message is one sentence that describes the problem and, if `make fix` does not fix it, what to do.
	Message string
	// Detail is a short diff or the output of a tool, if there is any.
	Detail string
	// ByHand reports that the check's Fix does not help.
	ByHand bool
}

// Options configure the checks.
type Options struct {
	// Root is the folder of the repository.
	Root string
	// ControllerGen, GolangCILint and the programs of Clients have the pinned versions.
	ControllerGen string
	GolangCILint  string
	Clients       clientgen.Generator
	// Only has the names of the checks to run. Default: all.
	Only []string
	// Short leaves out the checks that belong to the proof: type-checking for other systems.
	Short bool
	// Since limits the linter to packages that differ from a commit, unless its configuration differs. It takes ten
	// minutes for all of them. Nil: all.
	Since *changes.Changes
	// Extra are additional checks of the caller. They run before the slow ones.
	Extra []Check
	// Out gets the findings and the progress.
	Out *os.File
}

// Checks returns all checks. The first ones fix files that later ones read, and the slow ones come last.
func Checks(extra ...Check) []Check {
	return slices.Concat(
		[]Check{files, labsList, mutants, recordings, formatting, packageComments, prose, sharedFiles, goVersion},
		extra,
		[]Check{moduleVersions, tidiness, generatedFiles, clients, pages, skeletons, lint},
		otherSystems,
	)
}

// errFound is the error of a run that found problems. They are printed already.
var errFound = errors.New("the repository is not in order")

// Verify runs the checks and prints the findings. It runs all of them, so that a contributor sees everything at once.
// The error has the number of failed checks.
func Verify(ctx context.Context, options Options) error {
	checks, err := chosen(options)
	if err != nil {
		return err
	}
	var failed []string
	var summary strings.Builder // the failed checks, repeated at the end after the output of later checks
	fixable := false
	for _, check := range checks {
		findings, err := find(ctx, options, check)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil && len(findings) == 0 {
			continue
		}
		var text strings.Builder
		if err != nil {
			fmt.Fprintf(&text, "  could not be checked: %s\n", indent(err.Error()))
		}
		for _, finding := range findings {
			fmt.Fprintf(&text, "  %s\n", indent(finding.String()))
		}
		failed = append(failed, check.Name)
		if check.Fix != nil && slices.ContainsFunc(findings, func(f Finding) bool { return !f.ByHand }) {
			fixable = true
			fmt.Fprintln(&text, "  Fix it with: make fix")
		}
		fmt.Fprint(options.Out, text.String())
		fmt.Fprintf(&summary, "%s: %s\n%s", check.Name, check.Sentence, text.String())
	}
	if len(failed) == 0 {
		return nil
	}
	if failed[len(failed)-1] != checks[len(checks)-1].Name {
		fmt.Fprintf(options.Out, "\nWhat failed:\n%s\n", shortened(summary.String()))
	}
	advice := "fix them as described above"
	if fixable {
		advice = "run `make fix`, then fix the rest by hand"
	}
	return fmt.Errorf("%d of %d checks failed (%s): %w: %s",
		len(failed), len(checks), strings.Join(failed, ", "), errFound, advice)
}

// Fix fixes what a program can, and prints which files it changed. It does not report problems that a person must fix.
// Verify does.
func Fix(ctx context.Context, options Options) error {
	checks, err := chosen(options)
	if err != nil {
		return err
	}
	var problems []error
	changes := 0
	for _, check := range checks {
		if check.Fix == nil {
			continue
		}
		changed, err := repair(ctx, options, check)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, name := range changed {
			fmt.Fprintf(options.Out, "  changed %s\n", name)
		}
		changes += len(changed)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", check.Name, err))
		}
	}
	if len(problems) == 0 && changes == 0 {
		fmt.Fprintln(options.Out, "There was nothing to fix.")
	}
	return errors.Join(problems...)
}

// Validate returns an error if Only names an unknown check. Call it before anything is built for the checks.
func (o Options) Validate() error {
	_, err := chosen(o)
	return err
}

// NeedsLinter reports whether the linter is needed, which takes minutes to build.
func (o Options) NeedsLinter() bool { return o.needs(lint) }

// NeedsClients reports whether the generators of clients are needed.
func (o Options) NeedsClients() bool { return o.needs(clients) }

func (o Options) needs(check Check) bool {
	return len(o.Only) == 0 || slices.Contains(o.Only, check.Name)
}

func chosen(options Options) ([]Check, error) {
	all := Checks(options.Extra...)
	if options.Short {
		all = slices.DeleteFunc(all, func(c Check) bool {
			return slices.ContainsFunc(otherSystems, func(other Check) bool { return c.Name == other.Name })
		})
	}
	if len(options.Only) == 0 {
		return all, nil
	}
	var names []string
	for _, check := range all {
		names = append(names, check.Name)
	}
	for _, name := range options.Only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no check %q: there are %s", name, strings.Join(names, ", "))
		}
	}
	return slices.DeleteFunc(all, func(c Check) bool { return !slices.Contains(options.Only, c.Name) }), nil
}

func find(ctx context.Context, options Options, check Check) (findings []Finding, err error) {
	err = watched(options, check.Name+" ("+check.Sentence+")", func(repository *Repository) (bool, error) {
		findings, err = check.Find(ctx, repository)
		return len(findings) == 0, err
	})
	return findings, err
}

func repair(ctx context.Context, options Options, check Check) (changed []string, err error) {
	err = watched(options, check.Name, func(repository *Repository) (bool, error) {
		changed, err = check.Fix(ctx, repository)
		return true, err
	})
	return changed, err
}

// watched calls do with the repository, and shows its progress.
func watched(options Options, what string, do func(*Repository) (ok bool, err error)) error {
	runner, err := command.NewRunner()
	if err != nil {
		return err
	}
	defer runner.Close()
	bar := progress.Start(options.Out, what)
	ok, err := do(&Repository{
		Root: options.Root, Runner: runner, Progress: bar.Set,
		controllerGen: options.ControllerGen, golangciLint: options.GolangCILint,
		clients: options.Clients, since: options.Since,
	})
	if ok && err == nil {
		bar.Done()
	} else {
		bar.Fail()
	}
	return err
}

func (f Finding) String() string {
	text := f.Message
	if f.Location != "" {
		text = f.Location + ": " + text
	}
	if f.Detail != "" {
		text += "\n  " + strings.ReplaceAll(shortened(f.Detail), "\n", "\n  ")
	}
	return text
}

// indent indents the lines after the first.
func indent(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") }

// shortened keeps enough lines to understand the text.
func shortened(text string) string {
	const most = 30
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("… and %d lines more", len(lines)-most))
	}
	return strings.Join(lines, "\n")
}
