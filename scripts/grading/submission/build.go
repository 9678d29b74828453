// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lva.io/operators/clusters/filelock"
	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/grading/limited"
	"lva.io/operators/scripts/grading/report"
)

// Limits of what a submission may use. A cold build of controller-runtime takes about a minute, and ten times as long
// on an old and busy machine.
const (
	buildTimeout = 15 * time.Minute
	outputLimit  = 1 << 20 // bytes of a tool's output that are kept
	fewLines     = 3       // messages that repeat the same for one module after another
)

// offline is the environment in which a submission is built: nothing is downloaded. Compiler, linker and controller-gen
// run for a second. Less garbage collection saves them a quarter of that time, for some more memory.
func offline() []string { return append(gobuild.Environment(), "GOPROXY=off", "GOGC=400") }

// Problem is an error of the submission, not of the grader.
type Problem struct {
	// Reason is a sentence that describes what is wrong and, where that is known, what to do.
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

// Builder builds a submission. Its results are in the scope's folder.
type Builder struct {
	*Submission
	Scope *process.Scope
	// ControllerGen is the program that generates manifests from markers.
	ControllerGen string
	// Cache is a folder that keeps the program from run to run, so that an unchanged program is not linked again. Default:
	// none.
	Cache string
	// Generated is a folder that keeps the manifests of the last states of types and markers, so that controller-gen runs
	// only when they have changed. Submissions may share it. Default: none.
	Generated string
	// Tests makes Fetch download what tests import, too.
	Tests bool
	// ProxyOnly makes Fetch download only from module proxies, because a stranger's go.mod may name any host, from which
	// the go command would clone.
	ProxyOnly bool
	// Urgent is true if a person waits only for the build. Default: the build has a lower priority than a cluster that
	// starts.
	Urgent bool
	// System is the operating system that the program is built for. Default: this one.
	System string
	// Walled makes programs and scripts of the submission run in a sandbox: they see and reach only what their lab
	// provides. Strict implies it.
	Walled bool
	// Strict prevents every start if one of the RequiredWalls is missing, and every build with files outside of the
	// submission's folder. Compilers and controller-gen get the same walls as programs of the submission.
	Strict bool

	// Launch describes how the program is started outside of a Pod. Build sets it.
	Launch Launch

	generated []*unstructured.Unstructured // the objects that controller-gen generated

	// installed is where Go is installed, once a strict build has checked the submission. checking guards it.
	checking  sync.Mutex
	installed *gobuild.Installation
}

// RequiredWalls returns the walls without which a submission could read the grader's files, reach other services, or
// get other rights. Root owns the files of the system, so if the grader runs as root, only a private root keeps the
// submission's programs from changing the modes of these files.
func RequiredWalls() []process.Wall {
	walls := []process.Wall{process.FilesWall, process.NetworkWall, process.CallsWall}
	if os.Geteuid() == 0 {
		walls = append(walls, process.PrivateRoot)
	}
	return walls
}

// Walls returns the walls around a program of the submission that may read these files, besides the system's, and
// connect to these ports of this machine. It returns nil if there are to be no walls.
func (b *Builder) Walls(read []string, ports []int) *process.Walls {
	if !b.Walled && !b.Strict {
		return nil
	}
	walls := &process.Walls{Read: read, Connect: ports, Calls: systemCalls()}
	if b.Strict {
		walls.Require = RequiredWalls()
	}
	return walls
}

// Program returns the file of the built program.
func (b *Builder) Program() string { return filepath.Join(b.toolFolder(), "operator") }

// toolFolder is the folder for what compilers and controller-gen write. They may read it, so nothing else may be there.
func (b *Builder) toolFolder() string { return filepath.Join(b.Scope.Dir, "tools") }

// Build compiles the submission's program. An error of the submission is a *Problem, and an error of the machine is a
// *EnvironmentError.
func (b *Builder) Build(ctx context.Context) error {
	if err := b.buildKept(ctx); err != nil {
		return err
	}
	return b.AskFlags(ctx)
}

// Rebuild compiles the program again after an edit. It does not ask the program for its flags: AskFlags does that,
// before the program is started.
func (b *Builder) Rebuild(ctx context.Context) error {
	return b.buildKept(ctx)
}

// buildKept builds the program in the cache, if there is one, and takes a copy.
func (b *Builder) buildKept(ctx context.Context) error {
	if b.Cache == "" {
		return b.build(ctx, b.Program(), nil)
	}
	if err := os.MkdirAll(b.Cache, 0o755); err != nil {
		return environmentError(fmt.Errorf("creating the folder for built submissions: %w", err))
	}
	kept := filepath.Join(b.Cache, "operator")
	unlock, err := filelock.Wait(ctx, kept+".lock")
	if err != nil {
		return fmt.Errorf("waiting for another build of the submission: %w", err)
	}
	defer unlock()
	var environment []string
	if _, err := os.Stat(kept); err == nil {
		environment = littleGarbage
	}
	if err := b.build(ctx, kept, environment); err != nil {
		return err
	}
	return environmentError(gobuild.Install(kept, b.Program()))
}

// littleGarbage makes a Go tool collect hardly any garbage. If the program was built before, little is compiled and
// there is enough memory for that, and the linker takes a third less time.
var littleGarbage = []string{"GOGC=2000", "GOMEMLIMIT=1GiB"}

func (b *Builder) build(ctx context.Context, program string, environment []string) error {
	args := append([]string{"build"}, gobuild.Flags...)
	// Without debug information the program links in half the time, and panics still name file and line. It does not need
	// its commit either: git takes time, and fails in a folder of another user.
	args = append(args, "-buildvcs=false", "-ldflags=-s -w", "-o", program, b.Main)
	environment = append(offline(), environment...)
	if b.System != "" {
		environment = append(environment, "GOOS="+b.System)
	}
	output, err := b.tool(ctx, tool{
		path: "go", args: args, environment: environment, timeout: buildTimeout, write: []string{filepath.Dir(program)},
	})
	if p := moduleProblem(output); err != nil && p != nil {
		return p
	}
	err = problem(err, output, "it does not compile", fmt.Sprintf("building took longer than %s", buildTimeout))
	if p, ok := errors.AsType[*Problem](err); ok && len(p.Diagnostics) > 0 {
		p.Diagnostics = append(p.Diagnostics, b.excluded()...)
	}
	return err
}

// problem distinguishes errors of the submission from faults of the machine, and both from errors of the grader. It
// does not look for faults in the output, because the submission can make a tool print anything.
func problem(err error, output, reason, tooLong string) error {
	err = environmentError(err)
	_, ended := errors.AsType[process.ExitError](err)
	switch {
	case errors.Is(err, errTooLong): // each limit is many times what a tool takes, so the machine is too slow
		return &EnvironmentError{Reason: tooLong + ": end other programs, and run it again"}
	case ended:
		if p := moduleProblem(output); p != nil {
			return p
		}
		return &Problem{Reason: reason, Diagnostics: diagnostics(output)}
	default:
		return err
	}
}

var errTooLong = errors.New("it took too long")

// tool is a program of the grader that processes the submission.
type tool struct {
	path        string // a file, or a name to be looked for on PATH
	args        []string
	dir         string // default: the submission's folder
	environment []string
	timeout     time.Duration
	// stdout gets the tool's standard output. Default: it is returned with the rest.
	stdout io.Writer
	// stderr gets a copy of the tool's standard error. Default: there is no copy.
	stderr io.Writer
	// write are folders in which the tool writes, besides the caches of the go command and the run's folder.
	write []string
	// online is true if the tool downloads modules. Then it has no walls, and must compile nothing.
	online bool
}

// run runs a tool and returns its messages, with positions relative to its folder.
func (b *Builder) run(ctx context.Context, t tool) (messages string, err error) {
	path, err := exec.LookPath(t.path)
	if err != nil && t.path == "go" {
		return "", &EnvironmentError{Reason: gobuild.ErrNoGo.Error()}
	}
	if err != nil {
		return "", fmt.Errorf("%s is needed and not on PATH: install it: %w", t.path, err)
	}
	if err := b.prepareTools(ctx); err != nil {
		return "", err
	}
	dir := t.dir
	if dir == "" {
		if dir, err = b.toolDir(); err != nil {
			return "", err
		}
	}
	if dir != b.Dir {
		t.environment = append(t.environment, "PWD="+dir) // makes the go command use the same path of the folder
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.timeout, errTooLong)
	defer cancel()
	output := limited.NewOutput(outputLimit)
	stderr := io.Writer(output)
	if t.stderr != nil {
		stderr = io.MultiWriter(output, t.stderr)
	}
	spec := process.Spec{
		Path: path, Args: t.args, Dir: dir, Stdout: cmp.Or[io.Writer](t.stdout, output), Stderr: stderr,
		// Temporary files are below the run's folder, which is removed with the run, whatever ends it.
		Env: append(t.environment, "GOTMPDIR="+b.toolFolder(), "TMPDIR="+b.toolFolder()),
		// Usually a cluster starts at the same time, which takes longer and must not wait for the build.
		Background: !b.Urgent,
	}
	if b.Strict && !t.online {
		b.confine(&spec, t)
	}
	p, err := b.Scope.Start(spec)
	if err != nil {
		return "", err
	}
	err = p.Wait(ctx)
	return strings.ReplaceAll(output.String(), dir+string(filepath.Separator), ""), err
}

// prepareTools creates the folder of the tools. The first time in a strict build, it also checks that they stay in the
// submission's folder, and asks the go command where it is installed.
func (b *Builder) prepareTools(ctx context.Context) error {
	b.checking.Lock()
	defer b.checking.Unlock()
	if b.Strict && b.installed == nil {
		if err := b.checkInside(); err != nil {
			return err
		}
		installed, err := gobuild.Installed(ctx)
		if err != nil {
			return environmentError(err)
		}
		b.installed = &installed
	}
	if err := os.MkdirAll(b.toolFolder(), 0o700); err != nil {
		return environmentError(fmt.Errorf("creating the folder for compilers: %w", err))
	}
	return nil
}

// confine builds walls around a compiler or controller-gen. They run no code of the submission. But an assembly file
// that includes another file shows its lines in the compiler's messages, and a module that the submission requires may
// have such an assembly file. For the same reason they get no variables of the grader's, which are in /proc.
func (b *Builder) confine(spec *process.Spec, t tool) {
	installed := b.installed
	spec.Contained = true
	spec.Env = slices.DeleteFunc(spec.Env, func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return !slices.Contains(toolVariables, name)
	})
	// The installation may be one of several that a program on PATH chooses from, in files that are behind the walls.
	spec.Env = append(spec.Env, "GOPROXY=off", "GOROOT="+installed.Root, "GOMODCACHE="+installed.ModuleCache,
		"GOCACHE="+installed.BuildCache, "PATH="+filepath.Join(installed.Root, "bin")+":"+os.Getenv("PATH"))
	if t.path == "go" {
		spec.Path = filepath.Join(installed.Root, "bin", "go")
	}
	spec.Walls = b.Walls(withTargets(installed.Root, installed.ModuleCache, b.Dir), nil)
	spec.Walls.Write = withTargets(append([]string{installed.BuildCache, b.toolFolder()}, t.write...)...)
}

