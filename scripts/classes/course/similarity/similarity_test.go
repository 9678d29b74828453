// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package similarity

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shop is a program that no other student would write.
const shop = `package shop

import (
	"fmt"
	"strings"

	"example.com/client"
)

const most = 3

// Sell sells.
func Sell(c client.Client, flavours []string) error {
	taken := map[string]int{}
	for _, flavour := range flavours {
		taken[strings.ToLower(flavour)]++
		if taken[flavour] > most {
			c.Delete(flavour, client.Foreground)
			continue
		}
		c.Status().Update(flavour, client.Owner("shop"))
	}
	if err := c.Get("all", &taken); err != nil {
		return fmt.Errorf("get all: %w", err)
	}
	total := 0
	for name := range taken {
		total += len(name) * taken[name]
	}
	fmt.Println(total, strings.Repeat("-", total))
	return c.Close(total, client.Background)
}
`

func document1(name, content string) Document {
	return Document{Name: name, Files: map[string][]byte{"shop.go": []byte(content)}}
}

// small compares as if every submission had enough code.
var small = Options{Evidence: 4}

func TestDisguisedCopyIsFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, content string
		least         float64
	}{
		{"the same", shop, 1},
		{"comments", strings.ReplaceAll(shop, "// Sell sells.", "/* Mine. */ // All mine."), 1},
		{
			"one line", strings.ReplaceAll(shop, "c.Delete(flavour, client.Foreground)\n\t\t\tcontinue",
				"c.Delete(flavour,\n\n client.Foreground,\n); continue"), 1,
		},
		{
			"names",
			strings.NewReplacer("taken", "count", "flavours", "in", "flavour", "f", "Sell", "Vend", "total", "s").Replace(shop),
			1,
		},
		{"a constant", strings.NewReplacer("const most = 3\n", "", "> most", "> 3").Replace(shop), 1},
		{
			"a constant in the function",
			strings.NewReplacer("const most = 3\n", "", "\ttotal := 0\n", "\tconst most = 3\n\ttotal := 0\n").Replace(shop), 1,
		},
		{
			"statements",
			strings.NewReplacer("\ttaken := map[string]int{}\n", "",
				"\ttotal := 0\n", "\ttotal := 0\n\ttaken := map[string]int{}\n").Replace(shop), 1,
		},
		{
			"an if",
			strings.NewReplacer("if err := c.Get(\"all\", &taken); err != nil {",
				"err := c.Get(\"all\", &taken)\n\tif err != nil {").Replace(shop), 1,
		},
		{"another string", strings.ReplaceAll(shop, "get all: %w", "cannot get: %w"), 1},
		{"another package", strings.ReplaceAll(shop, "package shop", "package kiosk"), 1},
		{"code that does not parse", shop + "\nfunc {{{ broken", 0.9},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pairs := Compare([]Document{document1("ada", shop), document1("bob", test.content)}, small)
			if test.least > 0 && (len(pairs) != 1 || pairs[0].Score < test.least) {
				t.Errorf("the disguise hides a copy: %+v", pairs)
			}
		})
	}
}

func TestImportNamesAreIgnored(t *testing.T) {
	t.Parallel()
	other := strings.ReplaceAll(
		strings.ReplaceAll(shop, "client.", "kube."), "\t\"example.com/client\"", "\tkube \"example.com/client\"",
	)
	if pairs := Compare([]Document{document1("ada", shop), document1("bob", other)}, small); len(pairs) != 1 ||
		pairs[0].Score != 1 {
		t.Errorf("another name of an import hides a copy: %+v", pairs)
	}
}

// TestDecoysDoNotHideCopy checks that names of other modules stay, even if the copy declares all of them for another
// purpose.
func TestDecoysDoNotHideCopy(t *testing.T) {
	t.Parallel()
	decoy := shop + "\ntype decoy struct{ Status, Update, Get, Close, Delete int }\n"
	solution := "package shop\n\nfunc F(c C) { c.Status().Update(); c.Get(); c.Close(); c.Delete() }\n"
	o := Options{Evidence: 4, Known: []Document{document1("solution", solution)}}
	if pairs := Compare([]Document{document1("ada", shop), document1("bob", decoy)}, o); len(pairs) != 1 ||
		pairs[0].Score < 0.95 {
		t.Errorf("decoys hide a copy: %+v", pairs)
	}
}

