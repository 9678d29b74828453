// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package fresh

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
	"lva.io/operators/clusters/progress"
)

// ModulesFolder is the folder that keeps the downloaded modules, relative to the root of a checkout. Programs that run
// after the proof may take them from there.
const ModulesFolder = ".cache/fresh/modules"

// stepTime is the time limit of a command. The first one compiles Kubernetes.
const stepTime = 30 * time.Minute

// clone is the folder of the checkout in the machine's home.
const clone = "operator-labs"

// step is a command that a user types, and its expected result.
type step struct {
	name, script string
	check        func(result) error
}

// result is the result of a command.
type result struct {
	code   int
	output string
	// checkout is the folder of the checkout, as seen from this machine.
	checkout string
}

// steps are the README's commands, and the command of CONTRIBUTING.md that tests one package.
var steps = []step{
	{"make lab-1", "make lab-1", func(r result) error {
		return errors.Join(r.wantExitCode(2), r.wantGrade("out/01-icecream", false), r.wantBuildPlan())
	}},
	{"make solution-2", "make solution-2", func(r result) error {
		return errors.Join(r.wantExitCode(0), r.wantGrade("out/solutions/02-reconciler", true))
	}},
	{
		"the playground", "make up && make status && .cache/bin/lab kubectl get namespaces && make down",
		func(r result) error {
			return errors.Join(r.wantExitCode(0), r.wantOutput("kube-system"), r.wantOutput("The playground is gone."))
		},
	},
	{
		"a package's tests", "export CGO_ENABLED=0 GOFLAGS=-trimpath && go -C scripts test -vet=off ./grading/audit",
		func(r result) error {
			return errors.Join(r.wantExitCode(0), r.wantOutput("ok"))
		},
	},
}

// compiled matches lines about programs that are built, except for the program that installs the others, and lines
// about downloaded modules.
var compiled = regexp.MustCompile(
	`(?m)^(\d+ of \d+: )?(build (the|Kubernetes|controller-gen|CoreDNS) ?|download the modules).*`,
)

// withoutPods is part of a grade's reason on a machine that can't run Pods. In the Debian root, an ordinary user may
// not mount /proc, because bubblewrap covers a part of it. There, the programs of the node are not needed, and are not
// installed.
const withoutPods = "needs Pods, and none can run on this machine"

// withPrograms returns the commands that are tried with prebuilt programs.
func withPrograms(url string) []step {
	return []step{
		{"make lab-1", "make lab-1 PROGRAMS=" + url, func(r result) error {
			return errors.Join(r.wantExitCode(2), r.wantGrade("out/01-icecream", false), r.installs("first"))
		}},
		{"make solution-2", "make solution-2 PROGRAMS=" + url, func(r result) error {
			return errors.Join(r.wantExitCode(0), r.wantGrade("out/solutions/02-reconciler", true), r.installs())
		}},
		{"make solution-8", "make solution-8 PROGRAMS=" + url, func(r result) error {
			if strings.Contains(r.output, withoutPods) {
				return errors.Join(r.wantExitCode(2), r.installs("later"))
			}
			return errors.Join(r.wantExitCode(0), r.wantGrade("out/solutions/08-lolcow", true), r.installs("later", "node"))
		}},
	}
}

// installs returns an error unless layers were installed from an archive, and nothing was compiled.
func (r result) installs(layers ...string) (err error) {
	for _, layer := range layers {
		err = errors.Join(err, r.wantOutput("install prebuilt programs ("+layer+"): done"))
	}
	for _, line := range compiled.FindAllString(r.output, -1) {
		err = errors.Join(err, fmt.Errorf("the output has %q, but nothing must be compiled or downloaded", line))
	}
	return err
}

// serve serves a file on the loopback device until the context ends.
func serve(ctx context.Context, file string) (url string, err error) {
	if _, err := os.Stat(file); err != nil {
		return "", err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("serving the archive: %w", err)
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.ServeFile(w, r, file)
		}),
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String() + "/programs.tar", nil
}

// Options are the conditions under which the commands run.
type Options struct {
	// Warm uses the module cache and the build cache of this machine, and runs only the first command. Default: both are
	// empty.
	Warm bool
	// AirGap is Warm without any downloads.
	AirGap bool
	// Programs is the file of an archive. It is served over HTTP, and the commands install it. Default: everything is
	// compiled.
	Programs string
}

