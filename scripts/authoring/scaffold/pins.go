// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package scaffold

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// model is the solution whose module versions a new project gets. The modules of the labs are compiled already, so
// nothing is downloaded.
const model = "solutions/04-webhook"

// Pins are the versions of the tools and libraries that build a project. They are read from the checkout, so that each
// version is written in one place.
type Pins struct {
	// Go is the version of Go as it appears in an image tag, such as "1.26". Kubernetes is the version of the API server
	// in tests, such as "1.36".
	Go, Kubernetes string
	// ControllerRuntime and ControllerTools are the versions of these modules, with a leading v.
	ControllerRuntime, ControllerTools string

	mod *modfile.File
	sum []byte
}

func readPins(root string) (Pins, error) {
	mod, err := readMod(filepath.Join(root, filepath.FromSlash(model)))
	if err != nil {
		return Pins{}, err
	}
	tools, err := readMod(filepath.Join(root, "scripts", "checkout", "tools"))
	if err != nil {
		return Pins{}, err
	}
	sum, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(model), "go.sum"))
	if err != nil {
		return Pins{}, fmt.Errorf("reading the checksums of %s: %w", model, err)
	}
	pins := Pins{mod: mod, sum: sum}
	if mod.Go != nil {
		pins.Go = strings.TrimPrefix(semver.MajorMinor("v"+mod.Go.Version), "v")
	}
	pins.ControllerRuntime = versionOf(mod, "sigs.k8s.io/controller-runtime")
	pins.ControllerTools = versionOf(tools, "sigs.k8s.io/controller-tools")
	// k8s.io/client-go v0.36.3 belongs to Kubernetes 1.36.
	pins.Kubernetes = strings.Replace(semver.MajorMinor(versionOf(mod, "k8s.io/client-go")), "v0.", "1.", 1)
	if pins.Go == "" || pins.ControllerRuntime == "" || pins.ControllerTools == "" || pins.Kubernetes == "" {
		return Pins{}, fmt.Errorf("the go.mod of %s or of scripts/checkout/tools lacks a version: "+
			"restore them from git", model)
	}
	return pins, nil
}

func readMod(dir string) (*modfile.File, error) {
	file := filepath.Join(dir, "go.mod")
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading which versions to build with: %w", err)
	}
	mod, err := modfile.Parse(file, content, nil)
	if err != nil {
		return nil, fmt.Errorf("reading which versions to build with: %w", err)
	}
	return mod, nil
}

func versionOf(mod *modfile.File, path string) string {
	for _, required := range mod.Require {
		if required.Mod.Path == path {
			return required.Mod.Version
		}
	}
	return ""
}

// goMod returns the go.mod of a project, which is that of the model with another module path. Modules that the
// templates do not import are marked indirect, as `go mod tidy` would.
func (p *Project) goMod() ([]byte, error) {
	if err := p.mod.AddModuleStmt(p.Module); err != nil {
		return nil, fmt.Errorf("naming the module: %w", err)
	}
	for _, required := range p.mod.Require {
		required.Indirect = required.Indirect || required.Mod.Path == "k8s.io/api"
	}
	p.mod.SetRequireSeparateIndirect(p.mod.Require)
	p.mod.Cleanup()
	content, err := p.mod.Format()
	if err != nil {
		return nil, fmt.Errorf("writing go.mod: %w", err)
	}
	return content, nil
}