func TestCommonCodeIsIgnored(t *testing.T) {
	t.Parallel()
	for copies, want := range map[int]int{5: 10, 6: 0} {
		docs := synthetic(rand.New(rand.NewPCG(11, 12)), 10-copies, 10)
		for i := range copies {
			docs = append(docs, document1(fmt.Sprint("copy ", i), shop))
		}
		if pairs := Compare(docs, small); len(pairs) != want {
			t.Errorf("%d of 10 documents are equal: got %d pairs, want %d", copies, len(pairs), want)
		}
	}
}

func TestNoFalsePositives(t *testing.T) {
	t.Parallel()
	ada, bob := document1("ada", shop), document1("bob", shop)
	for _, test := range []struct {
		name string
		docs []Document
		o    Options
	}{
		{"one alone", []Document{ada}, small},
		{"no submissions", nil, small},
		{"code of the solution", []Document{ada, bob}, Options{Evidence: 4, Known: []Document{document1("solution", shop)}}},
		{
			"code of the solution, renamed",
			[]Document{ada, bob},
			Options{Evidence: 4, Known: []Document{document1("solution", strings.ReplaceAll(shop, "taken", "sold"))}},
		},
		{"generated code", []Document{
			document1("ada", "// Code generated by x. DO NOT EDIT.\n\n"+shop),
			document1("bob", "// Code generated by x. DO NOT EDIT.\n\n"+shop),
		}, small},
		{"little code", []Document{ada, bob}, Options{Evidence: 1000}},
		{
			"no Go files", []Document{
				{Name: "ada", Files: map[string][]byte{"a.md": []byte(shop)}},
				{Name: "bob", Files: map[string][]byte{"a.md": []byte(shop)}},
			}, small,
		},
		{"code that most have", slices.Collect(func(yield func(Document) bool) {
			for i := range 10 {
				if !yield(document1(fmt.Sprint("student ", i), shop)) {
					return
				}
			}
		}), small},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if pairs := Compare(test.docs, test.o); len(pairs) > 0 {
				t.Errorf("independent work is reported as a copy: %+v", pairs)
			}
		})
	}
}

func TestIsGenerated(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]bool{
		"// Code generated by controller-gen. DO NOT EDIT.\n\npackage v1\n":                      true,
		"//go:build x\n\n// Code generated by controller-gen. DO NOT EDIT.\r\n\npackage v1\n":    true,
		"// Code generated by controller-gen. DO NOT EDIT.\n\npackage v1\n\nfunc (\n":            true,
		"// Code generated by controller-gen. DO NOT EDIT.\n\nv1\n":                              false,
		"package v1\n\n// Code generated by controller-gen. DO NOT EDIT.\n":                      false,
		"// This is not: Code generated by controller-gen. DO NOT EDIT.\n\npackage v1\n":         false,
		"package v1\nconst s = `\n// Code generated by controller-gen. DO NOT EDIT.\npackage x`": false,
	} {
		if got := isGenerated([]byte(content)); got != want {
			t.Errorf("isGenerated(%q) = %v", content, got)
		}
	}
}

func TestCopiesInSmallClassAreFound(t *testing.T) {
	t.Parallel()
	other := "package shop\n\nfunc F(a []int) (s int) {\n\tfor i := 0; i < len(a); i++ {\n" +
		"\t\tswitch a[i] { case 1: s++; case 2: s--; default: s += a[i] }\n\t}\n\treturn\n}\n"
	pairs := Compare([]Document{
		document1("ada", shop), document1("bob", shop), document1("cyd", shop), document1("dan", other),
	}, small)
	want := [][]string{{"ada", "bob", "cyd"}}
	if diff := cmp.Diff(want, Clusters(pairs)); diff != "" || len(pairs) != 3 {
		t.Errorf("three documents count as most of a small class: %+v\n%s", pairs, diff)
	}
}

// TestCompareIgnoresOrder checks that neither order nor names matter, and that every region is in its file.
func TestCompareIgnoresOrder(t *testing.T) {
	t.Parallel()
	docs := synthetic(rand.New(rand.NewPCG(1, 2)), 12, 40)
	docs = append(docs, Document{Name: "zoe", Files: docs[3].Files}, document1("yan", shop),
		document1("xia", strings.ReplaceAll(shop, "taken", "sold")))
	want := Compare(docs, Options{})
	if len(want) != 2 {
		t.Fatalf("Compare() = %+v, want two pairs", want)
	}
	draw := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		shuffled := slices.Clone(docs)
		draw.Shuffle(len(docs), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(want, Compare(shuffled, Options{})); diff != "" {
			t.Fatalf("Compare() depends on the order of the documents:\n%s", diff)
		}
	}
	for _, p := range want {
		if p.A >= p.B || p.Score < DefaultThreshold || p.Score > 1 || p.Shared == 0 || len(p.Matches) == 0 {
			t.Errorf("invalid pair: %+v", p)
		}
		for _, m := range p.Matches {
			inside(t, docs, p.A, m.A)
			inside(t, docs, p.B, m.B)
		}
	}
}

