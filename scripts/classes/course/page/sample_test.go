// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package page

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/authoring/mutant"
	"lva.io/operators/scripts/classes/course/misconception"
	"lva.io/operators/scripts/classes/course/similarity"
)

const root = "../../../.."

// write keeps the pages of the sample, so that you can look at them: go test ./classes/course/page -run Sample -write
// DIR.
var write = flag.String("write", "", "folder for the pages of the sample class")

// sample returns a class of students who handed in wrong solutions of real labs.
func sample(tb testing.TB, students int) *Class {
	tb.Helper()
	draw := rand.New(rand.NewPCG(1, 2))
	c := &Class{
		Title: "Operators, winter 2026", Started: time.Date(2026, 11, 29, 20, 15, 0, 0, time.UTC), Took: 7 * time.Minute,
		Walls: "namespaces, seccomp and network; no cgroups", LectureBase: "../../",
		Notices: []string{"The archive of `late-group.rar` could not be read, and belongs to no student."},
	}
	known := map[string][]misconception.Known{}
	for _, name := range []string{"02-reconciler", "08-lolcow", "11-workspace"} {
		lab := realLab(tb, name)
		list, err := mutant.Load(filepath.Join(root, "solutions", name))
		if err != nil {
			tb.Fatal(err)
		}
		known[name], err = misconception.From(name, list, func(check string) string {
			if found := lab.check(check); found != nil {
				return found.Lecture
			}
			return ""
		})
		if err != nil {
			tb.Fatal(err)
		}
		c.Labs = append(c.Labs, lab)
	}
	first, last := strings.Fields("Ada Björn Chidi Dörte Emre Fatima Grace Hồng Ivana Jürgen"),
		strings.Fields("Adebayo Øster Castañeda van-der-Berg Ebert Nguyễn Saint-Exupéry")
	at := make([]time.Duration, 2)
	for i := range students {
		s := Student{Name: fmt.Sprintf("%s %s %d", first[i%len(first)], last[i%len(last)], i)}
		for j := range c.Labs {
			lab := &c.Labs[j]
			if draw.IntN(12) == 0 {
				continue
			}
			w := Work{
				Lab: lab.Name, Attempt: 1 + draw.IntN(2), Attempts: 2, Max: 100, Points: 100,
				Outcome: "graded", Report: fmt.Sprintf("reports/%d/%s/report.html", i, lab.Name),
			}
			fails := known[lab.Name][min(len(known[lab.Name])-1, int(draw.ExpFloat64()*7))].Fails
			for _, check := range lab.Checks {
				if _, failed := fails[check.ID]; failed && i%3 > 0 {
					w.Points -= check.Points
					failure := Failure{Check: check.ID}
					if check.ID == "toppings-count" {
						failure.Expected, failure.Observed = "toppingsCount of sundae is 3", "toppingsCount of sundae is 13 (seed 4711)"
					}
					w.Failed = append(w.Failed, failure)
				} else if draw.IntN(40) == 0 {
					w.Skipped = append(w.Skipped, check.ID)
					w.Points -= check.Points
				}
			}
			switch draw.IntN(18) {
			case 0:
				w.Outcome, w.Reason = "timed-out", "the lab's time limit of 1m0s ended the run (seed 4711)"
			case 1:
				w.Outcome, w.Points, w.Reason = "not-built", 0, "it does not compile"
			case 2:
				w.Outcome, w.Points, w.Reason = "error", 0, "the control plane did not start"
			case 3:
				w.Scores = []int{w.Points, 70, 90}
			}
			w.Late, w.Final = draw.IntN(3), float64(w.Points)
			if w.Late > 0 {
				w.Penalty, w.Final = 5*float64(w.Late), max(0, w.Final-5*float64(w.Late))
			}
			s.Total += w.Final / 3
			slot := 0
			if at[1] < at[0] {
				slot = 1
			}
			took := time.Duration(2+draw.IntN(6)) * time.Second
			c.Run = append(c.Run, Span{s.Name, lab.Name, slot, at[slot], took, w.Outcome, w.Points, 100})
			at[slot] += took + 200*time.Millisecond
			s.Works = append(s.Works, w)
		}
		c.Students = append(c.Students, s)
	}
	c.Took = max(at[0], at[1])
	for i := range c.Labs {
		c.Misconceptions = append(c.Misconceptions, Explain(c.Labs[i].Name, c.Students, known[c.Labs[i].Name])...)
	}
	slices.SortStableFunc(c.Misconceptions, func(a, b Misconception) int {
		return cmp.Compare(len(b.Students), len(a.Students))
	})
	alike(tb, c)
	return c
}

// alike compares real code, which three students handed in.
func alike(tb testing.TB, c *Class) {
	tb.Helper()
	if len(c.Students) < 8 {
		return
	}
	const file = "internal/controller/icecream_controller.go"
	content, err := os.ReadFile(filepath.Join(root, "solutions/02-reconciler", file))
	if err != nil {
		tb.Fatal(err)
	}
	code := map[string][]byte{
		c.Students[1].Name: content,
		c.Students[5].Name: []byte(strings.ReplaceAll(string(content), "icecream", "frozen")),
		c.Students[7].Name: bytes.ReplaceAll(content, []byte("current"), []byte("now")),
	}
	var docs []similarity.Document
	for name, content := range code {
		docs = append(docs, similarity.Document{Name: name, Files: map[string][]byte{file: content}})
	}
	for _, p := range similarity.Compare(docs, similarity.Options{}) {
		c.Alike = append(c.Alike, Alike{"02-reconciler", p})
	}
	if len(c.Alike) == 0 {
		tb.Fatal("Compare() found no pairs in the sample")
	}
	c.Source = func(student, _, _ string) ([]byte, error) { return code[student], nil }
}

// realLab reads a lab of labs.yaml, without importing package manifest.
func realLab(tb testing.TB, name string) Lab {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join(root, "labs", "labs.yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	var list struct{ Labs []Lab }
	if err := yaml.Unmarshal(content, &list); err != nil {
		tb.Fatal(err)
	}
	i := slices.IndexFunc(list.Labs, func(l Lab) bool { return l.Name == name })
	if i < 0 {
		tb.Fatalf("labs.yaml has no lab %s", name)
	}
	return list.Labs[i]
}

func TestSample(t *testing.T) {
	t.Parallel()
	c := sample(t, 60)
	pages := map[string]func(*bytes.Buffer) error{
		"class.html":    func(b *bytes.Buffer) error { return Write(b, c) },
		"feedback.html": func(b *bytes.Buffer) error { return Feedback(b, c, c.Students[1].Name) },
	}
	for name, page := range pages {
		var out bytes.Buffer
		if err := page(&out); err != nil {
			t.Fatal(err)
		}
		if *write != "" {
			if err := os.WriteFile(filepath.Join(*write, name), out.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s has %d bytes", name, out.Len())
	}
}
