// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"context"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/changes"
	"lva.io/operators/scripts/manifest"
	"lva.io/operators/scripts/mutant"
	"lva.io/operators/scripts/parts"
)

// completeAtMost is how many labs are graded completely because they changed. A change to more of them is one to what
// they share, and grading all of that takes longer than CI may.
const completeAtMost = 2

// Draw says which mutants and designs are graded, and which solutions tortured, where there is not time for all of
// them. Skeletons and solutions are always graded: docs/decisions/0030-ci-in-five-parts.md.
type Draw struct {
	// Part, from 1 to parts.Parts, is graded of the designs and mutants that need not be graded for another reason.
	Part int
	// Since is what changed since a commit that was certified. Mutants that are new since then, or others, are graded,
	// and all of a lab that changed itself, if not more than two did. Nil: nobody knows what changed.
	Since *changes.Changes
}

// choice are the mutants, designs and tortures of a lab that are graded, and why.
type choice struct {
	graded   map[string]bool // all there are, by name
	others   int             // are graded because they are new or others
	complete bool
	draw     *Draw
}

// choose draws the mutants of each lab.
func (d *Draw) choose(ctx context.Context, labs []Options) ([]*choice, error) {
	var changed []string
	if d.Since != nil {
		var err error
		if changed, err = d.changed(ctx, labs); err != nil {
			return nil, err
		}
	}
	var chosen []*choice
	for i := range labs {
		o := &labs[i]
		list, err := mutant.Load(o.SolutionDir(o.Lab))
		if err != nil {
			return nil, err
		}
		var before []mutant.Mutant
		if d.Since != nil {
			if before, err = d.before(ctx, o.Lab); err != nil {
				return nil, err
			}
		}
		right, err := designs(o.Root, o.Lab.Name)
		if err != nil {
			return nil, err
		}
		c := &choice{graded: map[string]bool{}, draw: d, complete: len(changed) <= completeAtMost && slices.Contains(changed, o.Lab.Name)}
		take := func(name string, other bool) {
			if other {
				c.others++
			}
			c.graded[name] = c.complete || other || parts.Of(o.Lab.Name+"/"+name) == d.Part
		}
		if o.tortured() {
			take(tortureName, false)
		}
		for _, done := range o.partly() {
			take(stepsName(done), false)
		}
		for _, r := range right {
			take(r.name, d.Since != nil && d.Since.Any(func(file string) bool { return file == path.Join(designsDir, r.name+".txtar") }))
		}
		for _, m := range list.Mutants {
			take(m.Name, d.Since != nil && !slices.ContainsFunc(before, func(b mutant.Mutant) bool { return reflect.DeepEqual(b, m) }))
		}
		chosen = append(chosen, c)
	}
	return chosen, nil
}

// changed are the labs that changed themselves: their solution, their entry in labs.yaml, or a package that their
// checks import and those of some other lab do not.
func (d *Draw) changed(ctx context.Context, labs []Options) (names []string, err error) {
	if len(labs) == 0 {
		return nil, nil
	}
	all := labs[0].Labs.Labs
	var checks []string
	for i := range all {
		checks = append(checks, "./checks/"+all[i].Name)
	}
	imports, err := d.Since.Imports(ctx, "lva.io/operators/", "scripts", checks)
	if err != nil {
		return nil, err
	}
	uses := map[string]int{}
	for _, folders := range imports {
		for _, folder := range folders {
			uses[folder]++
		}
	}
	content, err := d.Since.Before(ctx, manifest.File)
	if err != nil {
		return nil, err
	}
	before, err := manifest.Parse(labs[0].Root, []byte(content))
	if err != nil {
		before = &manifest.Manifest{} // the schema has changed, so all labs have
	}
	for i := range all {
		lab := &all[i]
		own := slices.DeleteFunc(imports["scripts/checks/"+lab.Name], func(name string) bool { return uses[name] == len(all) })
		inFolders := func(name string) bool { // checks are tests, which Touch leaves out
			in := strings.HasPrefix(name, "solutions/"+lab.Name+"/") || strings.HasPrefix(name, "scripts/checks/"+lab.Name+"/")
			return in && path.Base(name) != mutant.File && path.Ext(name) != ".md"
		}
		same := slices.ContainsFunc(before.Labs, func(b manifest.Lab) bool { return reflect.DeepEqual(b, *lab) })
		if !same || d.Since.Touch(own...) || d.Since.Any(inFolders) {
			names = append(names, lab.Name)
		}
	}
	return names, nil
}

// before are the mutants of a lab at the commit.
func (d *Draw) before(ctx context.Context, lab *manifest.Lab) ([]mutant.Mutant, error) {
	content, err := d.Since.Before(ctx, path.Join("solutions", lab.Name, mutant.File))
	if err != nil || content == "" {
		return nil, err
	}
	var list mutant.List
	if wrong := yaml.Unmarshal([]byte(content), &list); wrong != nil {
		list = mutant.List{} // it has another form: all mutants are others
	}
	return list.Mutants, nil
}

// drawn reports whether a candidate is graded by some runs only.
func (c candidate) drawn() bool {
	return c.misconception != "" || c.design != "" || c.done > 0 || c.name == tortureName
}

// drawn are the candidates that the choice leaves.
func (o *Options) drawn(all []candidate) []candidate {
	if o.choice == nil {
		return all
	}
	return slices.DeleteFunc(all, func(c candidate) bool { return c.drawn() && !o.choice.graded[c.name] })
}

// String says what is graded and what is left out.
func (c *choice) String() string {
	graded := 0
	for _, yes := range c.graded {
		if yes {
			graded++
		}
	}
	if c.complete {
		return fmt.Sprintf("all %d mutants, designs and tortures are graded: the lab changed since %s", len(c.graded), c.draw.Since.Commit())
	}
	text := fmt.Sprintf("%d of %d mutants, designs and tortures are graded: part %d of %d", graded, len(c.graded), c.draw.Part, parts.Parts)
	if c.draw.Since != nil {
		text += fmt.Sprintf(", and %d that are new or changed since %s", c.others, c.draw.Since.Commit())
	}
	return fmt.Sprintf("%s. %d are left out", text, len(c.graded)-graded)
}
