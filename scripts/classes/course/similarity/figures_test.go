// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package similarity

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// measured is a pair whose origin is known: one was made from the other, or not.
type measured struct {
	what  string
	score float64
}

// atLeast counts the scores that reach a threshold.
func atLeast(all []measured, threshold float64) (n int) {
	for _, m := range all {
		if m.score >= threshold {
			n++
		}
	}
	return n
}

// sameOrigin is a right design and a wrong solution that was made from it by removing three lines. The comparison
// itself found this pair.
const sameOrigin = "11-workspace: design tag-at-the-end, mutant list-at-the-end"

// figures are the measurements of precision and recall on the corpus.
type figures struct {
	// originals is the number of originals with enough own code, and copies are their disguised copies, by disguise.
	originals int
	copies    map[string][]measured
	// little are the disguised copies of originals with less own code than the full weight needs.
	little []measured
	// independent are pairs of which neither was made from the other. possible is the number of all such pairs, including
	// those that share nothing.
	independent []measured
	possible    int
}

// measure measures the corpus. A copy is a disguised right design or solution, in a class of the lab's other right
// designs and wrong solutions. The class of lab 02 also has six versions in the manner of students. If a solution is
// the original, the comparison does not know it. All other pairs of a class are independent work. So are the solutions
// of labs that do not build on each other, compared without any known code.
func measure(tb testing.TB) figures {
	tb.Helper()
	f := figures{copies: map[string][]measured{}}
	o := Options{Threshold: 1e-9, Evidence: DefaultEvidence}
	labs := corpus(tb)
	for _, l := range labs {
		both, skeleton := learn([]Document{l.skeleton, l.solution}), learn([]Document{l.skeleton})
		class := slices.Concat(l.designs, l.mutants)
		if l.name == "02-reconciler" {
			class = append(class, versions(tb, l.skeleton)...)
		}
		slices.SortFunc(class, func(a, b Document) int { return cmp.Compare(a.Name, b.Name) })
		prints := make([]document, len(class))
		inParallel(len(class), func(i int) { prints[i] = both.fingerprint(class[i]) })
		for _, p := range pairs(class, prints, o) {
			if m := (measured{l.name + ": " + p.A + ", " + p.B, p.Score}); m.what != sameOrigin {
				f.independent = append(f.independent, m)
			}
		}
		f.possible += len(class) * (len(class) - 1) / 2
		for i, original := range class {
			if !strings.HasPrefix(original.Name, "mutant ") {
				others := slices.Delete(slices.Clone(class), i, i+1)
				otherPrints := slices.Delete(slices.Clone(prints), i, i+1)
				f.copied(tb, l.name, original, both, others, otherPrints)
			}
		}
		f.copied(tb, l.name, l.solution, skeleton, nil, nil)
	}
	// Labs 01 to 05 build on each other.
	apart := slices.DeleteFunc(labs, func(l lab) bool { return l.name < "06" && l.name != "02-reconciler" })
	var solutions []Document
	for _, l := range apart {
		solutions = append(solutions, Document{Name: "solution " + l.name, Files: l.solution.Files})
	}
	f.possible += len(solutions) * (len(solutions) - 1) / 2
	for _, p := range Compare(solutions, o) {
		f.independent = append(f.independent, measured{p.A + ", " + p.B, p.Score})
	}
	slices.SortFunc(f.independent, func(a, b measured) int { return cmp.Compare(b.score, a.score) })
	return f
}

// copied measures all disguises of one original in a class.
func (f *figures) copied(
	tb testing.TB, lab string, original Document, k known, others []Document, otherPrints []document,
) {
	tb.Helper()
	first := k.fingerprint(original)
	if len(first.own) == 0 {
		return
	}
	if len(first.own) >= DefaultEvidence {
		f.originals++
	}
	for seed, d := range disguises {
		second := disguise(tb, original, uint64(seed), d.change)
		docs := append([]Document{original, second}, others...)
		prints := append([]document{first, k.fingerprint(second)}, otherPrints...)
		m := measured{what: lab + ": " + original.Name + ", " + d.name}
		for _, p := range pairs(docs, prints, Options{Threshold: 1e-9, Evidence: DefaultEvidence}) {
			if p.A == original.Name && p.B == second.Name {
				m.score = p.Score
			}
		}
		switch {
		case len(first.own) >= DefaultEvidence:
			f.copies[d.name] = append(f.copies[d.name], m)
		case d.claimed:
			f.little = append(f.little, m)
		}
	}
}

