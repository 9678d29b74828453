// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// generatorOptions holds the options that a submission's own `make manifests` passes to the generators of
// controller-gen, as far as they change the result: generator → option → value.
type generatorOptions map[string]map[string]string

// takenOptions lists the options that are used, with the form of their values. Older versions had other options, which
// the pinned version refuses.
var takenOptions = map[string]map[string]*regexp.Regexp{
	"crd": {
		"maxDescLen":                 number,
		"generateEmbeddedObjectMeta": boolean,
		"allowDangerousTypes":        boolean,
		"ignoreUnexportedFields":     boolean,
	},
	"rbac": {"roleName": regexp.MustCompile(`^[a-z0-9][-a-z0-9.:]*$`)},
}

var (
	number  = regexp.MustCompile(`^[0-9]+$`)
	boolean = regexp.MustCompile(`^(true|false)$`)
)

// generatorCall matches a generator with options, as on controller-gen's command line:
// crd:maxDescLen=0,allowDangerousTypes=true
var generatorCall = regexp.MustCompile(`\b(crd|rbac):([A-Za-z]+=[^\s"',;$]+(?:,[A-Za-z]+=[^\s"',;$]+)*)`)

// optionFiles lists the files in which projects call controller-gen.
var optionFiles = []string{
	"Makefile", "makefile", "GNUmakefile", "*.mk", "PROJECT", "Taskfile.yml", "Taskfile.yaml", "justfile", "magefile.go",
	"hack/*.sh", "scripts/*.sh", "build/*.mk", "hack/*.mk",
}

// defaultRole is the name of the operator's role in kubebuilder's scaffolds.
const defaultRole = "manager-role"

// generatorOptions finds the options of the submission. It ignores files that can't be read.
func (s *Submission) generatorOptions() generatorOptions {
	options := generatorOptions{"crd": {}, "rbac": {"roleName": defaultRole}}
	for _, pattern := range optionFiles {
		files, err := s.glob(pattern)
		if err != nil {
			continue
		}
		for _, file := range files {
			if content, err := s.ReadFile(file); err == nil {
				options.take(withoutComments(content))
			}
		}
	}
	for _, folder := range s.sources.folders() {
		for _, file := range s.sources[folder] {
			if content, err := s.ReadFile(file); err == nil && bytes.Contains(content, []byte("//go:generate")) {
				options.take(directives(content))
			}
		}
	}
	return options
}

// withoutComments removes the lines that a shell or make would not run.
func withoutComments(content []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(content) {
		if !bytes.HasPrefix(bytes.TrimLeft(line, " \t@"), []byte("#")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// directives returns the `//go:generate` lines of a Go file.
func directives(content []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(content) {
		if bytes.HasPrefix(line, []byte("//go:generate ")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

func (o generatorOptions) take(content []byte) {
	for _, call := range generatorCall.FindAllSubmatch(content, -1) {
		generator := string(call[1])
		for option := range strings.SplitSeq(string(call[2]), ",") {
			name, value, _ := strings.Cut(option, "=")
			if form := takenOptions[generator][name]; form != nil && form.MatchString(value) {
				o[generator][name] = value
			}
		}
	}
}

// argument returns a generator with its options, as an argument of controller-gen.
func (o generatorOptions) argument(generator string) string {
	var options []string
	for name, value := range o[generator] {
		options = append(options, name+"="+value)
	}
	slices.Sort(options)
	return strings.TrimSuffix(generator+":"+strings.Join(options, ","), ":")
}