// Run runs the proof on the committed files of the checkout at root. The commands print to out.
func Run(ctx context.Context, root string, options Options, out io.Writer) (err error) {
	began := time.Now()
	h, err := inspectHost(ctx)
	if err != nil {
		return err
	}
	h.warm, h.airGap = options.Warm || options.AirGap, options.AirGap
	modules, all := h.gomodcache, steps
	if options.Programs != "" {
		if h.warm {
			return errors.New("prebuilt programs are installed only where the caches are empty: leave out WARM and AIR_GAP")
		}
		ctx, end := context.WithCancel(ctx)
		defer end()
		url, err := serve(ctx, options.Programs)
		if err != nil {
			return err
		}
		all = withPrograms(url)
	}
	tried := all[:1]
	if !h.warm {
		modules, tried = filepath.Join(root, filepath.FromSlash(ModulesFolder)), all
		if err := empty(ctx, modules); err != nil {
			return err
		}
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	m, err := newMachine(ctx, scope, h, modules)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	fmt.Fprintf(out, "The machine is %s. It was ready after %s.\n", m, rounded(began))
	if err := m.clone(ctx, root, modules); err != nil {
		return err
	}
	inspect := step{"the inventory of the machine", inventory, func(r result) error {
		return errors.Join(r.wantExitCode(0), m.isBare(r.output))
	}}
	for _, step := range append([]step{inspect}, tried...) {
		began := time.Now()
		fmt.Fprintf(out, "\n--- %s\n", step.name)
		if err := m.try(ctx, step, out); err != nil {
			return fmt.Errorf("%s does not work on a fresh machine:\n%w", step.name, err)
		}
		fmt.Fprintf(out, "--- %s: as it must be, after %s\n", step.name, rounded(began))
	}
	if err := m.leftNothing(); err != nil {
		return err
	}
	if h.warm {
		fmt.Fprintf(out, "\nThe first command works in an empty home. It took %s with the caches of this machine.\n",
			rounded(began))
		return nil
	}
	count, size, err := downloaded(modules)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nOn a fresh machine the first commands work. "+
		"It took %s, and %d modules of %d MB were downloaded.\n",
		rounded(began), count, size>>20)
	return nil
}

func rounded(began time.Time) time.Duration { return time.Since(began).Round(time.Second) }

// empty creates an empty module cache.
func empty(ctx context.Context, modules string) error {
	if _, err := os.Stat(modules); err == nil {
		bar := progress.Start(os.Stderr, "empty the module cache of the last proof")
		defer bar.Done()
		// The go command made the cache read-only, and can remove it.
		command := exec.CommandContext(ctx, "go", "clean", "-modcache")
		command.Env = append(gobuild.Environment(), "GOMODCACHE="+modules)
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("emptying the module cache of the last proof, %s: %w: %s", modules, err, bytes.TrimSpace(out))
		}
	}
	if err := os.MkdirAll(modules, 0o755); err != nil {
		return fmt.Errorf("creating a module cache: %w", err)
	}
	return nil
}

// downloaded counts the modules of a cache, and the bytes that were downloaded for them.
func downloaded(modules string) (count int, size int64, err error) {
	err = filepath.WalkDir(filepath.Join(modules, "cache", "download"), func(
		name string, entry fs.DirEntry, err error,
	) error {
		if err != nil || filepath.Ext(name) != ".zip" {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			count, size = count+1, size+info.Size()
		}
		return err
	})
	return count, size, err
}

// try runs a step's command on the machine, and checks the result.
func (m *machine) try(ctx context.Context, step step, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTime, fmt.Errorf("timed out after %s", stepTime))
	defer cancel()
	var output bytes.Buffer
	both := io.MultiWriter(out, &output)
	spec := m.command(step.script)
	spec.Stdout, spec.Stderr = both, both
	p, err := m.scope.Start(spec)
	if err != nil {
		return err
	}
	r := result{checkout: filepath.Join(m.home, clone)}
	if err := p.Wait(ctx); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			return err
		}
		r.code = exit.ExitCode()
	}
	r.output = output.String()
	return step.check(r)
}

