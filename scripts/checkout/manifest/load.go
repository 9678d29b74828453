// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"sigs.k8s.io/yaml"
)

// maxPoints is the sum of the points of a lab's checks.
const maxPoints = 100

// Load reads labs/labs.yaml below the repository's root. The error lists everything that is wrong with the file, one
// problem per line, with the file, the line and the path of the wrong value.
func Load(root string) (*Manifest, error) {
	data, err := read(root, File)
	if err != nil {
		return nil, err
	}
	return Parse(root, data)
}

// Parse reads a list of labs by the schema of the checkout at root, for example the list of an earlier commit.
func Parse(root string, data []byte) (*Manifest, error) {
	schema, err := read(root, SchemaFile)
	if err != nil {
		return nil, err
	}
	return parse(data, schema)
}

func read(root, file string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s in %s: run this command in a clone of Operator Labs", file, root)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the list of labs: %w", err)
	}
	return data, nil
}

func parse(data, schema []byte) (*Manifest, error) {
	// Syntax and duplicate keys are checked first, because without them there is no document whose values could be
	// checked.
	document, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("%s is not valid YAML: %w", File, err)
	}
	where, err := newPositions(data)
	if err != nil {
		return nil, fmt.Errorf("%s is not valid YAML: %w", File, err)
	}
	if err := checkSchema(document, schema, where); err != nil {
		return nil, err
	}
	var manifest Manifest
	// The types are strict, too. Otherwise a field that the schema allows and the types don't have would be read and
	// forgotten.
	if err := yaml.UnmarshalStrict(data, &manifest); err != nil {
		return nil, fmt.Errorf("reading %s: %w", File, err)
	}
	if err := manifest.check(where); err != nil {
		return nil, err
	}
	manifest.expand()
	return &manifest, nil
}

// expand puts the preconditions of each lab before its own checks.
func (m *Manifest) expand() {
	for i := range m.Labs {
		lab := &m.Labs[i]
		if lab.Preconditions == nil {
			continue
		}
		required, err := m.Lab(lab.Preconditions.Lab)
		if err != nil {
			continue // check has found it
		}
		var all []Check
		for _, id := range lab.Preconditions.Checks {
			check, err := required.Check(id)
			if err != nil {
				continue // check has found it
			}
			copied := *check
			copied.Points, copied.Part, copied.Needs = 0, "", nil
			all = append(all, copied)
		}
		lab.Checks = append(all, lab.Checks...)
	}
}

// checkSchema finds everything that labs.schema.json does not allow.
func checkSchema(document, schema []byte, where *positions) error {
	schemaDocument, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return fmt.Errorf("%s is not valid JSON: %w", SchemaFile, err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(SchemaFile, schemaDocument); err != nil {
		return fmt.Errorf("reading %s: %w", SchemaFile, err)
	}
	compiled, err := compiler.Compile(SchemaFile)
	if err != nil {
		return fmt.Errorf("%s is not a valid JSON Schema: %w", SchemaFile, err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return fmt.Errorf("%s is not valid YAML: %w", File, err)
	}
	err = compiled.Validate(value)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return fmt.Errorf("%s: %w", File, err)
	}
	var found problems
	printer := message.NewPrinter(language.English)
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		text := e.ErrorKind.LocalizedString(printer)
		// The description explains what is right there, which the broken rule alone ("got 1, want 2") does not.
		if rule, err := compiler.Compile(e.SchemaURL); err == nil && rule.Description != "" {
			text += "; expected: " + strings.TrimSuffix(rule.Description, ".")
		}
		found.add(where, e.InstanceLocation, "%s", text)
	}
	walk(invalid)
	return found.err()
}

