// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package certify

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/authoring/mutant"
	"lva.io/operators/scripts/checkout/changes"
	"lva.io/operators/scripts/checkout/manifest"
)

// Draw selects the mutants that are graded when there is not enough time for all of them. Skeletons and solutions are
// always graded: docs/decisions/0032-gate-and-proof.md.
type Draw struct {
	// Seed decides which mutants are drawn. The same seed always draws the same mutants.
	Seed string
	// Mutants is how many mutants of each lab are drawn. Changed is how many are drawn of a lab that changed since the
	// commit below, if at most three labs did.
	Mutants, Changed int
	// Since has the changes since a commit that was certified. Mutants and designs that are new or different since then
	// are graded as well. Nil: the changes are unknown.
	Since *changes.Changes
	// Most limits how many new or different mutants and designs of all labs together are graded. 0: no limit.
	Most int
}

// changedMost is how many labs can have changed themselves. A change to more labs is a change to shared code.
const changedMost = 3

// choice has the mutants, designs and tortures of a lab that are graded, and the reasons.
type choice struct {
	graded  map[string]bool // all there are, by name
	changed int             // are graded because they are new or different
	late    []string        // are new or different, and beyond the limit
	draw    *Draw
}

// choose draws the mutants of each lab.
func (d *Draw) choose(ctx context.Context, labs []Options) ([]*choice, error) {
	var changed []string
	if d.Since != nil {
		var err error
		if changed, err = d.changed(ctx, labs); err != nil {
			return nil, err
		}
		if len(changed) > changedMost {
			changed = nil
		}
	}
	type name struct {
		lab   *choice
		name  string
		order string
	}
	byOrder := func(a, b name) int { return strings.Compare(a.order, b.order) }
	var chosen []*choice
	var others []name
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
		c := &choice{graded: map[string]bool{}, draw: d}
		if o.tortured() {
			c.graded[tortureName] = false
		}
		for _, done := range o.partly() {
			c.graded[stepsName(done)] = false
		}
		order := func(n string) name {
			return name{c, n, fmt.Sprintf("%x", sha256.Sum256([]byte(d.Seed+" "+o.Lab.Name+" "+n)))}
		}
		for _, r := range right {
			c.graded[r.name] = false
			if d.Since != nil && d.Since.Any(func(file string) bool { return file == path.Join(designsDir, r.name+".txtar") }) {
				others = append(others, order(r.name))
			}
		}
		var same []name
		for _, m := range list.Mutants {
			c.graded[m.Name] = false
			if d.Since != nil && !slices.ContainsFunc(before, func(b mutant.Mutant) bool { return reflect.DeepEqual(b, m) }) {
				others = append(others, order(m.Name))
			} else {
				same = append(same, order(m.Name))
			}
		}
		slices.SortFunc(same, byOrder)
		drawn := d.Mutants
		if slices.Contains(changed, o.Lab.Name) {
			drawn = max(drawn, d.Changed)
		}
		for _, n := range same[:min(drawn, len(same))] {
			c.graded[n.name] = true
		}
		chosen = append(chosen, c)
	}
	slices.SortFunc(others, byOrder)
	for i, n := range others {
		if d.Most > 0 && i >= d.Most {
			n.lab.late = append(n.lab.late, n.name)
			continue
		}
		n.lab.graded[n.name] = true
		n.lab.changed++
	}
	return chosen, nil
}

// changed returns the labs that changed themselves. A lab changed if its solution changed, or its entry in labs.yaml,
// or a package that its checks import and those of some other lab do not.
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
		own := slices.DeleteFunc(imports["scripts/checks/"+lab.Name], func(name string) bool {
			return uses[name] == len(all)
		})
		inFolders := func(name string) bool { // checks are tests, and Touch leaves out tests
			in := strings.HasPrefix(name, "solutions/"+lab.Name+"/") || strings.HasPrefix(name, "scripts/checks/"+lab.Name+"/")
			return in && path.Base(name) != mutant.File && path.Ext(name) != ".md" && !d.Since.SameCode(ctx, name)
		}
		same := slices.ContainsFunc(before.Labs, func(b manifest.Lab) bool { return reflect.DeepEqual(b, *lab) })
		if !same || d.Since.Touch(ctx, own...) || d.Since.Any(inFolders) {
			names = append(names, lab.Name)
		}
	}
	return names, nil
}

// before returns the mutants of a lab at the commit.
func (d *Draw) before(ctx context.Context, lab *manifest.Lab) ([]mutant.Mutant, error) {
	content, err := d.Since.Before(ctx, path.Join("solutions", lab.Name, mutant.File))
	if err != nil || content == "" {
		return nil, err
	}
	var list mutant.List
	if wrong := yaml.Unmarshal([]byte(content), &list); wrong != nil {
		list = mutant.List{} // it has another format, so all mutants count as different
	}
	return list.Mutants, nil
}

// drawn reports whether a candidate is graded only in some runs.
func (c candidate) drawn() bool {
	return c.misconception != "" || c.design != "" || c.done > 0 || c.name == tortureName
}

// drawn returns the candidates that the choice keeps.
func (o *Options) drawn(all []candidate) []candidate {
	if o.choice == nil {
		return all
	}
	return slices.DeleteFunc(all, func(c candidate) bool { return c.drawn() && !o.choice.graded[c.name] })
}

// String describes which submissions are graded and which are left out.
func (c *choice) String() string {
	graded := 0
	for _, yes := range c.graded {
		if yes {
			graded++
		}
	}
	text := fmt.Sprintf("%d of %d mutants, designs and tortures are graded: %d drawn by %s",
		graded, len(c.graded), graded-c.changed, c.draw.Seed)
	if c.draw.Since != nil {
		text += fmt.Sprintf(", and %d that are new or different since %s", c.changed, c.draw.Since.Commit())
	}
	if len(c.late) > 0 {
		text += fmt.Sprintf(". Left to the proof, though new or different: %s", strings.Join(c.late, ", "))
	}
	return text
}
