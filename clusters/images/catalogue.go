// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed catalogue.yaml
var catalogueYAML []byte

// Catalogue defines the contents of each image. Its fields are described in docs/reference/images.md.
type Catalogue struct {
	// Debian are roots of Debian packages, by name.
	Debian map[string]Debian `json:"debian"`
	// Programs are Go programs, by name.
	Programs map[string]Program `json:"programs"`
	// Modules are Go modules from which files are taken, by name.
	Modules map[string]Module `json:"modules"`
	// Charts are Helm charts, by name.
	Charts map[string]ChartSource `json:"charts"`
	// Layers are layers that several images share, by name.
	Layers map[string]Layer `json:"layers"`
	// Images are the images, in the order in which they are listed.
	Images []Image `json:"images"`
}

// Debian is a root file system of Debian packages and what they depend on.
type Debian struct {
	// Suite is Debian's release, such as bookworm.
	Suite string `json:"suite"`
	// Packages are installed with what they depend on, but not with what they recommend.
	Packages []string `json:"packages"`
	// Remove are paths, with * for any part of a name, that are left out of the image.
	Remove []string `json:"remove"`
}

// Program is a Go program and how it is built.
type Program struct {
	// Module is the folder of the module in which it is built, relative to clusters/images/programs.
	Module string `json:"module"`
	// Package is the package to build in it. Default: ".".
	Package string `json:"package"`
	// Sources are folders of the module, with everything below them. They and go.mod and go.sum determine when the program
	// is built again. It is for a module that holds much else. Default: the whole module.
	Sources []string `json:"sources,omitempty"`
	// Tags are build tags.
	Tags []string `json:"tags"`
	// Variables are set by the linker: "importpath.name=value". In them, $VERSION is the version of VersionOf, such as
	// v1.2.3; $NUMBER is the same without the v; $MAJOR and $MINOR are its first two parts.
	Variables []string `json:"variables"`
	// VersionOf is a module that Module requires.
	VersionOf string `json:"versionOf"`
	// C reports that the program has C code. It is linked statically all the same.
	C bool `json:"c"`
	// CPackages are the Debian packages that a program with C needs to be built, besides gcc.
	CPackages []string `json:"cPackages"`
	// Output is the program's file, relative to the store's folder, if other commands build it as well.
	Output string `json:"output"`
}

// Module is a Go module from which files are taken.
type Module struct {
	// Path is the module's path.
	Path string `json:"path"`
	// RequiredBy is the folder of a module that requires it, relative to clusters/images/programs. That module's go.mod
	// determines the version.
	RequiredBy string `json:"requiredBy"`
}

// ChartSource is where a Helm chart comes from.
type ChartSource struct {
	// Module is the name of a module, which holds the chart in the folder From.
	Module string `json:"module"`
	From   string `json:"from"`
	// Rename are files that have another name in the chart than in the module.
	Rename map[string]string `json:"rename"`
}

// Image is an entry of the catalogue.
type Image struct {
	// Reference is the image's name and tag, as manifests and charts write it.
	Reference string `json:"reference"`
	// Set is the set that the image belongs to: "node", "cilium", "cert-manager", "course", "conformance", "site".
	Set string `json:"set"`
	// Layers are the image's files, lowest layer first.
	Layers []Layer `json:"layers"`
	// Entrypoint and Command are the command line, User its user, Environment its variables, and WorkingDirectory its
	// folder.
	Entrypoint       []string          `json:"entrypoint"`
	Command          []string          `json:"command"`
	User             string            `json:"user"`
	Environment      map[string]string `json:"environment"`
	WorkingDirectory string            `json:"workingDirectory"`
	// StopSignal is the signal that stops it, if not SIGTERM.
	StopSignal string `json:"stopSignal"`

	catalogue *Catalogue
}

// Layer is a part of an image's files. It is a Debian root, or a combination of the other fields, or a reference to a
// named layer.
type Layer struct {
	// Name is the name of one of the catalogue's layers. YAML has the name in place of the layer: "- base".
	Name string `json:"-"`
	// Debian is the name of a root of packages, all of which is in the layer.
	Debian string `json:"debian"`
	// Directories are paths, with their modes in octal ("1777"). Parent folders of files need not be listed.
	Directories map[string]string `json:"directories"`
	// Programs are paths, with the names of programs.
	Programs map[string]string `json:"programs"`
	// Modes are the modes of programs, in octal, where they are not "0755": "4755" runs as its owner (setuid).
	Modes map[string]string `json:"modes,omitempty"`
	// Files are taken from modules, or have their content here.
	Files []File `json:"files"`
	// Links are paths of symbolic links, with their targets.
	Links map[string]string `json:"links"`
	// Archives are paths, with the references of the images that the archive there contains, for `ctr images import`.
	Archives map[string][]string `json:"archives"`
}

