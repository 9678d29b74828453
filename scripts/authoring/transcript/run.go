// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package transcript

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/authoring/docs"
)

// Options select the pages to run.
type Options struct {
	Root string
	// Pages are paths from the root. Default: all that have a transcript.
	Pages []string
	// Record writes the output of the commands into the transcripts. An entry that still matches stays as it is.
	Record bool
	// Clean removes the objects that a page leaves in the playground. It is called after each page.
	Clean func() error
	Out   io.Writer
}

// Run runs the commands of pages, and compares their output. The error lists all differences.
func Run(ctx context.Context, options Options) error {
	pages := options.Pages
	if len(pages) == 0 {
		all, err := Pages(options.Root)
		if err != nil {
			return err
		}
		for _, page := range all {
			if entries, err := Load(options.Root, page); err != nil {
				return err
			} else if len(entries) > 0 {
				pages = append(pages, page)
			}
		}
	}
	var problems []error
	for _, page := range pages {
		began := time.Now()
		fmt.Fprintf(options.Out, "%s ...\n", page)
		commands, err := options.page(ctx, page)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			fmt.Fprintln(options.Out, err)
			problems = append(problems, fmt.Errorf("%s has failed", page))
			continue
		}
		fmt.Fprintf(options.Out, "ok    %s: %d commands, %.0f s\n", page, commands, time.Since(began).Seconds())
	}
	return errors.Join(problems...)
}

// page runs the commands of one page, and returns their number.
func (o *Options) page(ctx context.Context, page string) (commands int, err error) {
	blocks, err := Blocks(o.Root, page)
	if err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(blocks, func(block Block) bool { return block.NotRun == "" }) {
		return 0, errors.New("the page has no commands that are run")
	}
	want, err := Load(o.Root, page)
	if err != nil {
		return 0, err
	}
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, scope.Close()) }()
	// At a terminal, curl shows no progress of a response that it prints.
	if err := os.WriteFile(filepath.Join(scope.Dir, ".curlrc"), []byte("no-progress-meter\n"), 0o600); err != nil {
		return 0, err
	}
	env, err := o.environment(ctx, scope.Dir)
	if err != nil {
		return 0, err
	}
	sh, err := newShell(scope, o.Root, env)
	if err != nil {
		return 0, err
	}
	before, err := names(o.Root)
	if err != nil {
		return 0, errors.Join(err, sh.close())
	}
	got, err := session(ctx, sh, blocks, o.Out)
	// Background processes of the page end before the playground.
	err = errors.Join(err, sh.close(), o.Clean(), o.tidy(before))
	if err != nil {
		return 0, err
	}
	if o.Record {
		return len(got), record(o.Root, page, want, got, o.Root, scope.Dir)
	}
	return len(got), compare(page, blocks, want, got)
}

// session runs all blocks of a page.
func session(ctx context.Context, sh *shell, blocks []Block, out io.Writer) ([]Entry, error) {
	var got []Entry
	for _, block := range blocks {
		if block.NotRun != "" {
			continue
		}
		if block.Before != "" {
			fmt.Fprintf(out, "  %d: (%s)\n", block.Line, firstLine(block.Before))
			done, err := sh.run(ctx, block.Before, false)
			if err != nil {
				return nil, err
			}
			if done.Status != 0 {
				return nil, &docs.Problem{
					Page: block.Page, Line: block.Line,
					Message: fmt.Sprintf("<!-- run before: %s --> ended with exit code %d:\n%s",
						block.Before, done.Status, strings.Join(done.Lines, "\n")),
				}
			}
		}
		for i, command := range block.Commands {
			fmt.Fprintf(out, "  %d: %s\n", block.Line, firstLine(command))
			entry, err := sh.run(ctx, command, block.Interrupt && i == len(block.Commands)-1)
			if err != nil {
				return nil, err
			}
			got = append(got, entry)
		}
	}
	return got, nil
}

// unsetVariables lists variables that a reader has not set, or that environment sets itself.
var unsetVariables = []string{
	"KUBECONFIG", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
	"GOFLAGS", "GOWORK", "GOPATH", "GOCACHE", "GOMODCACHE", "GOPROXY", "MFLAGS",
}

// environment returns a reader's environment: an empty home, and none of our settings. Go's module cache and build
// cache are those of this machine.
func (o *Options) environment(ctx context.Context, home string) ([]string, error) {
	installed, err := gobuild.Installed(ctx)
	if err != nil {
		return nil, err
	}
	env := slices.DeleteFunc(gobuild.Environment(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		// With the variables of a calling make, a page's make would print the folder that it enters.
		return slices.Contains(unsetVariables, name) || strings.HasPrefix(name, "MAKE")
	})
	return append(env, "HOME="+home, "TERM=dumb",
		"GOMODCACHE="+installed.ModuleCache, "GOCACHE="+installed.BuildCache, "GOPROXY="+installed.Proxy,
		// The kubectl of the control plane comes first, since the output of another version may differ.
		"PATH="+filepath.Join(o.Root, ".cache", "bin")+string(os.PathListSeparator)+os.Getenv("PATH")), nil
}

// names returns the names of the entries in the root.
func names(root string) (all []string, err error) {
	entries, err := os.ReadDir(root)
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all, err
}

// tidy reports the files that a page has left in the root, since a reader would have to remove them. It removes
// nothing, since the files may be the work of another program.
func (o *Options) tidy(before []string) error {
	after, err := names(o.Root)
	problems := []error{err}
	for _, name := range after {
		if !slices.Contains(before, name) && name != "out" {
			problems = append(problems,
				fmt.Errorf("the page leaves %s at the root of the repository: remove it, and let the page do so", name))
		}
	}
	return errors.Join(problems...)
}

// record writes a transcript, without the paths of folders. Entries that still match stay unchanged.
func record(root, page string, want, got []Entry, folders ...string) error {
	entries := make([]Entry, len(got))
	for i, entry := range got {
		same := slices.IndexFunc(want, entry.isOf)
		if same < 0 {
			entries[i] = entry.redact(folders).recorded()
			continue
		}
		entries[i] = want[same]
		want = want[same+1:]
	}
	if err := os.MkdirAll(filepath.Join(root, filepath.FromSlash(Folder)), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(root, filepath.FromSlash(File(page))), Format(page, entries), 0o644)
}

// isOf reports whether a transcript's entry matches this one.
func (e Entry) isOf(want Entry) bool { return want.matches(e) }

// redact removes texts from the output of the command.
func (e Entry) redact(texts []string) Entry {
	lines := make([]string, len(e.Lines))
	for i, line := range e.Lines {
		for _, text := range texts {
			line = strings.ReplaceAll(line, text, wildcard)
		}
		lines[i] = line
	}
	e.Lines = lines
	return e
}

// compare lists the differences from the transcript.
func compare(page string, blocks []Block, want, got []Entry) error {
	if err := check(page, blocks, want); err != nil {
		return err
	}
	var problems []error
	i := 0
	for _, block := range blocks {
		if block.NotRun != "" {
			continue
		}
		for range block.Commands {
			if !want[i].matches(got[i]) {
				problems = append(problems, &docs.Problem{Page: page, Line: block.Line, Message: difference(want[i], got[i])})
			}
			i++
		}
	}
	return errors.Join(problems...)
}

func difference(want, got Entry) string {
	show := func(entry Entry) string {
		_, text, _ := strings.Cut(string(Format("", []Entry{entry})), "\n\n")
		return text
	}
	return fmt.Sprintf("the page's transcript has:\n%s\nit is:\n%s", show(want), show(got))
}
