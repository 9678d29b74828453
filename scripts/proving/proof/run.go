// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package proof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lva.io/operators/clusters/filelock"
	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
	"lva.io/operators/clusters/progress"
	"lva.io/operators/scripts/checkout/command"
)

// Options configure a proof.
type Options struct {
	// Root is the root of the checkout. Parts are all parts of its proof.
	Root  string
	Parts []Part
	Store *Store
	// Reload returns the current parts of the checkout. It is called before the first part and after each, because
	// labs.yaml may change in the hours between. An error ends the proof. Default: the parts stay the same.
	Reload func() ([]Part, error)
	// Names select parts and families. Default: all.
	Names []string
	// All also runs proven parts. Default: proven parts are not run again.
	All bool
	// Within is the time limit for all parts: a part that usually takes longer than the remaining time is not started. 0:
	// no limit.
	Within time.Duration
	// Out shows the progress of the proof, or the list of its parts.
	Out *os.File

	// limit is how long a part may take. Default: an hour.
	limit time.Duration
}

const (
	// shown is how many of the last lines of a failed part are printed. kept is how many of them are in its record.
	shown, kept = 40, 8
	// grace is how long an interrupted command may take to remove what it has made, such as a kind cluster.
	grace = time.Minute
	// pulse is how often a log gets a line about the progress of a part.
	pulse = time.Minute
	// limit is the time limit of a part, which is twice its expected maximum.
	limit = time.Hour
)

// State is the current state of a part.
type State struct {
	Part   Part
	Record *Record // nil: no run of the part is known
	// Inputs is the current hash of all inputs of the part.
	Inputs string
}

// Proven reports whether the part is proven with its current inputs.
func (s State) Proven() bool { return s.Record.proves(s.Inputs) }

// Usual returns the expected duration of the part: that of its last proof, if there is one.
func (s State) Usual() time.Duration {
	if s.Record != nil && s.Record.LastProven != nil {
		return time.Duration(s.Record.LastProven.Seconds * float64(time.Second))
	}
	return s.Part.Usual
}

// States returns the states of the selected parts, in their order. It runs nothing.
func States(ctx context.Context, options Options) ([]State, error) {
	chosen, err := choose(options.Parts, options.Names)
	if err != nil {
		return nil, err
	}
	runner, err := command.NewRunner()
	if err != nil {
		return nil, err
	}
	defer runner.Close()
	return states(ctx, runner, options.Root, chosen, options.Store)
}

func states(
	ctx context.Context, runner *command.Runner, root string, parts []Part, store *Store,
) (all []State, err error) {
	tree, err := ReadTree(ctx, runner, root)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		state, err := stateOf(tree, part, store)
		if err != nil {
			return nil, err
		}
		all = append(all, state)
	}
	return all, nil
}

func stateOf(tree *Tree, part Part, store *Store) (state State, err error) {
	state.Part = part
	if state.Inputs, err = tree.Hash(part.decides()); err != nil {
		return state, err
	}
	state.Record, err = store.Read(part.Name)
	return state, err
}

// order sorts the parts in the order in which they run. Parts that were never proven come first, the cheapest first.
// Then come the others, with the oldest proof first.
func order(states []State) {
	proof := func(s State) (date int64) {
		if s.Record == nil || s.Record.LastProven == nil {
			return 0
		}
		return s.Record.LastProven.Date.UnixNano()
	}
	slices.SortStableFunc(states, func(a, b State) int {
		return cmp.Or(cmp.Compare(proof(a), proof(b)), cmp.Compare(a.Usual(), b.Usual()))
	})
}

// Prove runs the parts that are not proven, one after the other, and writes the page. If a part fails, the others still
// run. The error names those that failed. If the context ends, the current part is interrupted, and no other part
// begins.
func Prove(ctx context.Context, options Options) (err error) {
	chosen, err := choose(options.Parts, options.Names)
	if err != nil {
		return err
	}
	// A program that was starting when the last proof ended may hold the lock for a moment.
	moment, cancel := context.WithTimeoutCause(ctx, time.Second, filelock.ErrHeld)
	defer cancel()
	unlock, err := filelock.Wait(moment, filepath.Join(options.Store.dir, "lock"))
	if errors.Is(err, filelock.ErrHeld) {
		return errors.New("another proof is running on this machine, and each would slow the other down: wait until it ends")
	}
	if err != nil {
		return err
	}
	defer unlock()
	p := &proving{Options: options, began: time.Now()}
	p.limit = cmp.Or(p.limit, limit)
	if p.runner, err = command.NewRunner(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.runner.Close()) }()
	known, err := states(ctx, p.runner, p.Root, chosen, p.Store)
	if err != nil {
		return err
	}
	if p.logs = filepath.Join(p.Root, "out", "proof"); len(known) > 0 {
		if err := os.MkdirAll(p.logs, 0o755); err != nil {
			return fmt.Errorf("creating the folder for the logs of the proof: %w", err)
		}
	}
	order(known)
	var proven, failed, left []Part
	for _, state := range known {
		if state, err = p.state(ctx, state.Part.Name); err != nil {
			return err
		}
		switch {
		case !p.All && state.Proven():
			proven = append(proven, state.Part)
			continue
		case p.Within > 0 && time.Since(p.began)+state.Usual() > p.Within:
			left = append(left, state.Part)
			continue
		}
		result, err := p.prove(ctx, state)
		if err := errors.Join(err, p.writePage(context.WithoutCancel(ctx))); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s was interrupted; what was proven before is kept: %w", state.Part.Name, context.Cause(ctx))
		}
		if result != Proven {
			failed = append(failed, state.Part)
		}
	}
	return p.summarize(ctx, known, proven, failed, left)
}