// check finds what a schema cannot express.
func (m *Manifest) check(where *positions) error {
	var found problems
	numbers, names, shortNames := map[int]string{}, map[string]bool{}, map[string]string{}
	for i := range m.Labs {
		lab := &m.Labs[i]
		at := func(more ...any) []string { return path(append([]any{"labs", i}, more...)...) }

		if other, ok := numbers[lab.Number]; ok {
			found.add(where, at("number"), "%d is the number of %s too; give each lab its own", lab.Number, other)
		}
		switch other, taken := shortNames[lab.ShortName()]; {
		case names[lab.Name]:
			found.add(where, at("name"), "there are two labs named %s; give each its own name", lab.Name)
		case taken:
			found.add(where, at("name"), "%q means %s already; give each lab its own name", lab.ShortName(), other)
		}
		if prefix := fmt.Sprintf("%02d-", lab.Number); !strings.HasPrefix(lab.Name, prefix) {
			found.add(where, at("name"), "%s is the folder of lab %d; let it begin with %s", lab.Name, lab.Number, prefix)
		}
		if lab.StartsFrom != "" && !names[lab.StartsFrom] {
			found.add(where, at("startsFrom"), "there is no lab %s before this one; name one of %s, or none",
				lab.StartsFrom, earlierLabs(m.Labs[:i]))
		}
		if lab.Preconditions != nil {
			lab.checkPreconditions(&found, where, at, m.Labs[:i])
		}
		if len(lab.Addons) > 0 && !lab.NeedsNode(lab.Stage) {
			found.add(where, at("addons"),
				"add-ons are Pods, which need a node; "+
					"give the lab a stage that has one, as pod, or node: true")
		}
		if lab.Node && lab.Stage.Pods() {
			found.add(where, at("node"), "the stage %s has a node already; leave node out", lab.Stage)
		}
		if lab.TimeLimit.Duration <= 0 {
			found.add(where, at("timeLimit"),
				"a time limit of %s ends every run; write something like 2m", lab.TimeLimit.Duration)
		}
		numbers[lab.Number], names[lab.Name], shortNames[lab.ShortName()] = lab.Name, true, lab.Name
		lab.check(&found, where, at)
	}
	return found.err()
}

func (l *Lab) check(found *problems, where *positions, at func(...any) []string) {
	index := map[string]int{}
	for i, check := range l.Checks {
		if _, ok := index[check.ID]; ok {
			found.add(where, at("checks", i, "id"), "lab %s has two checks %s; give each its own id", l.Name, check.ID)
			continue
		}
		index[check.ID] = i
	}
	for i, check := range l.Checks {
		for j, need := range check.Needs {
			other, ok := index[need]
			switch {
			case !ok:
				found.add(where, at("checks", i, "needs", j),
					"lab %s has no check %s; needs names checks of the same lab", l.Name, need)
			case need == check.ID:
				found.add(where, at("checks", i, "needs", j), "%s needs itself; leave it out", need)
			case other > i:
				// A check needs only earlier ones. So the checks can run in the order of the list, and there are no cycles.
				found.add(where, at("checks", i, "needs", j),
					"%s comes after %s; move it before the checks that need it", need, check.ID)
			}
		}
	}
	for i, check := range l.Checks {
		for j, cause := range check.Causes {
			_, known := index[cause]
			switch {
			case !known:
				found.add(where, at("checks", i, "causes", j),
					"lab %s has no check %s; causes names checks of the same lab", l.Name, cause)
			case l.causedBy(cause, check.ID, map[string]bool{}):
				found.add(where, at("checks", i, "causes", j), "%s would be the cause of itself; leave it out", check.ID)
			}
		}
	}
	l.checkParts(found, where, at)
	l.checkSteps(found, where, at)
	l.checkExtension(found, where, at)
	l.checkNode(found, where, at)
	if i, taken := index[OwnTestsID]; taken {
		found.add(where, at("checks", i, "id"),
			"%s is the check of the student's own tests, which `tests` asks for; give this one another id", OwnTestsID)
	}
	sum := l.FullScore()
	if sum != maxPoints {
		found.add(where, at("checks"), "the points of lab %s sum to %d; make it %d", l.Name, sum, maxPoints)
	}
}

// checkExtension requires that the checks of an extension are the last ones, because they change the cluster.
func (l *Lab) checkExtension(found *problems, where *positions, at func(...any) []string) {
	extended := false
	for i, check := range l.Checks {
		switch {
		case check.Extension && l.Extension == nil:
			found.add(where, at("checks", i, "extension"),
				"lab %s has no extension; declare it with extension: {version: …}", l.Name)
		case !check.Extension && extended:
			found.add(where, at("checks", i),
				"%s comes after checks of the extension, which change the cluster; move it before them", check.ID)
		}
		extended = extended || check.Extension
	}
	if l.Extension != nil && !extended {
		found.add(where, at("extension"), "no check of lab %s is one of the extension; give those extension: true", l.Name)
	}
}