// toolVariables are the variables that a tool keeps behind walls. The user's GOPROXY and GOAUTH may hold passwords.
var toolVariables = []string{
	"HOME", "LANG", "PWD", "TMPDIR", "GOTMPDIR", "CGO_ENABLED", "GOENV", "GOWORK", "GOTOOLCHAIN", "GOFLAGS", "GOSUMDB",
	"GOOS", "GOGC", "GOMEMLIMIT", "GOMAXPROCS",
}

// withTargets adds the folders that links among these lead to.
func withTargets(folders ...string) []string {
	for _, folder := range slices.Clone(folders) {
		if target, err := filepath.EvalSymlinks(folder); err == nil && target != folder {
			folders = append(folders, target)
		}
	}
	return folders
}

// toolDir returns the submission's folder for a program of the grader. The go command passes controller-gen paths in
// JSON, which can't hold a name that is not UTF-8: such a folder gets a link.
func (b *Builder) toolDir() (string, error) {
	if utf8.ValidString(b.Dir) {
		return b.Dir, nil
	}
	link := filepath.Join(b.toolFolder(), "submission")
	if err := os.Symlink(b.Dir, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", environmentError(fmt.Errorf("linking the submission: %w", err))
	}
	return link, nil
}

// position matches the beginning of a compiler's message: file:line:column: or file:line:.
var position = regexp.MustCompile(`^(?:vet: )?(\S[^:]*\.go|go\.mod):(\d+)(?::(\d+))?: (.*)$`)

