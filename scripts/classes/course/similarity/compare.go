// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package similarity

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Document is one student's submission for one lab.
type Document struct {
	// Name is the student's name. It must be unique. If there are several attempts, pass one.
	Name string
	// Files are contents by slash-separated paths from the module's folder. Only Go files are compared, except those that
	// are marked as generated (https://go.dev/s/generatedcode).
	Files map[string][]byte
}

// Options configure Compare: which code is known, and which pairs are reported.
type Options struct {
	// Known are the lab's skeleton and its solutions. Code that is in one of them is not a copy.
	Known []Document
	// Threshold is the smallest score of a reported pair, 0 to 1. Default: DefaultThreshold.
	Threshold float64
	// Evidence is the number of fingerprints from which on a submission has its full weight. If the smaller submission of
	// a pair has fewer fingerprints, the score is reduced in proportion, because little code is weak evidence. Default:
	// DefaultEvidence.
	Evidence int
}

// The defaults were chosen from the data of this package's tests: see docs/reference/similarity.md.
const (
	DefaultThreshold = 0.5
	DefaultEvidence  = 32
)

// Region is a range of lines of a file. Both ends are included, and the first line is 1.
type Region struct {
	File     string
	From, To int
}

// Match is a pair of similar declarations, or of their common parts.
type Match struct{ A, B Region }

// Pair is a pair of similar documents.
type Pair struct {
	// A and B are names of documents, in alphabetical order.
	A, B string
	// Score is the share, by weight, of the smaller document's fingerprints that the other one also has, 0 to 1.
	Score float64
	// Shared is the number of fingerprints that both have.
	Shared int
	// Matches are in the order of A's files and lines.
	Matches []Match
}

// Compare returns the pairs above the threshold, the highest score first. The documents are those of one lab, in any
// order. A Document without Go files is similar to none.
func Compare(docs []Document, o Options) []Pair {
	o.Threshold = cmp.Or(o.Threshold, DefaultThreshold)
	o.Evidence = cmp.Or(o.Evidence, DefaultEvidence)
	k := learn(o.Known)
	docs = slices.SortedFunc(slices.Values(docs), func(a, b Document) int { return cmp.Compare(a.Name, b.Name) })
	prints := make([]document, len(docs))
	inParallel(len(docs), func(i int) { prints[i] = k.fingerprint(docs[i]) })
	return pairs(docs, prints, o)
}

// pairs compares documents by their fingerprints.
func pairs(docs []Document, prints []document, o Options) []Pair {
	x := newIndex(prints)
	found := make([][]Pair, len(docs))
	inParallel(len(docs), func(i int) {
		for _, p := range x.alike(i, o) {
			p.pair.A, p.pair.B = docs[i].Name, docs[p.other].Name
			p.pair.Matches = matches(&prints[i], &prints[p.other], x)
			found[i] = append(found[i], p.pair)
		}
	})
	all := slices.Concat(found...)
	slices.SortStableFunc(all, func(a, b Pair) int {
		return cmp.Or(
			cmp.Compare(b.Score, a.Score), cmp.Compare(b.Shared, a.Shared), cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B),
		)
	})
	return all
}

func inParallel(n int, do func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	workers.Wait()
}

// document holds the fingerprints of a submission.
type document struct {
	units []unit
	// own are the fingerprints that no known document has, each with its first position, in order.
	own []mark
}

// mark is a fingerprint: the hash of a row of tokens, and the declaration and position at which the row begins.
type mark struct {
	hash     uint64
	unit, at int32
}

// known holds the fingerprints of the skeleton and the solutions.
type known struct {
	external map[string]bool
	rows     map[uint64]bool
}

func learn(docs []Document) known {
	k := known{external: externalNames(docs), rows: map[uint64]bool{}}
	for _, d := range docs {
		for _, u := range read(d, k.external) {
			for _, h := range rows(u.tokens) {
				k.rows[h] = true
			}
		}
	}
	return k
}

func (k known) fingerprint(doc Document) document {
	d := document{units: read(doc, k.external)}
	for i, u := range d.units {
		hashes := rows(u.tokens)
		for _, at := range winnow(hashes, window) {
			if !k.rows[hashes[at]] {
				d.own = append(d.own, mark{hashes[at], int32(i), int32(at)})
			}
		}
	}
	slices.SortFunc(d.own, func(a, b mark) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.unit, b.unit), cmp.Compare(a.at, b.at))
	})
	d.own = slices.CompactFunc(d.own, func(a, b mark) bool { return a.hash == b.hash })
	return d
}

// index finds the documents that have a fingerprint.
type index struct {
	documents []document
	// holders are the documents that have each fingerprint, ascending. It omits fingerprints of most documents, and those
	// of only one.
	holders map[uint64][]int32
	// weights are the weights by number of holders.
	weights []float64
	// sizes are the sums of the weights of the documents' fingerprints.
	sizes []float64
}

// common returns the number of holders above which a fingerprint counts as one of most documents. In a small class, a
// few students who copied from each other are not most of the class.
func common(documents int) int { return max(4, documents/2) }