func inside(t *testing.T, docs []Document, name string, r Region) {
	t.Helper()
	for _, d := range docs {
		if d.Name != name {
			continue
		}
		if lines := bytes.Count(d.Files[r.File], []byte("\n")) + 1; r.From < 1 || r.To < r.From || r.To > lines {
			t.Errorf("%s of %s has %d lines, and a region is %+v", r.File, name, lines, r)
		}
	}
}

func TestRegionsCoverMatchingDeclarations(t *testing.T) {
	t.Parallel()
	const before = "var x = map[string]int{\"a\": 1, \"b\": 2, \"c\": 3, \"d\": 4, \"e\": 5}\n\n\n\n"
	moved := strings.Replace(shop, "// Sell", before+"// Sell", 1)
	pairs := Compare([]Document{document1("ada", shop), document1("bob", moved)}, Options{Evidence: 4, Threshold: 0.3})
	if len(pairs) != 1 || len(pairs[0].Matches) != 1 {
		t.Fatalf("Compare() = %+v, want one match", pairs)
	}
	want := Region{
		File: "shop.go",
		From: 1 + strings.Count(shop[:strings.Index(shop, "func Sell")], "\n"),
		To:   strings.Count(shop, "\n"),
	}
	if diff := cmp.Diff(want, pairs[0].Matches[0].A); diff != "" {
		t.Errorf("region (-want +got):\n%s", diff)
	}
	want.From, want.To = want.From+4, want.To+4
	if diff := cmp.Diff(want, pairs[0].Matches[0].B); diff != "" {
		t.Errorf("the region is not the function that was moved:\n%s", diff)
	}
}

func TestWinnowCoversEachWindow(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		hashes := make([]uint64, draw.IntN(60))
		for i := range hashes {
			hashes[i] = draw.Uint64N(20) // Many hashes are equal.
		}
		chosen := winnow(hashes, window)
		if !slices.IsSorted(chosen) || len(slices.Compact(slices.Clone(chosen))) != len(chosen) {
			t.Fatalf("positions are not in ascending order: %v", chosen)
		}
		for begin := 0; begin+window <= len(hashes); begin++ {
			i, _ := slices.BinarySearch(chosen, begin)
			if i == len(chosen) || chosen[i] >= begin+window {
				t.Fatalf("no fingerprint in the window from %d of %v: %v", begin, hashes, chosen)
			}
			smallest := slices.Min(hashes[begin : begin+window])
			if !slices.ContainsFunc(chosen, func(at int) bool {
				return at >= begin && at < begin+window && hashes[at] == smallest
			}) {
				t.Fatalf("the smallest of the window from %d is not chosen", begin)
			}
		}
		if len(hashes) > 0 && len(chosen) == 0 {
			t.Fatal("a short declaration has no fingerprint")
		}
	}
}

// TestCommonRowIsFound checks that common tokens leave a fingerprint in both programs, whatever surrounds them.
func TestCommonRowIsFound(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(7, 8))
	tokens := func(n int) []uint64 {
		out := make([]uint64, n)
		for i := range out {
			out[i] = draw.Uint64()
		}
		return out
	}
	for range 100 {
		common := tokens(rowTokens + window - 1)
		prints := func(all []uint64) map[uint64]bool {
			set := map[uint64]bool{}
			hashes := rows(all)
			for _, at := range winnow(hashes, window) {
				set[hashes[at]] = true
			}
			return set
		}
		a := prints(slices.Concat(tokens(draw.IntN(30)), common, tokens(draw.IntN(30))))
		b := prints(slices.Concat(tokens(draw.IntN(30)), common, tokens(draw.IntN(30))))
		found := false
		for h := range a {
			found = found || b[h]
		}
		if !found {
			t.Fatal("a common row of rowTokens+window-1 tokens is not found")
		}
	}
}

