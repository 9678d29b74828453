// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	modulepath "golang.org/x/mod/module"

	"lva.io/operators/clusters/gobuild"
)

// fetchTimeout is the time limit for downloading a submission's modules. Those of a lab are 33 MB.
const fetchTimeout = 15 * time.Minute

// MissingModules returns how many of the modules that the go.mod in a folder names are not in the module cache. It only
// checks for their folders, so it takes less than a millisecond. It may count a module that is needed only on another
// system, or that is replaced.
func MissingModules(dir string) int {
	content, err := (&Submission{Dir: dir}).ReadFile("go.mod")
	if err != nil {
		return 0 // the error is reported when the submission is opened
	}
	mod, err := modfile.ParseLax("go.mod", content, nil)
	if err != nil {
		return 0
	}
	cache := gobuild.ModuleCache()
	missing := 0
	for _, required := range mod.Require {
		if !isCached(cache, required.Mod) {
			missing++
		}
	}
	return missing
}

// missing returns the modules, as path@version, that go.mod names and that are not in the module cache. It returns those
// that replace others, and none that a folder replaces.
func (b *Builder) missing() (modules []string) {
	content, err := b.ReadFile("go.mod")
	if err != nil {
		return nil
	}
	mod, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		return nil
	}
	cache := gobuild.ModuleCache()
	for _, required := range mod.Require {
		needed := required.Mod
		for _, replacement := range mod.Replace {
			if old := replacement.Old; old.Path == needed.Path && (old.Version == "" || old.Version == needed.Version) {
				needed = replacement.New
				break
			}
		}
		if modulepath.Check(needed.Path, needed.Version) == nil && !isCached(cache, needed) {
			modules = append(modules, needed.String())
		}
	}
	return modules
}

// isCached reports whether a module is in the module cache, and was downloaded completely.
// (go.dev/ref/mod#module-cache)
func isCached(cache string, m modulepath.Version) bool {
	path, err := modulepath.EscapePath(m.Path)
	if err != nil {
		return false
	}
	version, err := modulepath.EscapeVersion(m.Version)
	if err != nil {
		return false
	}
	if _, err := os.Stat(filepath.Join(cache, "cache", "download", path, "@v", version+".partial")); err == nil {
		return false
	}
	info, err := os.Stat(filepath.Join(cache, path+"@"+version))
	return err == nil && info.IsDir()
}

// Fetch downloads the modules that the submission's packages need and that are not on this machine. It writes only into
// the module cache: go.mod and go.sum stay as they were submitted, and the checksums in go.sum must match. progress
// receives how many modules were started, and an estimate of the total, or 0. If a download fails, the error is a
// *EnvironmentError.
func (b *Builder) Fetch(ctx context.Context, progress func(done, total int)) error {
	environment := gobuild.Environment()
	if b.System != "" {
		environment = append(environment, "GOOS="+b.System)
	}
	if b.ProxyOnly {
		environment = append(environment, proxyOnly(environment)...)
	}
	// All packages are listed, because controller-gen reads them all. `go list` downloads only imported modules. All
	// modules that go.mod names would be five times as much.
	args := []string{"list", "-deps", "-f", "{{.ImportPath}}"}
	if b.Tests {
		args = append(args, "-test")
	}
	output, err := b.tool(ctx, tool{
		path: "go", args: append(args, "./..."), environment: environment, timeout: fetchTimeout, online: true,
		stdout: io.Discard, stderr: &downloads{total: MissingModules(b.Dir), progress: progress},
	})
	if errors.Is(err, errTooLong) {
		return &EnvironmentError{Reason: fmt.Sprintf("its modules were not downloaded within %s: "+
			"check the connection, or set GOPROXY to a nearer module proxy, and run it again; "+
			"what was downloaded is kept", fetchTimeout)}
	}
	return problem(err, output,
		"its modules can't be downloaded, or its go.mod does not fit its code: try `go mod tidy` in its folder", "")
}

// defaultProxy is the default module proxy of the go command. (go.dev/ref/mod#environment-variables)
const defaultProxy = "https://proxy.golang.org"

// proxyOnly returns variables with which the go command downloads modules only from the proxies of an environment. It
// removes the word direct, with which the go command would contact the host in a module's path. If no proxy is left, it
// uses the default one.
func proxyOnly(environment []string) []string {
	proxies := defaultProxy
	for _, variable := range environment {
		if value, ok := strings.CutPrefix(variable, "GOPROXY="); ok {
			proxies = value // the last one counts
		}
	}
	kept := slices.DeleteFunc(
		strings.FieldsFunc(proxies, func(r rune) bool { return r == ',' || r == '|' }),
		func(proxy string) bool {
			return strings.TrimSpace(proxy) == "direct"
		},
	)
	if len(kept) == 0 {
		kept = []string{defaultProxy}
	}
	return []string{"GOPROXY=" + strings.Join(kept, ","), "GONOPROXY=none", "GOVCS=*:off"}
}

// downloads counts the downloads that the go command reports, a line each.
type downloads struct {
	progress    func(done, total int)
	done, total int
	line        []byte // the incomplete last line
}

func (d *downloads) Write(p []byte) (int, error) {
	d.line = append(d.line, p...)
	for {
		line, rest, ended := bytes.Cut(d.line, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		d.line = rest
		if bytes.HasPrefix(line, []byte("go: downloading ")) {
			d.done++
			d.progress(d.done, max(d.done, d.total))
		}
	}
}
