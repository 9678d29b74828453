// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"lva.io/operators/scripts/checkout/command"
)

// toolsModule has versions of its own, because nothing that it compiles is shared with other modules.
const toolsModule = "scripts/checkout/tools"

// isProgram reports whether a module is that of a program in an image of clusters/images. Such a module has the
// versions of the program's own module, and often needs a newer Go, and no lab compiles any of it. It is large, so it
// is compiled only when its image is built, not to check our few lines.
func isProgram(m module) bool {
	return strings.HasPrefix(m.dir, "clusters/images/programs/") && len(m.file.Require) > 0
}

var goVersion = Check{
	Name:     "go-version",
	Sentence: "all modules, go.work and Dockerfiles name the same version of Go, and no toolchain",
	Find: func(_ context.Context, r *Repository) ([]Finding, error) {
		modules, want, err := r.goVersions()
		if err != nil {
			return nil, err
		}
		var findings []Finding
		for _, m := range modules {
			have := "none"
			if m.file.Go != nil {
				have = m.file.Go.Version
			}
			newer := isProgram(m) && semver.Compare("v"+have, "v"+want) > 0
			if have != want && !newer {
				findings = append(findings, Finding{
					Location: path.Join(m.dir, "go.mod"),
					Message:  fmt.Sprintf("names Go %s, and go.work names %s", have, want),
				})
			}
			if m.file.Toolchain != nil {
				findings = append(findings, Finding{
					Location: path.Join(m.dir, "go.mod"),
					Message:  "names a toolchain, which would be downloaded: labs build with the installed Go",
				})
			}
		}
		images, err := r.goImages(want)
		return append(findings, images...), err
	},
	Fix: func(_ context.Context, r *Repository) ([]string, error) {
		modules, want, err := r.goVersions()
		if err != nil {
			return nil, err
		}
		var changed []string
		for _, m := range modules {
			newer := isProgram(m) && m.file.Go != nil &&
				semver.Compare("v"+m.file.Go.Version, "v"+want) > 0 && m.file.Toolchain == nil
			if isLab(m.dir) || newer || (m.file.Go != nil && m.file.Go.Version == want && m.file.Toolchain == nil) {
				continue
			}
			if err := m.file.AddGoStmt(want); err != nil {
				return changed, err
			}
			m.file.DropToolchainStmt()
			m.file.Cleanup()
			content, err := m.file.Format()
			if err != nil {
				return changed, err
			}
			name := path.Join(m.dir, "go.mod")
			changed = append(changed, name)
			if err := r.replace(name, content); err != nil {
				return changed, err
			}
		}
		return changed, nil
	},
}

// goImages finds the Dockerfiles of solutions that build with another version of Go.
func (r *Repository) goImages(version string) ([]Finding, error) {
	labs, err := r.solutions()
	if err != nil {
		return nil, err
	}
	image := "FROM golang:" + strings.TrimPrefix(semver.MajorMinor("v"+version), "v") + " "
	var findings []Finding
	for _, lab := range labs {
		name := path.Join("solutions", lab, "Dockerfile")
		content, err := r.read(name)
		if err != nil {
			return nil, err
		}
		if content != nil && !strings.Contains(string(content), image) {
			findings = append(findings, Finding{
				Location: name,
				Message:  "go.work names Go " + version + ": begin its first stage with " + strings.TrimSpace(image),
				ByHand:   true,
			})
		}
	}
	return findings, nil
}

func (r *Repository) goVersions() (modules []module, want string, err error) {
	content, err := os.ReadFile(r.path("go.work"))
	if err != nil {
		return nil, "", err
	}
	work, err := modfile.ParseWork("go.work", content, nil)
	if err != nil {
		return nil, "", err
	}
	if work.Go == nil {
		return nil, "", errors.New("go.work names no version of Go: add a line such as go 1.26.0")
	}
	modules, err = r.modules()
	return modules, work.Go.Version, err
}

var tidiness = Check{
	Name:     "tidy",
	Sentence: "go.mod and go.sum of every module are tidy",
	Find: func(ctx context.Context, r *Repository) ([]Finding, error) {
		modules, err := r.modules()
		if err != nil {
			return nil, err
		}
		var findings []Finding
		for i, m := range modules {
			r.Progress("modules", i, len(modules))
			diff, err := r.Runner.Run(ctx, r.path(m.dir), nil, "go", "mod", "tidy", "-diff")
			if output, failed := command.Output(err); failed && diff == "" {
				return findings, fmt.Errorf("tidying %s needs all modules that its tests import; "+
					"is there a network?\n%s", m.dir, output)
			} else if err != nil && !failed {
				return findings, err
			}
			if diff != "" {
				findings = append(findings, Finding{Location: path.Join(m.dir, "go.mod"), Message: "is not tidy", Detail: diff})
			}
		}
		return findings, nil
	},
	Fix: func(ctx context.Context, r *Repository) ([]string, error) {
		modules, err := r.modules()
		if err != nil {
			return nil, err
		}
		var changed []string
		for i, m := range modules {
			r.Progress("modules", i, len(modules))
			if isLab(m.dir) {
				continue
			}
			files, err := r.changing([]string{path.Join(m.dir, "go.mod"), path.Join(m.dir, "go.sum")}, func() error {
				return r.tidy(ctx, m.dir)
			})
			changed = append(changed, files...)
			if err != nil {
				return changed, err
			}
		}
		return changed, nil
	},
}

func (r *Repository) tidy(ctx context.Context, dir string) error {
	if _, err := r.Runner.Run(ctx, r.path(dir), []string{"GOFLAGS=-mod=mod"}, "go", "mod", "tidy"); err != nil {
		return fmt.Errorf("tidying %s: %w", dir, err)
	}
	return nil
}

