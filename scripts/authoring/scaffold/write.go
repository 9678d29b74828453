// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package scaffold

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/template"

	"lva.io/operators/clusters/removal"
	"lva.io/operators/scripts/checkout/command"
)

// Below templates, VERSION, KIND and GROUP in a file's path stand for the user's choices. The files in WEBHOOK are for
// projects that have webhooks.
//
//go:embed all:templates
var templates embed.FS

const (
	suffix  = ".tmpl"
	webhook = "WEBHOOK/"
)

// These are the arguments of controller-gen, as in the Makefile.
var (
	deepCopies = []string{"object:headerFile=hack/boilerplate.go.txt", "paths=./..."}
	manifests  = []string{
		"rbac:roleName=manager-role", "crd", "webhook", "paths=./...", "output:crd:artifacts:config=config/crd/bases",
	}
)

// Create writes the project. It calls prepare after it has written the templates' files, and before it runs the
// controller-gen at that path, which generates the other files. The modules of the project must then be on this
// machine. If a step fails or is interrupted, no file of the project is left. It returns the project's files,
// slash-separated and sorted.
func (p *Project) Create(
	ctx context.Context, controllerGen string, prepare func(dir string) error,
) (files []string, err error) {
	if err := os.MkdirAll(filepath.Dir(p.Dir), 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder for the project: %w", err)
	}
	// The draft is beside the project, so that it can be moved there.
	above, prefix := filepath.Dir(p.Dir), "."+p.Name+"-new-"
	removal.Abandoned(above, prefix)
	draft, err := os.MkdirTemp(above, removal.Temporary(prefix))
	if err != nil {
		return nil, fmt.Errorf("creating a temporary folder for the project: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(draft)) }()
	if err := p.write(draft); err != nil {
		return nil, err
	}
	if err := prepare(draft); err != nil {
		return nil, err
	}
	if err := generate(ctx, draft, controllerGen); err != nil {
		return nil, err
	}
	if err := fs.WalkDir(os.DirFS(draft), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, name)
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("listing the written files: %w", err)
	}
	return files, p.move(draft)
}

// write writes the files of the templates, and go.mod and go.sum.
func (p *Project) write(dir string) error {
	mod, err := p.goMod()
	if err != nil {
		return err
	}
	if err := errors.Join(writeFile(dir, "go.mod", mod), writeFile(dir, "go.sum", p.sum)); err != nil {
		return err
	}
	names := strings.NewReplacer("VERSION", p.Version, "KIND", p.KindLower, "GROUP", p.Group)
	return fs.WalkDir(templates, "templates", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(file, "templates/"), suffix)
		forWebhooks := strings.HasPrefix(name, webhook)
		if forWebhooks && !p.Webhook {
			return nil
		}
		content, err := p.fill(file)
		if err != nil {
			return err
		}
		return writeFile(dir, names.Replace(strings.TrimPrefix(name, webhook)), content)
	})
}

// fill fills in a template. It formats Go code, because the order of imports depends on the names.
func (p *Project) fill(file string) ([]byte, error) {
	text, err := templates.ReadFile(file)
	if err != nil {
		return nil, err
	}
	parsed, err := template.New(file).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("reading a template: %w", err)
	}
	var content bytes.Buffer
	if err := parsed.Execute(&content, p); err != nil {
		return nil, fmt.Errorf("filling in a template: %w", err)
	}
	if path.Ext(strings.TrimSuffix(file, suffix)) != ".go" {
		return content.Bytes(), nil
	}
	formatted, err := format.Source(content.Bytes())
	if err != nil {
		return nil, fmt.Errorf("formatting %s: %w", file, err)
	}
	return formatted, nil
}

func writeFile(dir, name string, content []byte) error {
	target := filepath.Join(dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, content, 0o644)); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// generate generates the DeepCopy methods first, since the code with the other markers compiles only with them.
func generate(ctx context.Context, dir, controllerGen string) error {
	runner, err := command.NewRunner()
	if err != nil {
		return err
	}
	defer runner.Close()
	for _, args := range [][]string{deepCopies, manifests} {
		if _, err := runner.Run(ctx, dir, nil, controllerGen, args...); err != nil {
			return fmt.Errorf("generating from the markers: %w", err)
		}
	}
	return nil
}

// checkDir returns an error unless the folder is missing, or empty except for .git.
func (p *Project) checkDir() error {
	entries, err := os.ReadDir(p.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if info, statErr := os.Stat(p.Dir); statErr == nil && !info.IsDir() {
		return fmt.Errorf("%s is a file: name a folder that is missing or empty", p.Dir)
	}
	if err != nil {
		return fmt.Errorf("reading the folder for the project: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() != ".git" {
			return fmt.Errorf("%s is not empty (it has %s), and nothing is overwritten: "+
				"name a folder that is missing or empty", p.Dir, entry.Name())
		}
	}
	return nil
}

// move moves the draft to the project's folder.
func (p *Project) move(draft string) error {
	if err := p.checkDir(); err != nil { // another program may have written there meanwhile
		return err
	}
	if err := os.MkdirAll(p.Dir, 0o755); err != nil {
		return fmt.Errorf("creating the folder of the project: %w", err)
	}
	entries, err := os.ReadDir(draft)
	if err != nil {
		return fmt.Errorf("moving the project to its folder: %w", err)
	}
	for _, entry := range entries {
		if err := os.Rename(filepath.Join(draft, entry.Name()), filepath.Join(p.Dir, entry.Name())); err != nil {
			return fmt.Errorf("moving the project to its folder: %w", err)
		}
	}
	return nil
}