// File is a file, or a folder with everything in it.
type File struct {
	// To is its path in the image.
	To string `json:"to"`
	// Mode is the file's mode in octal. Default: "0644". For a folder it is the mode of all its files.
	Mode string `json:"mode"`

	// Content is the file's content. Exactly one of Content, Debian, Module and Command is given.
	Content string `json:"content"`
	// Debian is the name of a root; From is the file's path there.
	Debian string `json:"debian"`
	// Module is the name of a module; From is a path in it.
	Module string `json:"module"`
	From   string `json:"from"`
	// Command is the command that writes the file or folder From, a path in the checkout, such as make docs.
	Command string `json:"command,omitempty"`
	// Constant is the name of a string constant in the Go file From, which is the content.
	Constant string `json:"constant"`
	// Without are paths below the folder From, with * for any part of a name, that are left out.
	Without []string `json:"without"`
	// Replace are edits of the file. Each text to replace must occur exactly once.
	Replace []Replacement `json:"replace"`
}

// Replacement is one edit of a file.
type Replacement struct {
	Find string `json:"find"`
	With string `json:"with"`
}

// UnmarshalJSON reads a layer, or the name of one.
func (l *Layer) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &l.Name)
	}
	type plain Layer
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode((*plain)(l))
}

// Load returns the catalogue of this checkout.
func Load() (*Catalogue, error) { return parse(catalogueYAML) }

func parse(content []byte) (*Catalogue, error) {
	c := &Catalogue{}
	if err := yaml.UnmarshalStrict(content, c); err != nil {
		return nil, fmt.Errorf("reading clusters/images/catalogue.yaml: %w", err)
	}
	for i := range c.Images {
		c.Images[i].catalogue = c
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("clusters/images/catalogue.yaml: %w", err)
	}
	return c, nil
}

// Set returns the images of a set, in the catalogue's order, or none for an unknown set.
func (c *Catalogue) Set(name string) []Image {
	var images []Image
	for _, image := range c.Images {
		if image.Set == name {
			images = append(images, image)
		}
	}
	return images
}

// Sets returns the names of all sets, in the catalogue's order.
func (c *Catalogue) Sets() []string {
	var sets []string
	for _, image := range c.Images {
		if !slices.Contains(sets, image.Set) {
			sets = append(sets, image.Set)
		}
	}
	return sets
}

// special are the sets that no cluster needs. Kubernetes' conformance tests use the first one. The other one contains
// files that another command has to write first.
var special = []string{"conformance", "site"}

// DefaultImages returns all images except those that no cluster needs, which are built only on request.
func (c *Catalogue) DefaultImages() []Image {
	return slices.DeleteFunc(slices.Clone(c.Images), func(image Image) bool { return slices.Contains(special, image.Set) })
}

// Image returns the image with a reference.
func (c *Catalogue) Image(reference string) (Image, error) {
	for _, image := range c.Images {
		if image.Reference == reference {
			return image, nil
		}
	}
	return Image{}, fmt.Errorf("clusters/images/catalogue.yaml has no image %s", reference)
}