// proving is one call of Prove.
type proving struct {
	Options
	runner *command.Runner
	logs   string
	began  time.Time
	// tree is the checkout at the end of the last part. It is nil if it must be read again.
	tree *Tree
}

// state returns the state of a part, with the checkout at the end of the last part.
func (p *proving) state(ctx context.Context, name string) (state State, err error) {
	if p.tree == nil {
		if p.Reload != nil {
			if p.Parts, err = p.Reload(); err != nil {
				return State{}, err
			}
		}
		if p.tree, err = ReadTree(ctx, p.runner, p.Root); err != nil {
			return State{}, err
		}
	}
	i := slices.IndexFunc(p.Parts, func(part Part) bool { return part.Name == name })
	if i < 0 {
		return State{}, fmt.Errorf("the checkout has changed, and its proof no longer has a part %s: start again", name)
	}
	return stateOf(p.tree, p.Parts[i], p.Store)
}

// summarize prints the results, and returns an error if a part is not proven.
func (p *proving) summarize(ctx context.Context, known []State, proven, failed, left []Part) error {
	if err := p.writePage(ctx); err != nil {
		return err
	}
	now := len(known) - len(proven) - len(failed) - len(left)
	were := "were"
	if now == 1 {
		were = "was"
	}
	fmt.Fprintf(p.Out, "%s %s proven now, and %d before. It took %s; %s has all of them.\n",
		numbered(now), were, len(proven), rounded(time.Since(p.began)), Page)
	if len(left) > 0 {
		fmt.Fprintf(p.Out, "No time was left for %s (the limit is %s): %s.\n",
			numbered(len(left)), p.Within, strings.Join(shortened(p.Parts, left), ", "))
	}
	switch names := strings.Join(shortened(p.Parts, failed), ", "); len(failed) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("one part is not proven, and its log is in out/proof: %s", names)
	default:
		return fmt.Errorf("%d parts are not proven, and their logs are in out/proof: %s", len(failed), names)
	}
}

// numbered returns a number of parts for a sentence.
func numbered(parts int) string {
	if parts == 1 {
		return "1 part"
	}
	return fmt.Sprintf("%d parts", parts)
}

// prove runs one part, and records the result.
func (p *proving) prove(ctx context.Context, state State) (result Result, err error) {
	part, record := state.Part, &Record{Part: state.Part.Name, Result: Interrupted, Run: Run{
		Inputs: state.Inputs, Date: time.Now().UTC(), Machine: machine(),
	}}
	if state.Record != nil {
		record.LastProven = state.Record.LastProven
	}
	if record.Commit, err = p.commit(ctx); err != nil {
		return "", err
	}
	record.Reason = "its run was killed"
	if err := p.Store.Write(record); err != nil {
		return "", err
	}
	name := filepath.Join(p.logs, part.Name+".log")
	fmt.Fprintf(p.Out, "%s: starts; it usually takes %s, and its log is out/proof/%s.log\n",
		part.Name, rounded(state.Usual()), part.Name)
	began := time.Now()
	failure, err := p.try(ctx, part, record.Commit, name, state.Usual())
	if err != nil {
		return "", err
	}
	output, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("reading the log of %s: %w", part.Name, err)
	}
	if failure == nil {
		failure = part.check(plain(string(output)))
	}
	record.Seconds = time.Since(began).Round(time.Second / 10).Seconds()
	record.Result, record.Reason = Proven, ""
	switch changed := p.changed(ctx, state); {
	case ctx.Err() != nil:
		record.Result, record.Reason = Interrupted, "its run was interrupted"
	case failure != nil:
		record.Result, record.Reason = Failed, p.reason(string(output), failure)
	case changed != "":
		record.Result, record.Reason = Interrupted, changed
	default:
		record.Proved = part.counted(plain(string(output)))
		run := record.Run
		record.LastProven = &run
	}
	p.printResult(record, string(output), failure)
	return record.Result, p.Store.Write(record)
}

// verdict is the failure of a part whose output does not explain the failure.
type verdict struct{ error }

func (v *verdict) Unwrap() error { return v.error }

// changed returns a sentence if the inputs of a part have changed, and otherwise an empty string. It reads the checkout
// again.
func (p *proving) changed(ctx context.Context, before State) string {
	p.tree = nil
	switch now, err := p.state(ctx, before.Part.Name); {
	case err != nil:
		return "after it ended: " + err.Error()
	case now.Inputs != before.Inputs:
		return "files that decide it changed while it ran"
	}
	return ""
}

