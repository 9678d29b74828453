// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/grading/limited"
)

// layout copies the files of a submission that kustomize reads to a folder of the run, and refuses references to
// anything outside the submission.
type layout struct {
	*Submission
	to      string
	copies  limited.Copies
	visited []string
}

// layOutKustomizations copies config/, and the folders beside it that its kustomizations name. A kustomization that
// names something that is not in the submission is a *Problem, and so is a file that can't be copied.
func (s *Submission) layOutKustomizations(to string) error {
	l := &layout{Submission: s, to: to, copies: limited.Copies{Files: copyFiles, Bytes: copyBytes}}
	err := l.copy("config")
	if err == nil {
		err = l.visit("config/default")
	}
	_, wrong := errors.AsType[*FileError](err)
	_, tooMuch := errors.AsType[*limited.TooMuchError](err)
	if wrong || tooMuch {
		return &Problem{Reason: "it can't be deployed: " + err.Error()}
	}
	return err
}

// copy copies the regular files below a folder of the submission.
func (l *layout) copy(folder string) error {
	return l.walk(folder, func(_ *os.Root, name string, entry fs.DirEntry) error {
		target := filepath.Join(l.to, filepath.FromSlash(name))
		if entry.IsDir() {
			return l.copies.Folder(target)
		}
		return l.copies.Copy(l.Dir, name, target, fileLimit)
	})
}

// kustomizations lists the file names by which kustomize finds a kustomization in a folder.
var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// visit follows the kustomization in a folder to the folders that it names. kustomize itself reports a kustomization
// that can't be read.
func (l *layout) visit(folder string) error {
	if slices.Contains(l.visited, folder) {
		return nil
	}
	l.visited = append(l.visited, folder)
	for _, name := range kustomizations {
		file := path.Join(folder, name)
		content, err := limited.ReadFile(l.to, file, fileLimit)
		if err != nil {
			continue
		}
		var kustomization map[string]any
		if err := yaml.Unmarshal(content, &kustomization); err != nil {
			continue
		}
		for _, named := range l.references(folder, kustomization) {
			if err := l.follow(file, named); err != nil {
				return err
			}
		}
	}
	return nil
}

// remote matches what kustomize would download: a URL, or a repository as in
// github.com/kubernetes-sigs/kustomize//examples.
var remote = regexp.MustCompile(`://|^[\w.-]+@|^git::|^[\w-]+(\.[\w-]+)*\.[a-z]{2,}[:/]`)

func (l *layout) follow(file, named string) error {
	target := path.Join(path.Dir(file), named)
	outside := path.IsAbs(named) || !filepath.IsLocal(filepath.FromSlash(target))
	if !outside {
		if top, _, _ := strings.Cut(target, "/"); !l.has(top) {
			if err := l.copy(top); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		info, err := os.Stat(filepath.Join(l.to, filepath.FromSlash(target)))
		if err == nil && info.IsDir() {
			return l.visit(target)
		} else if err == nil {
			return nil
		}
	}
	switch {
	case remote.MatchString(named):
		return &Problem{Reason: fmt.Sprintf("%s names %s, which kustomize would download: "+
			"a run uses no network, so copy it into the submission", file, named)}
	case outside:
		return &Problem{Reason: fmt.Sprintf("%s names %s, which is outside of the submission's folder: "+
			"copy it into the submission", file, named)}
	}
	return nil // kustomize reports the missing file
}

func (l *layout) has(name string) bool {
	_, err := os.Stat(filepath.Join(l.to, filepath.FromSlash(name)))
	return err == nil
}

// The fields by which a kustomization names files, folders and URLs, in lower case: kustomize ignores the case. The
// second list has fields that hold objects with fields of the third. The fields of plugins name files with such
// objects, too, or hold them as a text.
var (
	referring = []string{
		"resources", "bases", "components", "generators", "transformers", "validators",
		"crds", "configurations", "patchesstrategicmerge",
	}
	holding = []string{"patches", "patchesjson6902", "replacements", "configmapgenerator", "secretgenerator", "openapi"}
	held    = []string{"path", "paths", "files", "env", "envs"}
	plugins = []string{"generators", "transformers", "validators"}
)

// references returns the files, folders and URLs that a kustomization in a folder names, and those that its plugins
// name.
func (l *layout) references(folder string, kustomization map[string]any) (all []string) {
	for field, value := range kustomization {
		field = strings.ToLower(field)
		if slices.Contains(holding, field) {
			all = append(all, heldTexts(value)...)
		}
		if !slices.Contains(referring, field) {
			continue
		}
		for _, text := range texts(value) {
			written := strings.Contains(text, "\n") // in place
			if !written {
				all = append(all, text)
			}
			if !slices.Contains(plugins, field) {
				continue
			}
			content := []byte(text)
			if !written {
				content, _ = limited.ReadFile(l.to, path.Join(folder, text), fileLimit) // a folder is visited instead
			}
			documents, _ := decodeYAML(bytes.NewReader(content)) // kustomize reports errors
			for _, document := range documents {
				all = append(all, heldTexts(document.Object)...)
			}
		}
	}
	slices.Sort(all)
	return all
}

// heldTexts returns the files and URLs that objects name, at any depth.
func heldTexts(value any) (all []string) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			all = append(all, heldTexts(item)...)
		}
	case map[string]any:
		for field, value := range value {
			if !slices.Contains(held, strings.ToLower(field)) {
				all = append(all, heldTexts(value)...)
				continue
			}
			for _, text := range texts(value) {
				if key, file, keyed := strings.Cut(text, "="); keyed && !strings.Contains(key, "/") {
					text = file // after the key of a generated ConfigMap
				}
				all = append(all, text)
			}
		}
	}
	return all
}

// texts returns a text, or the texts of a list.
func texts(value any) (all []string) {
	list, is := value.([]any)
	if !is {
		list = []any{value}
	}
	for _, item := range list {
		if text, is := item.(string); is && text != "" {
			all = append(all, text)
		}
	}
	return all
}