// chatter matches lines of the go command and of controller-gen that do not help a student.
var chatter = regexp.MustCompile("^(# |go: downloading |Error: not all generators ran|" +
	"run `controller-gen |\tgo (get|mod download) )")

// diagnostics parses the messages of the go command and of controller-gen. It keeps lines without a position as they
// are, and leaves out the duplicates that controller-gen prints for each package.
func diagnostics(output string) []report.Diagnostic {
	const most = 20
	var all []report.Diagnostic
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(strings.TrimRight(line, "\n"), "; to add:") // the next lines are chatter
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

// moduleProblem recognises the go command's errors about an unusable go.mod or go.sum. It returns nil for all other
// output.
func moduleProblem(output string) *Problem {
	reason := missingModule(output)
	if reason == "" {
		return nil
	}
	found := diagnostics(output)
	return &Problem{Reason: reason, Diagnostics: found[:min(len(found), fewLines)]}
}

// missingModule returns advice if the go command failed because of a module, and an empty string if it failed for
// another reason.
func missingModule(output string) string {
	switch {
	case strings.Contains(output, "module lookup disabled by GOPROXY=off"):
		return "modules that it needs are not on this machine: grade it with --fetch, which downloads what its go.mod names"
	case strings.Contains(output, "missing go.sum entry"):
		return "its go.sum lacks modules that it needs: run `go mod tidy` in its folder"
	case strings.Contains(output, "updates to go.mod needed"),
		strings.Contains(output, "no required module provides package"),
		strings.Contains(output, "import lookup disabled by -mod=readonly"):
		return "its go.mod or go.sum does not fit its code: run `go mod tidy` in its folder"
	case strings.Contains(output, "checksum mismatch"):
		return "its go.sum has another checksum than the module on this machine: restore go.sum, for example from git"
	case strings.Contains(output, "malformed import path"):
		return "it has an import path that Go does not allow: rename the folder that the path names, or correct the import"
	case strings.Contains(output, "GOTOOLCHAIN=local"):
		return "its go.mod asks for a newer Go than the installed one: upgrade Go, or lower the go line"
	}
	return ""
}