func TestClusters(t *testing.T) {
	t.Parallel()
	got := Clusters([]Pair{{A: "h", B: "i"}, {A: "c", B: "d"}, {A: "a", B: "b"}, {A: "b", B: "c"}})
	if diff := cmp.Diff([][]string{{"a", "b", "c", "d"}, {"h", "i"}}, got); diff != "" {
		t.Error(diff)
	}
	if got := Clusters(nil); len(got) != 0 {
		t.Errorf("Clusters() without pairs = %v", got)
	}
}

func TestCompareHostileCode(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"deep blocks":     "package a\nfunc f() {" + strings.Repeat("{", 5000) + strings.Repeat("}", 5000) + "}\n",
		"deep brackets":   "package a\nvar x = " + strings.Repeat("(", 50000),
		"long block":      "package a\nfunc f() {" + strings.Repeat("g(1)\n", 100000) + "}\n",
		"many functions":  "package a\n" + strings.Repeat("func f() { g(1, 2, 3); h(1, 2, 3, x.y) }\n", 20000),
		"nothing but nul": strings.Repeat("\x00", 100000),
		"too large":       "package a\n" + strings.Repeat("//\n", maxBytes),
	} {
		if pairs := Compare([]Document{document1("ada", content), document1("bob", content)}, Options{}); len(pairs) > 1 {
			t.Errorf("%s: %v", name, pairs)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(shop)
	f.Add("package a\nfunc f( {")
	f.Add("package a\nfunc f() { if x := 1; { } ; switch { case func() bool { a; b }(): c } }")
	f.Add("")
	f.Fuzz(func(t *testing.T, content string) {
		units := read(document1("ada", content), nil)
		lines := strings.Count(content, "\n") + 1
		for _, u := range units {
			if len(u.tokens) != len(u.lines) || len(u.tokens) == 0 {
				t.Fatalf("a declaration has %d tokens and %d lines", len(u.tokens), len(u.lines))
			}
			for _, line := range u.lines {
				if line < 1 || int(line) > lines {
					t.Fatalf("line %d of %d", line, lines)
				}
			}
		}
		Compare([]Document{document1("ada", content), document1("bob", content)}, small)
	})
}

// synthetic returns programs of so many functions, each drawn independently.
func synthetic(draw *rand.Rand, n, functions int) (docs []Document) {
	words := []string{"client", "status", "spec", "name", "list", "queue", "cache", "event", "owner", "label"}
	word := func() string { return words[draw.IntN(len(words))] }
	for i := range n {
		var out strings.Builder
		out.WriteString("package controller\n\nimport \"example.com/api\"\n")
		for j := range functions {
			fmt.Fprintf(&out, "\nfunc f%d(%s api.%c%s, n int) error {\n", j, "in", 'A'+draw.IntN(26), word())
			for range 4 + draw.IntN(6) {
				switch draw.IntN(4) {
				case 0:
					fmt.Fprintf(&out, "\tif err := in.%s().%s(n, api.%s); err != nil {\n\t\treturn err\n\t}\n", word(), word(), word())
				case 1:
					fmt.Fprintf(&out, "\tfor i := range in.%s {\n\t\tin.%s[i].%s = n * %d\n\t}\n",
						word(), word(), word(), draw.IntN(9))
				case 2:
					fmt.Fprintf(&out, "\tx%d := api.%s(in.%s, n)\n\tn += len(x%d.%s)\n",
						draw.IntN(99), word(), word(), draw.IntN(99), word())
				default:
					fmt.Fprintf(&out, "\tapi.%s(in, %q, func(a int) bool { return a > n && in.%s.%s() })\n",
						word(), word(), word(), word())
				}
			}
			out.WriteString("\treturn nil\n}\n")
		}
		docs = append(docs, document1(fmt.Sprintf("student %03d", i), out.String()))
	}
	return docs
}

// BenchmarkClass compares 500 submissions of about 1,300 lines, more than those of lab 08, of which every tenth is a
// copy.
func BenchmarkClass(b *testing.B) {
	docs := synthetic(rand.New(rand.NewPCG(9, 10)), 500, 70)
	for i := 0; i < len(docs); i += 10 {
		docs[i].Files = docs[(i+5)%len(docs)].Files
	}
	lines := 0
	for _, d := range docs {
		lines += bytes.Count(d.Files["shop.go"], []byte("\n"))
	}
	for b.Loop() {
		if pairs := Compare(docs, Options{}); len(pairs) < 50 {
			b.Fatalf("got %d pairs for 50 copies", len(pairs))
		}
	}
	b.ReportMetric(float64(lines)/float64(len(docs)), "lines/submission")
}
