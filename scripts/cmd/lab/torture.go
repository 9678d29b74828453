// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checkout/manifest"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/terminal"
)

// tortureFile is the file of the result, in a lab's folder of reports.
const tortureFile = "torture.json"

func tortureCommand() *cobra.Command {
	var flags choiceFlags
	var placement clusterFlags
	var seed uint32
	var random int
	var fetch, scenes bool
	command := &cobra.Command{
		Use: "torture N", GroupID: groupStudents, Short: "Crash an operator at each of its writes, and try random faults",
		Long: "torture plays a lab's scenario over and over: on a good day, " +
			"with a crash right before and right after each write,\n" +
			"and under random schedules of conflicts, refusals, delays, lost watches and crashes, " +
			"all from one seed. It ends at\n" +
			"the first schedule that an operator does not survive, and prints the shortest one like it, with what happened.\n" +
			"It gives no points. The exit code is 0 only for an operator that survives everything.",
		Example: "  lab torture 3\n  lab torture 3 --seed 4711\n  lab torture 2 --dir ~/src/icecream-operator",
		Args:    exactlyOneLab,
		RunE: func(command *cobra.Command, args []string) error {
			if random < 0 {
				return errors.New("--random must not be negative")
			}
			chosen, err := flags.choose(args[0])
			if err != nil {
				return err
			}
			if !chosen.Lab.Operator {
				return fmt.Errorf("lab %s runs no operator, so there is nothing to torture", chosen.Lab.Name)
			}
			if chosen.Lab.Stage == manifest.Deployed {
				return fmt.Errorf("the checks of lab %s deploy the operator, "+
					"and no proxy between it and the API server could crash it: "+
					"torture the labs that it starts from", chosen.Lab.Name)
			}
			chosen.placement = placement
			return torture(command.Context(), chosen, seed, random, scenes, fetch)
		},
	}
	flags.register(command)
	placement.register(command, "a fresh one, on this machine")
	command.Flags().Uint32Var(&seed, "seed", 0, "play the schedules of an earlier run again (default: new ones)")
	command.Flags().BoolVar(&scenes, "scenes", false,
		"play the lab's scenes, too: mishaps that are rarer than those of the schedules (lab 3 has one)")
	command.Flags().IntVar(&random, "random", grade.RandomSchedules,
		"how many random schedules to play, after all single crashes")
	command.Flags().BoolVar(&fetch, "fetch", false, "download the modules that the submission needs before it is built")
	return command
}

func torture(ctx context.Context, c *choice, seed uint32, random int, scenes, fetch bool) error {
	options, err := tools(ctx, c)
	if err != nil {
		return err
	}
	if options.Start, options.On, err = c.placement.Start(ctx, c.Checkout, c.Lab); err != nil {
		return err
	}
	options.Seed, options.Scenes = seed, scenes
	options.Fetch = options.Fetch || fetch
	planned := grade.Blank(options, time.Now())
	planned.Checks = nil
	live := terminal.NewLive(os.Stdout, planned, c.screen(filepath.Join(c.Out, tortureFile)))
	options.View = live
	view := &trialView{lab: c.Lab.Name}
	trials := grade.Torture(ctx, options, random, view.show)
	view.close()
	live.Close()
	if err := writeTrials(filepath.Join(c.Out, tortureFile), trials); err != nil {
		return err
	}
	printTrials(os.Stdout, trials, c.command("torture"), random, scenes)
	if !trials.Survived() {
		return cli.ErrReported
	}
	return nil
}

func writeTrials(file string, trials *grade.Trials) error {
	content, err := json.MarshalIndent(trials, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the trials: %w", err)
	}
	return report.WriteFile(file, append(content, '\n'))
}

// trialView shows the progress of the trials.
type trialView struct {
	lab       string
	bar       *progress.Bar
	shrinking bool
}