// checkNode requires that a lab declares which of its checks need a node, if some do not.
func (l *Lab) checkNode(found *problems, where *positions, at func(...any) []string) {
	some := false
	for i, check := range l.Checks {
		if check.Node && (!l.Node || l.Stage.Pods()) {
			found.add(where, at("checks", i, "node"),
				"lab %s has no node: true, or all its checks need one since its operator is a Pod; leave it out", l.Name)
		}
		some = some || check.Node
	}
	if l.Node && !l.Stage.Pods() && len(l.Addons) == 0 && !some {
		found.add(where, at("node"),
			"no check of lab %s needs the node; "+
				"give those that look at Pods node: true, or leave it out", l.Name)
	}
}

// checkParts requires that parts can be done one after the other, so the checks of a part follow each other. Checks
// that apply only when all parts are done belong to no part, and come last.
func (l *Lab) checkParts(found *problems, where *positions, at func(...any) []string) {
	parts := l.Parts()
	if len(parts) == 0 {
		return
	}
	ended := map[string]bool{}
	for i, check := range l.Checks {
		switch {
		case check.Part == "" && slices.ContainsFunc(l.Checks[i:], func(next Check) bool { return next.Part != "" }):
			found.add(where, at("checks", i),
				"%s is in no part, and later checks of lab %s are; name one of %s, or move it after them",
				check.ID, l.Name, strings.Join(parts, ", "))
		case check.Part != "" && ended[check.Part]:
			found.add(where, at("checks", i, "part"),
				"checks of another part are between %s and the others of %s; keep the checks of a part together",
				check.ID, check.Part)
		}
		if i+1 < len(l.Checks) && l.Checks[i+1].Part != check.Part {
			ended[check.Part] = true
		}
	}
}

// checkSteps requires that a lab's steps can be done one after the other. Each check has a step, and none needs a check
// of a later one.
func (l *Lab) checkSteps(found *problems, where *positions, at func(...any) []string) {
	if l.Steps() == 0 {
		return
	}
	for i, check := range l.Checks {
		if check.Precondition() || check.Extension {
			continue
		}
		if check.Step == 0 {
			found.add(where, at("checks", i),
				"%s has no step, and other checks of lab %s have; give it the step that is done last before it can pass",
				check.ID, l.Name)
		}
		for _, need := range check.Needs {
			if needed, err := l.Check(need); err == nil && needed.Step > check.Step {
				found.add(where, at("checks", i, "step"),
					"%s is of step %d and needs %s of step %d; correct one of the steps", check.ID, check.Step, need, needed.Step)
			}
		}
	}
}

func (l *Lab) checkPreconditions(found *problems, where *positions, at func(...any) []string, earlier []Lab) {
	i := slices.IndexFunc(earlier, func(other Lab) bool { return other.Name == l.Preconditions.Lab })
	if i < 0 {
		found.add(where, at("preconditions", "lab"),
			"there is no lab %s before this one; name one of %s", l.Preconditions.Lab, earlierLabs(earlier))
		return
	}
	for j, id := range l.Preconditions.Checks {
		if _, err := earlier[i].Check(id); err != nil {
			found.add(where, at("preconditions", "checks", j), "%v", err)
		}
		if _, err := l.Check(id); err == nil {
			found.add(where, at("preconditions", "checks", j), "%s is a check of lab %s, too; rename one of them", id, l.Name)
		}
	}
}

// causedBy reports whether another check is among the causes of a check, or among theirs.
func (l *Lab) causedBy(from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	check, err := l.Check(from)
	if err != nil || seen[from] {
		return false
	}
	seen[from] = true
	return slices.ContainsFunc(check.Causes, func(cause string) bool { return l.causedBy(cause, to, seen) })
}

func earlierLabs(labs []Lab) string {
	if len(labs) == 0 {
		return "those before it (there are none)"
	}
	names := make([]string, len(labs))
	for i, lab := range labs {
		names[i] = lab.Name
	}
	return strings.Join(names, ", ")
}

// problems collects all mistakes, so that an author can fix them all at once.
type problems []problem

type problem struct {
	line int
	text string
}

func (p *problems) add(where *positions, path []string, format string, args ...any) {
	line := where.line(path)
	*p = append(*p, problem{line, fmt.Sprintf("%s:%d: %s: %s", File, line, dotted(path), fmt.Sprintf(format, args...))})
}

func (p problems) err() error {
	slices.SortStableFunc(p, func(a, b problem) int { return a.line - b.line })
	errs := make([]error, len(p))
	for i := range p {
		errs[i] = errors.New(p[i].text)
	}
	return errors.Join(errs...)
}
