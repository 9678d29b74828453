// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/report"
)

// Limits of what a submission may take. A cold build of controller-runtime takes about a minute, and
// ten times as long on an old machine that has other things to do.
const (
	buildTimeout = 15 * time.Minute
	fetchTimeout = 5 * time.Minute
	outputLimit  = 1 << 20 // bytes of a tool's output that are kept
)

// online is the environment in which a submission's modules are fetched: no workspace, no C, no toolchain but the one
// that is there, and nothing that the user set for other work.
func online() []string {
	return append(gobuild.Environment(), "GO111MODULE=on", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
}

// offline is the environment in which a submission is built: as online, but nothing is downloaded. Compiler, linker and
// controller-gen live for a second; collecting less garbage saves them a quarter of it, for some more memory.
func offline() []string { return append(online(), "GOPROXY=off", "GOGC=400") }

// Problem is an error of the submission, not of ours.
type Problem struct {
	// Reason is a sentence that says what is wrong and, where that is known, what to do.
	Reason string
	// Diagnostics are the messages of the compiler or of controller-gen.
	Diagnostics []report.Diagnostic
}

func (p *Problem) Error() string {
	var text strings.Builder
	text.WriteString(p.Reason)
	for _, d := range p.Diagnostics {
		text.WriteString("\n" + strings.TrimPrefix(d.Position()+": "+d.Message, ": "))
	}
	return text.String()
}

// Workshop is where a submission is built: what is made goes into the scope's folder.
type Workshop struct {
	*Submission
	Scope *process.Scope
	// ControllerGen is the program that makes manifests from markers.
	ControllerGen string
	// Cache is a folder that keeps the program from run to run, so that what has not changed is not linked again.
	// Default: none.
	Cache string
	// Waits is told what a webhook's port is waited for, when another operator is run at it. Default: nobody is.
	Waits func(reason string)
	// System is the operating system that the program is for. Default: this one.
	System string

	generated        string   // the folder of what controller-gen made; empty if it made nothing
	flags            []string // with which the program is started
	takesWebhookPort bool     // it has a flag for the port of its webhooks
	webhookFlags     []string // what it is told of its webhooks
	webhooks         *served
}

// Program is the file of the built program.
func (w *Workshop) Program() string { return filepath.Join(w.Scope.Dir, "operator") }

// Build compiles the submission's program. What is wrong with the submission is a *Problem.
func (w *Workshop) Build(ctx context.Context) error {
	if err := w.buildKept(ctx); err != nil {
		return err
	}
	return w.findFlags()
}

// buildKept builds the program in the cache, if there is one, and takes a copy.
func (w *Workshop) buildKept(ctx context.Context) error {
	if w.Cache == "" {
		return w.build(ctx, w.Program())
	}
	if err := os.MkdirAll(w.Cache, 0o755); err != nil {
		return fmt.Errorf("making the folder for built submissions: %w", err)
	}
	kept := filepath.Join(w.Cache, "operator")
	unlock, err := gobuild.Lock(ctx, kept+".lock")
	if err != nil {
		return fmt.Errorf("waiting for another build of the submission: %w", err)
	}
	defer unlock()
	if err := w.build(ctx, kept); err != nil {
		return err
	}
	return gobuild.Install(kept, w.Program())
}

func (w *Workshop) build(ctx context.Context, program string) error {
	args := append([]string{"build"}, gobuild.Flags...)
	// Without debug information it links in half the time, and panics name file and line all the same.
	// Nor does it need to know its commit: asking git takes time, and fails in a folder of another user.
	args = append(args, "-buildvcs=false", "-ldflags=-s -w", "-o", program, w.Main)
	environment := offline()
	if w.System != "" {
		environment = append(environment, "GOOS="+w.System)
	}
	output, err := w.tool(ctx, buildTimeout, environment, "go", args...)
	if reason := missingModule(output); err != nil && reason != "" {
		return &Problem{Reason: reason, Diagnostics: diagnostics(output)}
	}
	return problem(err, output, "it does not compile", fmt.Sprintf("building took longer than %s", buildTimeout))
}

// Fetch downloads the modules that the submission's go.mod names, as far as they are not on this machine: into the
// module cache only, go.mod and go.sum stay as they were handed in.
func (w *Workshop) Fetch(ctx context.Context) error {
	output, err := w.tool(ctx, fetchTimeout, online(), "go", "list", "-deps", "-f", "{{.ImportPath}}", "./...")
	return problem(err, output, "its modules can't be downloaded, or its go.mod does not fit its code: try `go mod tidy` in its folder",
		fmt.Sprintf("downloading its modules took longer than %s", fetchTimeout))
}

// problem tells what is wrong with the submission from what is wrong with us.
func problem(err error, output, reason, tooLong string) error {
	var exit *exec.ExitError
	switch {
	case errors.Is(err, errTooLong):
		return &Problem{Reason: tooLong}
	case errors.As(err, &exit):
		return &Problem{Reason: reason, Diagnostics: diagnostics(output)}
	default:
		return err
	}
}

var errTooLong = errors.New("it took too long")

// tool runs a program of ours in the submission's folder and returns what it printed.
func (w *Workshop) tool(ctx context.Context, timeout time.Duration, environment []string, name string, args ...string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is needed and not on PATH: install it: %w", name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTooLong)
	defer cancel()
	output := &limitedBuffer{limit: outputLimit}
	p, err := w.Scope.Start(process.Spec{
		Path: path, Args: args, Dir: w.Dir, Env: environment, Stdout: output, Stderr: output,
		// Meanwhile a cluster starts, which takes longer: it must not wait for us.
		Background: true,
	})
	if err != nil {
		return "", err
	}
	err = p.Wait(ctx)
	// Positions as one knows them who works in that folder.
	return strings.ReplaceAll(output.String(), w.Dir+string(filepath.Separator), ""), err
}

// position is how compilers begin a message: file:line:column: or file:line:.
var position = regexp.MustCompile(`^(?:vet: )?(\S[^:]*\.go|go\.mod):(\d+)(?::(\d+))?: (.*)$`)

// chatter are lines of the go command and of controller-gen that tell a student nothing.
var chatter = regexp.MustCompile("^(# |go: downloading |Error: not all generators ran|run `controller-gen )")

// diagnostics reads the messages of the go command and of controller-gen. Lines that name no place are kept as they are;
// controller-gen says the same for each package that it meets it in.
func diagnostics(output string) []report.Diagnostic {
	const most = 20
	var all []report.Diagnostic
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\n")
		if line == "" || chatter.MatchString(line) {
			continue
		}
		d := report.Diagnostic{Message: line}
		if found := position.FindStringSubmatch(line); found != nil {
			d.File = filepath.ToSlash(filepath.Clean(found[1]))
			d.Line, _ = strconv.Atoi(found[2])
			d.Column, _ = strconv.Atoi(found[3])
			d.Message = found[4]
		}
		if !slices.Contains(all, d) {
			all = append(all, d)
		}
		if len(all) == most {
			break
		}
	}
	return all
}

// missingModule recognises a build that failed for want of a module, and says what helps.
func missingModule(output string) string {
	switch {
	case strings.Contains(output, "module lookup disabled by GOPROXY=off"):
		return "modules that it needs are not on this machine: grade it with --fetch, which downloads what its go.mod names"
	case strings.Contains(output, "missing go.sum entry"), strings.Contains(output, "updates to go.mod needed"),
		strings.Contains(output, "no required module provides package"), strings.Contains(output, "import lookup disabled by -mod=readonly"):
		return "its go.mod or go.sum does not fit its code: run `go mod tidy` in its folder"
	case strings.Contains(output, "GOTOOLCHAIN=local"):
		return "its go.mod asks for a newer Go than the one that is installed"
	}
	return ""
}

// limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct {
	bytes.Buffer
	limit int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := b.limit - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