func (v *trialView) show(trial protocol.Trial) {
	if v.bar == nil {
		v.bar = progress.Start(os.Stdout, "torture")
	}
	switch {
	case trial.Number == 0 && !v.shrinking:
		v.shrinking = true
		v.bar.Set("tries to find the shortest schedule that fails", 0, 0)
	case trial.Number > 0 && !trial.Ended:
		v.bar.Set("schedules: "+describe(trial), trial.Number-1, trial.Of)
	}
}

func (v *trialView) close() {
	if v.bar != nil {
		v.bar.Done()
	}
}

func describe(trial protocol.Trial) string {
	const width = 60
	text := trial.Schedule.String()
	if len(text) > width {
		text = text[:width] + "…"
	}
	return text
}

// printTrials prints the result, and how to reproduce it.
func printTrials(w io.Writer, trials *grade.Trials, command string, random int, scenes bool) {
	again := fmt.Sprintf("%s --seed %d", command, trials.Run.Seed)
	if random != grade.RandomSchedules {
		again += fmt.Sprintf(" --random %d", random)
	}
	if scenes {
		again += " --scenes"
	}
	for _, notice := range trials.Run.Notices {
		fmt.Fprintf(w, "\nNote: %s.\n", report.Safe(notice))
	}
	failure := trials.Failure
	switch {
	case failure == nil && trials.Run.Outcome != report.Graded:
		fmt.Fprintf(w, "\n%s: %s\n", trials.Run.Outcome, report.Safe(trials.Run.Reason))
		for _, d := range trials.Run.Diagnostics {
			fmt.Fprintf(w, "    %s\n", report.Safe(strings.TrimPrefix(d.Position()+": "+d.Message, ": ")))
		}
		if trials.Run.Outcome == report.Interrupted {
			return // the operator's last lines are unrelated
		}
		for _, line := range trials.Run.OperatorLog {
			fmt.Fprintf(w, "    %s\n", report.Safe(line))
		}
	case failure == nil:
		fmt.Fprintf(w,
			"\n%s survives: a good day, each single crash at a write, and random schedules, %d in all (seed %d).\n",
			trials.Run.Lab, trials.Tried, trials.Run.Seed)
	default:
		fmt.Fprintf(w, "\nIt fails under this schedule, the shortest that was found:\n\n    %s\n\n", failure.Schedule)
		if len(failure.Schedule.Faults) == 0 {
			fmt.Fprintf(w, "    It fails on a good day: grade it first, with `%s`.\n\n",
				strings.Replace(command, " torture ", " grade ", 1))
		}
		fmt.Fprintf(w, "  expected  %s\n  observed  %s\n", report.Safe(failure.Expected), report.Safe(failure.Observed))
		for _, line := range failure.Problems {
			fmt.Fprintf(w, "  evidence  %s\n", report.Safe(line))
		}
		printTimeline(w, failure)
		fmt.Fprintf(w, "\nTo see it again: %s\n", again)
	}
}

// printTimeline prints the operator's requests since the schedule began, and the faults that were injected.
func printTimeline(w io.Writer, failure *grade.Failure) {
	const most = 60
	if len(failure.Timeline) == 0 {
		for _, line := range failure.Evidence {
			fmt.Fprintf(w, "            %s\n", report.Safe(line))
		}
		return
	}
	fmt.Fprintf(w,
		"\n  what the operator requested, what happened to it, and what the check did (seconds since the schedule began):\n")
	began := failure.Timeline[0].Time
	shown := failure.Timeline
	if skipped := len(shown) - most; skipped > 0 {
		fmt.Fprintf(w, "           (earlier requests: %d; all are in %s)\n", skipped, tortureFile)
		shown = shown[skipped:]
	}
	for _, entry := range shown {
		line := fmt.Sprintf("  %7.3f  %s", entry.Time.Sub(began).Seconds(), entry.Summary())
		if entry.Code != 0 {
			line += fmt.Sprintf(" → %d", entry.Code)
		}
		if entry.Fault != "" {
			line += "   ← " + string(entry.Fault)
		}
		fmt.Fprintln(w, report.Safe(line))
	}
}