func newIndex(documents []document) *index {
	x := &index{
		documents: documents, holders: map[uint64][]int32{},
		weights: make([]float64, len(documents)+1), sizes: make([]float64, len(documents)),
	}
	n := float64(len(documents) + 1)
	for held := 1; held <= min(common(len(documents)), len(documents)); held++ {
		// The inverse document frequency, scaled so that a fingerprint of two documents weighs 1.
		x.weights[held] = min(1, math.Log(n/float64(held))/math.Log(n/2))
	}
	for i, d := range documents {
		for _, p := range d.own {
			x.holders[p.hash] = append(x.holders[p.hash], int32(i))
		}
	}
	for i, d := range documents {
		for _, p := range d.own {
			x.sizes[i] += x.weights[len(x.holders[p.hash])]
		}
	}
	for hash, holders := range x.holders {
		if len(holders) == 1 || x.weights[len(holders)] == 0 {
			delete(x.holders, hash)
		}
	}
	return x
}

type candidate struct {
	other int
	pair  Pair
}

// alike returns the documents after document i that are similar to it.
func (x *index) alike(i int, o Options) (found []candidate) {
	weight := make([]float64, len(x.documents))
	shared := make([]int, len(x.documents))
	for _, p := range x.documents[i].own {
		holders := x.holders[p.hash]
		after, _ := slices.BinarySearch(holders, int32(i)+1)
		for _, j := range holders[after:] {
			weight[j] += x.weights[len(holders)]
			shared[j]++
		}
	}
	for j := i + 1; j < len(x.documents); j++ {
		if shared[j] == 0 {
			continue
		}
		score := weight[j] / max(min(x.sizes[i], x.sizes[j]), float64(o.Evidence))
		if score >= o.Threshold {
			found = append(found, candidate{j, Pair{Score: min(1, score), Shared: shared[j]}})
		}
	}
	return found
}

// matches returns the regions of two documents that share fingerprints. It pairs each declaration of a with the
// declaration of b with which it shares most.
func matches(a, b *document, x *index) []Match {
	type both struct{ a, b int32 }
	shared := map[both][][2]mark{}
	for i, j := 0, 0; i < len(a.own) && j < len(b.own); {
		switch cmp.Compare(a.own[i].hash, b.own[j].hash) {
		case -1:
			i++
		case 1:
			j++
		default:
			if len(x.holders[a.own[i].hash]) > 0 {
				key := both{a.own[i].unit, b.own[j].unit}
				shared[key] = append(shared[key], [2]mark{a.own[i], b.own[j]})
			}
			i, j = i+1, j+1
		}
	}
	// A fingerprint that occurs in several declarations is known only by its first position, so a declaration may share a
	// few with a wrong one. It is shown with the one with which it shares most.
	most := map[int32]both{}
	for key, prints := range shared {
		best, known := most[key.a]
		if !known || len(prints) > len(shared[best]) || len(prints) == len(shared[best]) && key.b < best.b {
			most[key.a] = key
		}
	}
	var all []Match
	for _, key := range most {
		ofA, ofB := &a.units[key.a], &b.units[key.b]
		var m Match
		for _, p := range shared[key] {
			m.A = m.A.with(ofA, p[0].at)
			m.B = m.B.with(ofB, p[1].at)
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Match) int {
		return cmp.Or(cmp.Compare(a.A.File, b.A.File), cmp.Compare(a.A.From, b.A.From), cmp.Compare(a.A.To, b.A.To),
			cmp.Compare(a.B.File, b.B.File), cmp.Compare(a.B.From, b.B.From))
	})
	return all
}

// with extends the region by the row that begins at a token of a declaration.
func (r Region) with(u *unit, at int32) Region {
	lines := u.lines[at:min(int(at)+rowTokens, len(u.lines))]
	from, to := int(slices.Min(lines)), int(slices.Max(lines))
	if r.File == "" {
		return Region{File: u.file, From: from, To: to}
	}
	return Region{File: r.File, From: min(r.From, from), To: max(r.To, to)}
}

// Clusters returns the groups of documents that pairs connect, the largest first, each in alphabetical order. In a
// group of three, each document is in a pair with another one, but not necessarily with all others.
func Clusters(pairs []Pair) [][]string {
	parent := map[string]string{}
	var root func(name string) string
	root = func(name string) string {
		if up, known := parent[name]; known && up != name {
			parent[name] = root(up)
		} else {
			parent[name] = name
		}
		return parent[name]
	}
	for _, p := range pairs {
		parent[root(p.B)] = root(p.A)
	}
	members := map[string][]string{}
	for name := range parent {
		members[root(name)] = append(members[root(name)], name)
	}
	var groups [][]string
	for _, group := range members {
		slices.Sort(group)
		groups = append(groups, group)
	}
	slices.SortFunc(groups, func(a, b []string) int { return cmp.Or(cmp.Compare(len(b), len(a)), slices.Compare(a, b)) })
	return groups
}