// claimed returns the copies under disguises that must not hide a copy.
func (f *figures) claimed() (all []measured) {
	for _, d := range disguises {
		if d.claimed {
			all = append(all, f.copies[d.name]...)
		}
	}
	return all
}

// table returns the table in docs/reference/similarity.md.
func (f *figures) table() string {
	var out strings.Builder
	claimed := f.claimed()
	fmt.Fprintf(&out, "%d originals; %d disguised copies; %d pairs of independent work, of which %d share anything\n",
		f.originals, len(disguises)*f.originals, f.possible, len(f.independent))
	for _, d := range disguises {
		lowest := slices.MinFunc(f.copies[d.name], func(a, b measured) int { return cmp.Compare(a.score, b.score) })
		fmt.Fprintf(&out, "%-26s found %2d of %d; lowest score %.2f (%s)\n",
			d.name, atLeast(f.copies[d.name], DefaultThreshold), len(f.copies[d.name]), lowest.score, lowest.what)
	}
	for _, threshold := range []float64{0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9} {
		right, wrong := atLeast(claimed, threshold), atLeast(f.independent, threshold)
		fmt.Fprintf(&out, "threshold %.1f: %2d wrong pairs, precision %.3f, recall %.3f\n",
			threshold, wrong, float64(right)/float64(right+wrong), float64(right)/float64(len(claimed)))
	}
	fmt.Fprintf(&out, "of originals with too little own code: found %d of %d\n",
		atLeast(f.little, DefaultThreshold), len(f.little))
	for _, m := range f.independent[:6] {
		fmt.Fprintf(&out, "most alike of independent work: %.2f %s\n", m.score, m.what)
	}
	return out.String()
}

// TestPrecisionAndRecall verifies the figures on the page docs/reference/similarity.md.
func TestPrecisionAndRecall(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it reads all solutions and disguises their designs, 10 s on one core")
	}
	f := measure(t)
	t.Log("\n" + f.table())
	claimed := f.claimed()
	right, wrong := atLeast(claimed, DefaultThreshold), atLeast(f.independent, DefaultThreshold)
	if recall := float64(right) / float64(len(claimed)); recall < 0.99 {
		t.Errorf("recall = %.3f, and docs/reference/similarity.md promises at least 0.99: "+
			"find the disguise that now hides a copy", recall)
	}
	if precision := float64(right) / float64(right+wrong); precision < 0.99 {
		t.Errorf("precision = %.3f, and docs/reference/similarity.md promises at least 0.99: %v",
			precision, f.independent[:wrong])
	}
}

// TestPartialCopyIsFound measures how much of a submission must be copied to be found. The rest comes from an
// independent one.
func TestPartialCopyIsFound(t *testing.T) {
	t.Parallel()
	all := corpus(t)
	i := slices.IndexFunc(all, func(l lab) bool { return l.name == "02-reconciler" })
	designs := map[string]Document{}
	for _, d := range all[i].designs {
		designs[d.Name] = d
	}
	informer, other := designs["design informer"], designs["design metadata-only"]
	k := learn([]Document{all[i].skeleton, all[i].solution})
	mixed := Document{
		Name: "mixed", Files: maps.Clone(disguise(t, informer, 1, func(c *copied) { c.rename(); c.swap() }).Files),
	}
	for name, content := range other.Files {
		if path.Ext(name) == ".go" {
			mixed.Files["more/"+name] = content
		}
	}
	docs := []Document{informer, mixed, other}
	prints := make([]document, len(docs))
	for i, d := range docs {
		prints[i] = k.fingerprint(d)
	}
	found := pairs(docs, prints, Options{Threshold: DefaultThreshold, Evidence: DefaultEvidence})
	if len(found) != 2 || found[0].Score < 0.9 || found[1].Score < 0.9 {
		t.Errorf("a submission that contains two others must resemble both: %v", found)
	}
}