// changing calls do, and returns which of the files it changed.
func (r *Repository) changing(names []string, do func() error) ([]string, error) {
	before := map[string][]byte{}
	for _, name := range names {
		content, err := r.read(name)
		if err != nil {
			return nil, err
		}
		before[name] = content
	}
	problem := do()
	var changed []string
	for _, name := range names {
		after, err := r.read(name)
		if err != nil {
			return changed, errors.Join(problem, err)
		}
		if !bytes.Equal(before[name], after) {
			changed = append(changed, name)
		}
	}
	return changed, problem
}

// moduleVersions saves minutes of a student's first run: control plane, harness and labs compile the same packages only
// once.
var moduleVersions = Check{
	Name:     "module-versions",
	Sentence: "all of our modules compile the same version of each module",
	Find: func(ctx context.Context, r *Repository) ([]Finding, error) {
		compiled, err := r.compiledModules(ctx)
		if err != nil {
			return nil, err
		}
		var findings []Finding
		for _, name := range slices.Sorted(maps.Keys(compiled)) {
			versions := compiled[name]
			if highest := versions.highest(); !versions.agree() {
				finding := Finding{Message: fmt.Sprintf("%s is compiled in several versions; all should have %s", name, highest)}
				for _, dir := range slices.Sorted(maps.Keys(versions)) {
					finding.Detail += fmt.Sprintf("%-12s %s\n", versions[dir].version, path.Join(dir, "go.mod"))
					if versions[dir].replaced && versions[dir].version != highest {
						finding.ByHand = true
						finding.Detail += "             (by a replace directive, which has to be changed by hand)\n"
					}
				}
				findings = append(findings, finding)
			}
		}
		return findings, nil
	},
	Fix: fixModuleVersions,
}

// compiledVersion is the version of a module that one of our modules compiles.
type compiledVersion struct {
	version  string
	replaced bool
}

// byModule has the versions of one module, by the folder of our module.
type byModule map[string]compiledVersion

func (v byModule) highest() string {
	highest := ""
	for _, c := range v {
		if semver.Compare(c.version, highest) > 0 {
			highest = c.version
		}
	}
	return highest
}

func (v byModule) agree() bool {
	highest := v.highest()
	for _, c := range v {
		if c.version != highest {
			return false
		}
	}
	return true
}

// compiledModules lists which version of each foreign module our modules compile, their tests included.
func (r *Repository) compiledModules(ctx context.Context) (map[string]byModule, error) {
	modules, err := r.modules()
	if err != nil {
		return nil, err
	}
	compiled := map[string]byModule{}
	for i, m := range modules {
		r.Progress("modules", i, len(modules))
		if m.dir == toolsModule || isProgram(m) {
			continue
		}
		const format = `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{with .Replace}} {{.Path}} {{.Version}}{{end}}{{end}}{{end}}`
		// -e: a lab may be in the middle of an edit. Other checks report that it does not compile.
		list, err := r.Runner.Run(ctx, r.path(m.dir), nil, "go", "list", "-e", "-deps", "-test", "-f", format, "./...")
		if err != nil {
			return nil, fmt.Errorf("listing what %s compiles: %w", m.dir, err)
		}
		for line := range strings.Lines(list) {
			name, version, replaced, ok := parseCompiled(line)
			if !ok {
				continue
			}
			if compiled[name] == nil {
				compiled[name] = byModule{}
			}
			compiled[name][m.dir] = compiledVersion{version: version, replaced: replaced}
		}
	}
	return compiled, nil
}

// parseCompiled reads "path version" or "path version replacement [version]". A replacement without a version is a
// folder: one of our own modules.
func parseCompiled(line string) (name, version string, replaced, ok bool) {
	switch fields := strings.Fields(line); len(fields) {
	case 2:
		return fields[0], fields[1], false, semver.IsValid(fields[1])
	case 4:
		return fields[2], fields[3], true, true
	}
	return "", "", false, false
}

// fixModuleVersions raises versions that are behind. Raising one module can raise others that it requires, so it
// repeats the comparison.
func fixModuleVersions(ctx context.Context, r *Repository) ([]string, error) {
	var changed []string
	const rounds = 5
	for range rounds {
		compiled, err := r.compiledModules(ctx)
		if err != nil {
			return changed, err
		}
		raise := map[string][]string{} // by folder of our module: arguments of go mod edit
		for name, versions := range compiled {
			for dir, c := range versions {
				if c.version != versions.highest() && !c.replaced && !isLab(dir) {
					raise[dir] = append(raise[dir], "-require="+name+"@"+versions.highest())
				}
			}
		}
		if len(raise) == 0 {
			return changed, nil
		}
		for _, dir := range slices.Sorted(maps.Keys(raise)) {
			files, err := r.changing([]string{path.Join(dir, "go.mod"), path.Join(dir, "go.sum")}, func() error {
				slices.Sort(raise[dir])
				if _, err := r.Runner.Run(ctx, r.path(dir), nil,
					"go", append([]string{"mod", "edit"}, raise[dir]...)...); err != nil {
					return fmt.Errorf("raising versions in %s: %w", dir, err)
				}
				return r.tidy(ctx, dir)
			})
			for _, name := range files {
				if !slices.Contains(changed, name) {
					changed = append(changed, name)
				}
			}
			if err != nil {
				return changed, err
			}
		}
	}
	return changed, fmt.Errorf("the versions still differ after %d rounds: "+
		"run `make verify` and raise them by hand", rounds)
}