// printResult prints the result of a part.
func (p *proving) printResult(record *Record, output string, failure error) {
	took := rounded(time.Duration(record.Seconds * float64(time.Second)))
	switch {
	case record.Result == Proven && record.Proved == "":
		fmt.Fprintf(p.Out, "%s: proven in %s\n", record.Part, took)
	case record.Result == Proven:
		fmt.Fprintf(p.Out, "%s: proven in %s: %s\n", record.Part, took, record.Proved)
	case record.Result == Failed:
		fmt.Fprintf(p.Out, "%s: FAILED after %s: %v. Its last lines:\n%s\n",
			record.Part, took, failure, indented(lastLines(output, shown)))
	default:
		fmt.Fprintf(p.Out, "%s: not proven after %s: %s\n", record.Part, took, record.Reason)
	}
}

// try runs a part at a commit, with its output in a log. failure is the reason why the part is not proven. err is an
// internal error.
func (p *proving) try(ctx context.Context, part Part, commit, log string, usual time.Duration) (failure, err error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("creating the log of %s: %w", part.Name, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if part.Committed && strings.HasSuffix(commit, withChanges) {
		return &verdict{errors.New("it tests the commit, and the work tree differs from it: commit first")}, nil
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return &verdict{err}, nil
	}
	partCtx, cancel := context.WithTimeoutCause(ctx, p.limit, &verdict{fmt.Errorf("timed out after %s", rounded(p.limit))})
	defer cancel()
	stopSpinner := p.show(part.Name, log, usual)
	failure = p.run(partCtx, scope, part, file)
	stopSpinner()
	if err := scope.Close(); err != nil {
		failure = &verdict{errors.Join(failure, fmt.Errorf("ending what it has started: %w", err))}
	}
	return failure, nil
}

// run runs the commands of a part. It returns an error for the first command that failed.
func (p *proving) run(ctx context.Context, scope *process.Scope, part Part, log *os.File) error {
	for _, c := range part.Commands {
		line := strings.Join(c.Args, " ")
		fmt.Fprintf(log, "=== %s\n", line)
		program := c.Args[0]
		if filepath.Base(program) == program {
			found, err := exec.LookPath(program)
			if err != nil {
				return &verdict{fmt.Errorf("%s is needed and not on PATH: install it", program)}
			}
			program = found
		}
		started, err := scope.Start(process.Spec{
			Name: part.Name, Path: filepath.FromSlash(program), Args: c.Args[1:], Dir: p.Root, Stdout: log, Stderr: log,
			Env: append(environment(), c.Env...),
		})
		if err != nil {
			return &verdict{err}
		}
		select {
		case <-started.Done():
		case <-ctx.Done():
			started.Stop(grace)
			return context.Cause(ctx)
		}
		if err := started.Err(); err != nil {
			return fmt.Errorf("`%s`: %w", line, err)
		}
	}
	return nil
}

// environment returns the environment of a part. It leaves out variables of the make that runs this program. PART, for
// example, would select other parts in a make that a part calls.
func environment() []string {
	return slices.DeleteFunc(gobuild.Environment(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "PART", "WITHIN", "FLAGS"}, name)
	})
}

// show shows the progress of a part until end is called. On a terminal it redraws a line. Elsewhere it prints a line
// each minute.
func (p *proving) show(part, log string, usual time.Duration) (end func()) {
	if progress.IsTerminal(p.Out) {
		began := time.Now()
		stop := progress.Spin(true, func(frame rune) {
			fmt.Fprintf(p.Out, "%s%c %s %s of about %s",
				progress.ClearLine, frame, part, rounded(time.Since(began)), rounded(usual))
		})
		return func() {
			stop()
			fmt.Fprint(p.Out, progress.ClearLine)
		}
	}
	began, done, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for ticker := time.NewTicker(pulse); ; {
			select {
			case <-done:
				ticker.Stop()
				return
			case <-ticker.C:
				output, _ := os.ReadFile(log) // without the log the line is shorter
				fmt.Fprintf(p.Out, "%s: %s of about %s: %s\n",
					part, rounded(time.Since(began)), rounded(usual), lastLines(string(output), 1))
			}
		}
	}()
	return func() {
		close(done)
		<-stopped
	}
}

// withChanges is appended to the name of a commit if the work tree has changes or new files.
const withChanges = "+changes"

// commit returns the name of the commit that is checked out.
func (p *proving) commit(ctx context.Context) (string, error) {
	commit, err := p.runner.Run(ctx, p.Root, nil, "git", "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "", fmt.Errorf("asking git for the commit that is proven: %w", err)
	}
	changes, err := p.runner.Run(ctx, p.Root, nil, "git", append([]string{"status", "--porcelain", "--"}, Unproven...)...)
	if err != nil {
		return "", fmt.Errorf("asking git what differs from the commit that is proven: %w", err)
	}
	commit = strings.TrimSpace(commit)
	if strings.TrimSpace(changes) != "" {
		commit += withChanges
	}
	return commit, nil
}

// rounded formats a duration for people.
func rounded(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	}
	return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
}