// check finds the mistakes that an editor of the catalogue can make, and reports all of them.
func (c *Catalogue) check() error {
	var problems []error
	report := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	for _, key := range slices.Sorted(maps.Keys(c.Debian)) {
		if d := c.Debian[key]; d.Suite == "" || len(d.Packages) == 0 {
			report("debian %s: a suite and packages are needed", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Programs)) {
		p := c.Programs[key]
		if p.Module == "" {
			report("program %s: the folder of its module is needed", key)
		}
		for _, variable := range p.Variables {
			if strings.ContainsAny(variable, " \t\n'\"") {
				report("program %s: %q must be without spaces and quotes: it is a word of the linker's", key, variable)
			}
			if strings.Contains(variable, "$") && p.VersionOf == "" {
				report("program %s: %q needs versionOf", key, variable)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Modules)) {
		if m := c.Modules[key]; m.Path == "" || m.RequiredBy == "" {
			report("module %s: path and requiredBy are needed", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Charts)) {
		s := c.Charts[key]
		if _, found := c.Modules[s.Module]; !found || s.From == "" {
			report("chart %s: one of the modules and from are needed", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Layers)) {
		c.checkLayer("layer "+key, c.Layers[key], report)
		if c.Layers[key].Name != "" {
			report("layer %s: is only another name of %s", key, c.Layers[key].Name)
		}
	}
	seen := map[string]bool{}
	for _, image := range c.Images {
		if err := checkReference(image.Reference); err != nil {
			report("%w", err)
		} else if seen[image.Reference] {
			report("image %s: is there twice", image.Reference)
		}
		seen[image.Reference] = true
		if image.Set == "" || len(image.Layers) == 0 {
			report("image %s: a set and layers are needed", image.Reference)
		}
		for i, layer := range image.Layers {
			c.checkLayer(fmt.Sprintf("image %s, layer %d", image.Reference, i+1), layer, report)
		}
	}
	return errors.Join(problems...)
}

func (c *Catalogue) checkLayer(where string, l Layer, report func(string, ...any)) {
	if l.Name != "" {
		if _, found := c.Layers[l.Name]; !found {
			report("%s: there is no layer %s", where, l.Name)
		}
		return
	}
	parts := len(l.Directories) + len(l.Programs) + len(l.Files) + len(l.Links) + len(l.Archives)
	switch _, found := c.Debian[l.Debian]; {
	case l.Debian != "" && !found:
		report("%s: there is no Debian root %s", where, l.Debian)
	case l.Debian != "" && parts > 0:
		report("%s: a Debian root is a layer by itself", where)
	case l.Debian == "" && parts == 0:
		report("%s: it is empty", where)
	}
	paths := map[string]bool{}
	once := func(p string) {
		if problem := checkPath(p); problem != "" {
			report("%s: %s %s", where, p, problem)
		}
		if paths[p] {
			report("%s: %s is there twice", where, p)
		}
		paths[p] = true
	}
	for _, p := range slices.Sorted(maps.Keys(l.Directories)) {
		once(p)
		if _, err := mode(l.Directories[p], 0); err != nil {
			report("%s: %s: %w", where, p, err)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(l.Programs)) {
		once(p)
		if _, found := c.Programs[l.Programs[p]]; !found {
			report("%s: there is no program %s", where, l.Programs[p])
		}
	}
	for _, p := range slices.Sorted(maps.Keys(l.Modes)) {
		if _, found := l.Programs[p]; !found {
			report("%s: %s has a mode, but is not a program", where, p)
		}
		if _, err := mode(l.Modes[p], 0); err != nil {
			report("%s: %s: %w", where, p, err)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(l.Links)) {
		once(p)
	}
	for _, p := range slices.Sorted(maps.Keys(l.Archives)) {
		once(p)
		for _, reference := range l.Archives[p] {
			if _, err := c.Image(reference); err != nil {
				report("%s: %w", where, err)
			}
		}
	}
	for _, file := range l.Files {
		once(file.To)
		c.checkFile(where, file, report)
	}
}

func (c *Catalogue) checkFile(where string, file File, report func(string, ...any)) {
	sources := 0
	for _, given := range []bool{file.Content != "", file.Debian != "", file.Module != "", file.Command != ""} {
		if given {
			sources++
		}
	}
	_, root := c.Debian[file.Debian]
	_, module := c.Modules[file.Module]
	switch {
	case sources != 1:
		report("%s: %s comes from one of content, debian, module and command", where, file.To)
	case file.Content == "" && file.From == "":
		report("%s: %s needs from", where, file.To)
	case file.Debian != "" && !root:
		report("%s: there is no Debian root %s", where, file.Debian)
	case file.Module != "" && !module:
		report("%s: there is no module %s", where, file.Module)
	}
	if _, err := mode(file.Mode, 0o644); err != nil {
		report("%s: %s: %w", where, file.To, err)
	}
}

// checkPath reports what is wrong with a path in an image. Debian's /bin, /sbin and /lib are links into /usr. A layer
// that has them as folders would hide the files there.
func checkPath(p string) string {
	if !path.IsAbs(p) || path.Clean(p) != p || p == "/" {
		return "must be an absolute path without . and .."
	}
	switch first, below, _ := strings.Cut(p[1:], "/"); first {
	case "bin", "sbin", "lib", "lib64":
		if below == "" {
			return ""
		}
		return "must be written /usr" + p + ": /" + first + " is a link in Debian"
	}
	return ""
}

func mode(octal string, otherwise fs.FileMode) (fs.FileMode, error) {
	if octal == "" {
		return otherwise, nil
	}
	bits, err := strconv.ParseUint(octal, 8, 12)
	if err != nil {
		return 0, fmt.Errorf("the mode %q must be octal, as in \"0755\"", octal)
	}
	return fs.FileMode(bits), nil
}