// wantExitCode returns an error unless the command had this exit code.
func (r result) wantExitCode(want int) error {
	if r.code != want {
		return fmt.Errorf("got exit code %d, want %d", r.code, want)
	}
	return nil
}

// wantOutput returns an error unless the output has this text.
func (r result) wantOutput(want string) error {
	if !strings.Contains(r.output, want) {
		return fmt.Errorf("it must say %q", want)
	}
	return nil
}

// wantBuildPlan returns an error unless the output lists the builds that a user waits for, and their duration.
func (r result) wantBuildPlan() error {
	return errors.Join(r.wantOutput("Building once: the lab command, Kubernetes "),
		r.wantOutput("\n1 of 4: build the lab command: done in "),
		r.wantOutput("\n4 of 4: build the checks of lab 01-icecream: done in "))
}

// wantGrade returns an error unless there is a verdict: full marks, or the points of a skeleton.
func (r result) wantGrade(folder string, full bool) error {
	if strings.Contains(r.output, "--fetch") {
		return errors.New("it mentions --fetch: its modules must be downloaded automatically")
	}
	name := filepath.Join(folder, "report.json")
	content, err := os.ReadFile(filepath.Join(r.checkout, name))
	if err != nil {
		return fmt.Errorf("there is no report: %w", err)
	}
	var report struct {
		Outcome, Reason string
		Score, MaxScore int
	}
	if err := json.Unmarshal(content, &report); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	switch {
	case report.Outcome != "graded":
		return fmt.Errorf("the outcome is %s: %s", report.Outcome, report.Reason)
	case report.MaxScore == 0 || full != (report.Score == report.MaxScore):
		return fmt.Errorf("it has %d of %d points", report.Score, report.MaxScore)
	}
	return nil
}

// inventory lists what a machine has, in sections that isBare reads.
const inventory = `echo "[user]"; id -u; echo "[environment]"; env; echo "[home]"; ls -A ~; ` +
	`echo "[checkout]"; ls -A; ` +
	`echo "[modules]"; ls -A "${GOMODCACHE:-$HOME/go/pkg/mod}"; ` +
	`echo "[programs]"; for p in gcc cc curl wget docker kubectl kind helm python3 node; do command -v $p; done; true`

// isBare returns an error if the machine shares anything with the host besides Go and the permitted variables.
func (m *machine) isBare(output string) error {
	sections := map[string][]string{}
	section := ""
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		} else if line != "" {
			sections[section] = append(sections[section], line)
		}
	}
	var problems []error
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	demand(len(sections["[user]"]) == 1 && (sections["[user]"][0] != "0" || m.warm && !m.root),
		"its user is %v and must be an ordinary one", sections["[user]"])
	demand(m.warm || len(sections["[modules]"]) == 0, "the module cache has %v and must be empty", sections["[modules]"])
	for _, variable := range sections["[environment]"] {
		name, _, _ := strings.Cut(variable, "=")
		shells := slices.Contains([]string{"PWD", "OLDPWD", "SHLVL", "_", "OPERATOR_LABS_SCOPE"}, name)
		demand(shells || slices.Contains(m.variables, variable), "%s is set", name)
	}
	for _, name := range sections["[home]"] {
		demand(slices.Contains([]string{clone, "go", ".cache"}, name), "the home has %s", name)
	}
	demand(slices.Contains(sections["[checkout]"], "Makefile"), "there is no checkout")
	for _, name := range []string{".cache", "out"} {
		demand(!slices.Contains(sections["[checkout]"], name), "the checkout has %s", name)
	}
	demand(!m.root || len(sections["[programs]"]) == 0, "it has %v", sections["[programs]"])
	return errors.Join(problems...)
}

// leftNothing returns an error unless the commands have removed their files in the folder for temporary files.
func (m *machine) leftNothing() error {
	if m.temporary == "" {
		return nil // others use it, too
	}
	for _, pattern := range []string{"operator-labs-*/*", "go-build*"} {
		left, err := filepath.Glob(filepath.Join(m.temporary, pattern))
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("the commands left behind: %s", strings.Join(left, ", "))
		}
	}
	return nil
}
