// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package work

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/grading/grade"
	"lva.io/operators/scripts/grading/protocol"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/terminal"
)

// tortureFile is the file of the result, in a lab's folder of reports.
const tortureFile = "torture.json"

// Torture tortures the operator: see grade.Torture. It shows the progress, writes the result beside the reports, and
// prints it. It returns cli.ErrReported unless the operator survives.
func (w *Work) Torture(ctx context.Context, settings Options, random int) error {
	options, err := w.prepare(ctx, settings)
	if err != nil {
		return err
	}
	if options.Start, options.On, err = w.Placement.Start(ctx, w.Checkout, w.Lab); err != nil {
		return err
	}
	file := filepath.Join(w.Out, tortureFile)
	planned := grade.Blank(options, time.Now())
	planned.Checks = nil
	live := terminal.NewLive(settings.Out, planned, w.Screen(file))
	options.View = live
	view := &trialView{out: settings.Out}
	trials := grade.Torture(ctx, options, random, view.show)
	view.close()
	live.Close()
	if err := writeTrials(file, trials); err != nil {
		return err
	}
	printTrials(settings.Out, trials, w.Command("torture"), random, settings.Scenes)
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
	out       *os.File
	bar       *progress.Bar
	shrinking bool
}

func (v *trialView) show(trial protocol.Trial) {
	if v.bar == nil {
		v.bar = progress.Start(v.out, "torture")
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
