// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/authoring/skeleton"
	"lva.io/operators/scripts/authoring/testgrade"
	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
	"lva.io/operators/scripts/grading/report/gradescope"
	"lva.io/operators/scripts/grading/report/junit"
	"lva.io/operators/scripts/grading/report/terminal"
	"lva.io/operators/scripts/grading/stage"
	"lva.io/operators/scripts/grading/submission"
)

const (
	operatorLogFile = "operator.log"
	// verdictDir, in a lab's folder of reports, holds the report of the last run that was not interrupted.
	verdictDir = "verdict"
)

func gradeCommand() *cobra.Command {
	var flags choiceFlags
	var placement clusterFlags
	var settings gradeOptions
	var all, withoutNode bool
	var step int
	command := &cobra.Command{
		Use: "grade N", GroupID: groupStudents, Short: "Grade a lab, its solution, or any module of kubebuilder's layout",
		Long: "grade builds a submission, runs it against a fresh cluster, and checks what it does there.\n" +
			"The reports are in out/. The exit code is 0 for full marks, 1 for any other report, and 2 if the run has none.",
		Example: "  lab grade 2\n  lab grade 2 --dir ~/src/icecream-operator --fetch\n  lab grade 4 --cluster kind\n" +
			"  lab grade --all",
		Args: func(command *cobra.Command, args []string) error {
			if !all {
				return exactlyOneLab(command, args)
			}
			if len(args) > 0 || flags.dir != "" || settings.gradescope != "" || command.Flags().Changed("step") || withoutNode {
				return errors.New("--all grades all labs: leave out the lab, --dir, --step, --without-node and --gradescope")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			if all {
				return gradeAll(command.Context(), flags, placement)
			}
			chosen, err := flags.choose(args[0])
			if err != nil {
				return err
			}
			if command.Flags().Changed("step") {
				if chosen.Lab, err = chosen.Lab.UpTo(step); err != nil {
					return err
				}
			}
			if withoutNode {
				switch {
				case command.Flags().Changed("step"):
					return errors.New("--step and --without-node exclude each other: leave one of them out")
				case settings.gradescope != "":
					return errors.New("--without-node gives no grade, and --gradescope writes one: leave one of them out")
				case !placement.Embedded():
					return errors.New("--without-node is about this machine, and --cluster names another cluster: " +
						"leave one of them out")
				}
				if chosen.Lab, err = chosen.Lab.WithoutNode(); err != nil {
					return err
				}
			}
			chosen.placement = placement
			if settings.start, settings.on, err = placement.Start(command.Context(), chosen.Checkout, chosen.Lab); err != nil {
				return err
			}
			if !command.Flags().Changed("seed") { // a repeated run has the order of the first one
				settings.first = chosen.toFix()
			}
			result, err := gradeOne(command.Context(), chosen, settings)
			if err != nil {
				return &cli.CodeError{Err: err, Code: exitNoReport}
			}
			return verdict(result, nil)
		},
	}
	flags.register(command)
	placement.register(command, "a fresh one, on this machine")
	command.Flags().BoolVar(&settings.fetch, "fetch", false,
		"download the modules that the submission needs before it is built")
	command.Flags().BoolVar(&all, "all", false, "grade all labs")
	command.Flags().BoolVar(&withoutNode, "without-node", false,
		"on a machine that can't run Pods: run only the checks that need no Pods, which gives no grade")
	command.Flags().IntVar(&step, "step", 0, "run only the checks of the lab's steps up to this one (default: all)")
	command.Flags().Uint32Var(&settings.seed, "seed", 0,
		"inject the same faults and play the same story as in an earlier run (default: a new seed)")
	settings.stories = 1
	command.Flags().Var((*cli.Count)(&settings.stories), "stories",
		"how many stories to play, with this seed and those that follow")
	command.Flags().Var(&settings.sandbox, "sandbox",
		"sandbox for what the submission runs on this machine: as far as possible (auto), "+
			"required (refuse to grade without all of it), or off")
	command.Flags().StringVar(&settings.gradescope, "gradescope", "",
		"a file for Gradescope's results.json, rewritten after each check")
	command.Flags().StringVar(&settings.visibility, "visibility", gradescope.Visibilities[0],
		"gradescope: who can see it, and when: "+strings.Join(gradescope.Visibilities, ", "))
	return command
}

// exitNoReport is the exit code of a run without a report. If a report file exists afterwards, it is not from this run.
const exitNoReport = 2

func verdict(result *report.Report, err error) error {
	if err == nil && !result.FullMarks() {
		return cli.ErrReported
	}
	return err
}

// gradeOptions configures how a submission is graded. See grade.Options.
type gradeOptions struct {
	fetch bool
	seed  uint32
	// stories has the same meaning as in grade.Options.
	stories int
	start   stage.Start
	on      string
	// gradescope is the file for Gradescope, or empty. visibility is who can see its content.
	gradescope, visibility string
	// first has the same meaning as in grade.Options.
	first string
	// sandbox has the same meaning as in grade.Options.
	sandbox grade.Sandbox
	// knownTests reports that the student's own tests are not run. The results of an earlier run count, if the tests have
	// not changed.
	knownTests bool
}

// gradeOne grades the chosen submission, shows the progress, and writes the reports.
func gradeOne(ctx context.Context, c *choice, settings gradeOptions) (*report.Report, error) {
	if err := begin(c); err != nil {
		return nil, err
	}
	options, err := tools(ctx, c)
	if err != nil {
		return nil, err
	}
	options.Seed, options.Stories, options.First = settings.seed, settings.stories, settings.first
	options.Start, options.On = settings.start, settings.on
	options.Fetch, options.Sandbox = options.Fetch || settings.fetch, settings.sandbox
	screen := c.screen(filepath.Join(c.Out, report.JSONFile))
	screen.First = settings.first
	blank := grade.Blank(options, time.Now())
	testgrade.Plan(blank, c.Lab)
	live := terminal.NewLive(os.Stdout, blank, screen)
	options.View = live
	forGradescope := &resultsFile{View: live, file: settings.gradescope, visibility: settings.visibility, soFar: blank}
	if settings.gradescope != "" {
		options.View = forGradescope
	}
	knownTests, err := c.takeKnownTests()
	if err != nil {
		live.Close()
		return nil, err
	}
	result := grade.Run(ctx, options)
	if notice := c.uncontained(result.Environment.Containment); notice != "" {
		result.Notices = append(result.Notices, notice)
	}
	err = gradeOwnTests(ctx, c, options.View, result, settings, knownTests)
	live.Close()
	if errors.Is(context.Cause(ctx), errSaved) {
		// There is no verdict, since the folder has changed since the run began.
		return result, report.Remove(c.Out, formats.Files...)
	}
	if settings.gradescope != "" {
		err = forGradescope.finish(result, err)
	}
	if err := c.settle(result, err); err != nil {
		return nil, err
	}
	if result.Outcome != report.Interrupted {
		if err := errors.Join(c.keepBest(result), keepParts(c.Out, c.Lab, result)); err != nil {
			return nil, err
		}
	}
	return result, terminal.Verdict(os.Stdout, result, screen)
}

// uncontained returns the notice for a run in which another person's submission was contained without namespaces. kept
// has the meaning of report.Environment.Containment. It is empty for a run that started nothing on this machine.
func (c *choice) uncontained(kept string) string {
	if !c.foreign || kept == "" || kept == string(process.Namespaces) {
		return ""
	}
	return "This machine gave the submission no namespaces of its own, " +
		"so processes that it started may still be running. " +
		"Grade submissions of strangers on a machine with user namespaces."
}

// begin replaces the files of the last run, so that an old grade is never taken for the new one, however this run ends.
func begin(c *choice) error {
	// A submission may have brought these files, or folders with their names.
	if err := report.Remove(c.Out, slices.Concat(formats.Files, []string{operatorLogFile})...); err != nil {
		return fmt.Errorf("%w: make the folder %s yours", err, cli.Relative(c.Out))
	}
	if err := report.Writable(c.Out); err != nil {
		return err
	}
	unfinished := grade.Blank(grade.Options{Lab: c.Lab, Dir: c.Dir}, time.Now())
	testgrade.Plan(unfinished, c.Lab)
	unfinished.Outcome, unfinished.Reason = report.Unfinished,
		"the run has not ended: it is still running, or it was killed"
	return formats.Write(c.Out, *unfinished)
}

// settle writes the reports of a run that has ended, if the run did not fail.
func (c *choice) settle(result *report.Report, failed error) error {
	return report.Replace(c.Out, formats.Files, failed, func() error {
		if err := formats.Write(c.Out, *result); err != nil {
			return err
		}
		if result.Outcome == report.Interrupted {
			return nil // hints and progress use the last run that was not interrupted
		}
		return report.Replace(c.Out, []string{verdictDir}, nil, func() error {
			return formats.Write(filepath.Join(c.Out, verdictDir), *result)
		})
	})
}

// tools builds what a grading run needs besides the submission, which takes minutes on a fresh machine.
func tools(ctx context.Context, c *choice) (options grade.Options, err error) {
	options = grade.Options{
		Lab: c.Lab, Dir: c.Dir, Main: c.Main,
		OperatorLog: filepath.Join(c.Out, operatorLogFile), BuildCache: c.BuildCache(c.Dir),
		Kubectl: c.ControlPlane.Path, System: c.placement.System(c.Lab),
		// Modules of the checkout's labs and solutions are downloaded automatically. Modules of other submissions are not.
		Fetch: c.Dir != "" && !c.foreign && submission.MissingModules(c.Dir) > 0,
	}
	if c.Out != "" {
		if err = report.Writable(c.Out); err != nil {
			return options, err
		}
	}
	if err = c.Prepare(ctx, c.placement.WithNode(c.Lab), c.Lab); err != nil {
		return options, err
	}
	if options.ControllerGen, err = c.ControllerGen(ctx); err != nil {
		return options, err
	}
	if options.Checks, err = c.Checks(ctx, c.Lab); err != nil || c.Lab.Steps() == 0 || c.solution || c.Dir == "" {
		return options, err
	}
	options.NotStarted, err = skeleton.NotStarted(c.Root, c.Lab.Name, c.Dir)
	return options, err
}

// gradeAll grades all labs one after the other. The cluster for each lab starts while the previous lab is graded.
func gradeAll(ctx context.Context, flags choiceFlags, placement clusterFlags) error {
	repo, err := checkout.Find()
	if err != nil {
		return err
	}
	if err := removeJUnit(repo); err != nil {
		return err
	}
	all, err := repo.Labs.Named(nil)
	if err != nil {
		return err
	}
	if err := repo.Prepare(ctx, slices.ContainsFunc(all, placement.WithNode), all...); err != nil {
		return err
	}
	var reports []*report.Report
	full := true
	for _, lab := range all {
		chosen, err := flags.choiceFor(repo, lab)
		if err != nil {
			return err
		}
		chosen.placement = placement
		start, on, err := placement.Start(ctx, repo, lab)
		if err != nil {
			return err
		}
		result, err := gradeOne(ctx, chosen, gradeOptions{start: start, on: on})
		if err != nil {
			return err
		}
		reports = append(reports, result)
		full = full && result.FullMarks()
		if ctx.Err() != nil {
			return cli.ErrReported
		}
		fmt.Println()
	}
	if err := writeJUnit(repo, reports); err != nil {
		return err
	}
	for _, result := range reports {
		fmt.Println(result.Summary())
	}
	if !full {
		return cli.ErrReported
	}
	return nil
}

// removeJUnit removes the JUnit file of the last run, because a run that ends too early does not write it.
func removeJUnit(repo *checkout.Checkout) error {
	dir, err := repo.Out("")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(dir, report.JUnitFile)); err != nil {
		return fmt.Errorf("removing the JUnit report of the last run: %w", err)
	}
	return nil
}

// writeJUnit writes the JUnit file of all labs, for CI.
func writeJUnit(repo *checkout.Checkout, reports []*report.Report) error {
	dir, err := repo.Out("")
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, report.JUnitFile))
	if err != nil {
		return fmt.Errorf("writing the JUnit report: %w", err)
	}
	return errors.Join(junit.Write(file, reports...), file.Close())
}
