// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// generatorOptions are what a submission's own `make manifests` tells the generators of controller-gen, as far as it
// changes what comes of it: generator → option → value.
type generatorOptions map[string]map[string]string

// takenOptions are those that are taken, with their values' form: older versions had others, which the pinned one
// refuses.
var takenOptions = map[string]map[string]*regexp.Regexp{
	"crd": {
		"maxDescLen": number, "generateEmbeddedObjectMeta": boolean, "allowDangerousTypes": boolean, "ignoreUnexportedFields": boolean,
	},
	"rbac": {"roleName": regexp.MustCompile(`^[a-z0-9][-a-z0-9.:]*$`)},
}

var (
	number  = regexp.MustCompile(`^[0-9]+$`)
	boolean = regexp.MustCompile(`^(true|false)$`)
)

// generatorCall is a generator with options, as on controller-gen's command line:
// crd:maxDescLen=0,allowDangerousTypes=true
var generatorCall = regexp.MustCompile(`\b(crd|rbac):([A-Za-z]+=[^\s"',;$]+(?:,[A-Za-z]+=[^\s"',;$]+)*)`)

// optionFiles are where projects call controller-gen.
var optionFiles = []string{
	"Makefile", "makefile", "GNUmakefile", "*.mk", "PROJECT", "Taskfile.yml", "Taskfile.yaml", "justfile", "magefile.go",
	"hack/*.sh", "scripts/*.sh", "build/*.mk", "hack/*.mk",
}

// defaultRole is how kubebuilder's scaffolds call the operator's role.
const defaultRole = "manager-role"

// generatorOptions finds the options of the submission. What can't be read has none.
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

// withoutComments leaves out the lines that a shell or make would not run.
func withoutComments(content []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(content) {
		if !bytes.HasPrefix(bytes.TrimLeft(line, " \t@"), []byte("#")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// directives are the `//go:generate` lines of a Go file.
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

// of is a generator with its options, as an argument of controller-gen.
func (o generatorOptions) of(generator string) string {
	var options []string
	for name, value := range o[generator] {
		options = append(options, name+"="+value)
	}
	slices.Sort(options)
	return strings.TrimSuffix(generator+":"+strings.Join(options, ","), ":")
}
