// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package page

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"lva.io/operators/scripts/classes/course/similarity"
)

// hostile is a possible name, path, sentence or line of code.
const hostile = `</style></title><script>alert(1)</script><img src=https://evil.example/x onerror=alert(2)>"'` +
	"`" + `{{.Students}}` + "\x1b[31m\u202e\u2066\x00"

// fill writes a text, with a number, into every string of a value.
func fill(v reflect.Value, text string, n *int) {
	switch v.Kind() {
	case reflect.String:
		*n++
		v.SetString(text + strconv.Itoa(*n))
	case reflect.Pointer:
		fill(v.Elem(), text, n)
	case reflect.Slice:
		for i := range v.Len() {
			fill(v.Index(i), text, n)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for _, field := range v.Fields() {
			fill(field, text, n)
		}
	}
}

// hostileClass returns a class in which every text is hostile.
func hostileClass() *Class {
	c := &Class{
		Started: time.Now(), Took: time.Minute, Notices: []string{""}, Labs: []Lab{{Checks: []Check{{}, {}}}},
		Students: []Student{
			{Works: []Work{{Failed: []Failure{{}, {}}, Skipped: []string{""}, Look: []string{""}, Scores: []int{1, 2}}}},
			{},
		},
		Misconceptions: []Misconception{{Sentences: []string{"", ""}, Students: []string{"", ""}, Lectures: []string{""}}},
		Alike: []Alike{{Pair: similarity.Pair{Score: .9, Matches: []similarity.Match{
			{A: similarity.Region{From: 1, To: 2}, B: similarity.Region{From: 1, To: 2}},
		}}}},
		Run: []Span{{Took: time.Second}},
	}
	n := 0
	fill(reflect.ValueOf(c), hostile, &n)
	c.Source = func(string, string, string) ([]byte, error) { return []byte(hostile + "\n" + hostile + "\n"), nil }
	lab := c.Labs[0].Name
	c.Students[0].Works[0].Lab, c.Misconceptions[0].Lab, c.Alike[0].Lab = lab, lab, lab
	c.Students[0].Works[0].Failed[0].Check, c.Misconceptions[0].Students[0] = c.Labs[0].Checks[0].ID, c.Students[0].Name
	return c
}

func pages(t *testing.T, c *Class) map[string]string {
	t.Helper()
	all := map[string]string{}
	var out bytes.Buffer
	if err := Write(&out, c); err != nil {
		t.Fatal(err)
	}
	all["the class page"] = out.String()
	for i, s := range c.Students {
		var out bytes.Buffer
		if err := Feedback(&out, c, s.Name); err != nil {
			t.Fatal(err)
		}
		all[fmt.Sprint("feedback ", i)] = out.String()
	}
	return all
}

// elements are the HTML elements that a page may have.
var elements = strings.Fields(`html head meta title link style body
	a header p span time h1 h2 h3 main ul ol li b section div svg rect code wbr details summary
	bdi figure figcaption table thead tbody tr th td footer br dl dt dd`)

// TestPagesAreStatic parses the pages as a browser does.
func TestPagesAreStatic(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]*Class{"hostile": hostileClass(), "real": sample(t, 40), "empty": {}} {
		for name, page := range pages(t, c) {
			root, err := html.Parse(strings.NewReader(page))
			if err != nil {
				t.Fatal(err)
			}
			ids := map[string]bool{}
			var references []string
			for n := range root.Descendants() {
				if n.Type != html.ElementNode {
					continue
				}
				if !slices.Contains(elements, n.Data) && (n.Data != "title" || n.Namespace != "svg") {
					t.Errorf("%s, %s: unexpected element %s", what, name, n.Data)
				}
				for _, a := range n.Attr {
					switch key := strings.ToLower(a.Key); {
					case strings.HasPrefix(key, "on"), key == "style", key == "src", key == "srcset", key == "action", key == "ping":
						t.Errorf("%s, %s: an element %s has the attribute %s", what, name, n.Data, a.Key)
					case key == "href" && strings.HasPrefix(a.Val, "#"):
						references = append(references, a.Val[1:])
					case key == "aria-labelledby":
						references = append(references, a.Val)
					case key == "href" && a.Val != "data:," && (strings.HasPrefix(a.Val, "/") || strings.Contains(a.Val, ":")):
						t.Errorf("%s, %s: unexpected link to %s", what, name, a.Val)
					case key == "id":
						if ids[a.Val] {
							t.Errorf("%s, %s: two elements have the id %s", what, name, a.Val)
						}
						ids[a.Val] = true
					}
				}
			}
			for _, to := range references {
				if !ids[to] {
					t.Errorf("%s, %s: no element has the id %q of a reference", what, name, to)
				}
			}
			if at := regexp.MustCompile(
				`[\x00-\x08\x0b-\x1f\x7f\x{202a}-\x{202e}\x{2066}-\x{2069}]`,
			).FindStringIndex(page); at != nil {
				t.Errorf("%s, %s: invisible character at %d", what, name, at[0])
			}
			if strings.Contains(style(), "url(") || strings.Contains(style(), "@import") {
				t.Error("the style loads something")
			}
		}
	}
}

// text returns the text of a page that a reader sees.
func text(t *testing.T, page string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "style" {
			out.WriteString(n.Data + "\n")
		}
	}
	return out.String()
}

func TestHostileTextIsEscaped(t *testing.T) {
	t.Parallel()
	c := hostileClass()
	page := text(t, pages(t, c)["the class page"])
	for _, name := range []string{c.Students[0].Name, c.Students[1].Name, c.Alike[0].A, c.Misconceptions[0].Students[1]} {
		if !strings.Contains(page, strings.Map(visible, name)) {
			t.Errorf("the page does not show %q", name)
		}
	}
}

func TestClassPageIsComplete(t *testing.T) {
	t.Parallel()
	c := sample(t, 60)
	page := text(t, pages(t, c)["the class page"])
	rows := page[strings.LastIndex(page, "Total, %"):]
	for _, s := range c.Students {
		if strings.Count(rows, s.Name+"\n") != 1 {
			t.Errorf("the table does not have exactly one row for %s", s.Name)
		}
		for _, w := range s.Works {
			for _, why := range w.look() {
				if !strings.Contains(page, why) {
					t.Errorf("the page does not list %s for a manual review: %s", s.Name, why)
				}
			}
		}
	}
	for _, m := range c.Misconceptions {
		for _, sentence := range m.Sentences {
			if !strings.Contains(
				strings.ReplaceAll(page, "\n", ""), strings.ReplaceAll(strings.ReplaceAll(sentence, "`", ""), "\n", ""),
			) {
				t.Errorf("the page does not name the misconception %q", sentence)
			}
		}
	}
	for _, a := range c.Alike {
		if !strings.Contains(page, a.A) || !strings.Contains(page, "func (r *IcecreamReconciler) remove") {
			t.Errorf("the pair %s, %s is not shown with its code", a.A, a.B)
		}
	}
	v := newView(c)
	for _, d := range v.Distributions {
		sum := d.Missing + d.Without
		for _, b := range d.Bins {
			sum += b.Students
			if b.Height < 0 || b.Height > barHeight || (b.Height > 0) != (b.Students > 0) {
				t.Errorf("%s: %d students are %d pixels high", d.Lab.Name, b.Students, b.Height)
			}
		}
		if sum != len(c.Students) {
			t.Errorf("%s: the distribution has %d of %d students", d.Lab.Name, sum, len(c.Students))
		}
	}
	bars := 0
	for _, s := range v.Slots {
		for i, b := range s.Bars {
			if bars++; b.X < 0 || b.X+b.Width > 100.1 || i > 0 && b.X < s.Bars[i-1].X {
				t.Errorf("a run is outside of the time line: %+v", b)
			}
		}
	}
	if bars != len(c.Run) {
		t.Errorf("the time line has %d of %d runs", bars, len(c.Run))
	}
}

// TestFeedbackNamesOnlyItsStudent checks for each student of a class: no other name, no seed, no pair, no hidden check.
func TestFeedbackNamesOnlyItsStudent(t *testing.T) {
	t.Parallel()
	for _, secrets := range []bool{false, true} {
		c := sample(t, 60)
		words := []string{"4711", "alike", "second look", "flaky"}
		secret := c.Labs[0].check("toppings-count")
		if secret.Hidden = secrets; secrets {
			words = append(words, secret.Title, secret.ID, "toppingsCount of sundae", "letters of all toppings")
		}
		hidden, observed := 0, 0
		for i := range c.Students {
			page := feedbackOf(t, c, i)
			for _, word := range words {
				if strings.Contains(page, word) {
					t.Errorf("the feedback of %s has %q", c.Students[i].Name, word)
				}
			}
			hidden += strings.Count(page, "not published failed")
			observed += strings.Count(page, "toppingsCount of sundae is 13 (seed (not shown))")
		}
		if secrets != (hidden > 0) || secrets == (observed > 0) {
			t.Errorf("with hidden checks %v, %d students see one, and %d see its observation", secrets, hidden, observed)
		}
	}
	if err := Feedback(io.Discard, &Class{}, "nobody"); err == nil ||
		!strings.Contains(err.Error(), `of "nobody": the class has no such student`) {
		t.Errorf("Feedback() of an unknown student: error = %v", err)
	}
}

// feedbackOf returns the feedback of one student, and checks that it names only this student.
func feedbackOf(t *testing.T, c *Class, i int) string {
	t.Helper()
	s := c.Students[i]
	var out bytes.Buffer
	if err := Feedback(&out, c, s.Name); err != nil {
		t.Fatal(err)
	}
	page := text(t, out.String())
	if !strings.Contains(page, s.Name) {
		t.Errorf("the feedback of %s does not have the name", s.Name)
	}
	for _, other := range c.Students {
		if other.Name != s.Name && strings.Contains(page, other.Name+"\n") {
			t.Errorf("the feedback of %s names %s", s.Name, other.Name)
		}
	}
	for j := range s.Works {
		for _, f := range s.Works[j].Failed {
			if check := c.lab(s.Works[j].Lab).check(f.Check); !check.Hidden && !strings.Contains(page, check.Title) {
				t.Errorf("the feedback of %s does not report that %s failed", s.Name, f.Check)
			}
		}
	}
	return page
}

func TestWorkLook(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		work Work
		want string
	}{
		{Work{Outcome: "graded"}, ""},
		{Work{Outcome: "not-built", Reason: "x"}, ""},
		{Work{Outcome: "timed-out", Reason: "the time was up"}, "timed out: the time was up"},
		{Work{Outcome: "error"}, "error"},
		{Work{Outcome: OutcomeUnreadable, Reason: "the archive is broken"}, "unreadable: the archive is broken"},
		{Work{Outcome: "graded", Scores: []int{90, 90}}, ""},
		{Work{Outcome: "graded", Scores: []int{90, 70, 90}}, "flaky: 90, 70, 90 points in 3 runs"},
		{Work{Outcome: "graded", Look: []string{"differs from the last run"}}, "differs from the last run"},
		{Work{Outcome: "error", Scores: []int{1, 2}, Look: []string{"a"}}, "error|flaky: 1, 2 points in 2 runs|a"},
	} {
		if got := strings.Join(test.work.look(), "|"); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.work, got, test.want)
		}
	}
}

func TestWithoutSeeds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"grade 2 --seed 4711 again": "grade 2 --seed (not shown) again",
		"Seed: 12, then more":       "Seed: (not shown), then more",
		"seed=0xff":                 "seed=(not shown)",
		"seeds 1":                   "seeds (not shown)",
		"linseed 12 and seedless 3": "linseed 12 and seedless 3",
	} {
		if got := withoutSeeds(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestLinksAreRelative(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"reports/a b/report.html": "reports/a%20b/report.html", "reports/#1?.html": "reports/%231%3F.html", "": "",
		"https://evil.example": "", "//evil.example": "", "javascript:alert(1)": "",
		"../other": "", `\\evil.example`: "", "/etc/passwd": "",
	} {
		if got := reportLink(path); got != want {
			t.Errorf("reportLink(%q) = %q, want %q", path, got, want)
		}
	}
	for _, test := range [][3]string{
		{"../../", "docs/lectures/02.md#a-b", "../../docs/lectures/02.md#a-b"},
		{"", "docs/lectures/02.md#a-b", ""},
		{"https://evil.example/", "docs/lectures/02.md", ""},
		{"../../", "docs/../../secret", ""},
		{"../../", "labs/labs.yaml", ""},
	} {
		if got := lectureLink(test[0], test[1]); got != test[2] {
			t.Errorf("the link to %s from %q = %q, want %q", test[1], test[0], got, test[2])
		}
	}
}

// TestPageSizeOfLargeClass limits the size of the page for a large class.
func TestPageSizeOfLargeClass(t *testing.T) {
	t.Parallel()
	c := sample(t, 500)
	code := []byte(strings.Repeat("\t"+strings.Repeat("x", 100)+"\n", 5000))
	c.Source = func(string, string, string) ([]byte, error) { return code, nil }
	c.Alike = nil
	for i := range 200 {
		a := Alike{Lab: "02-reconciler", Pair: similarity.Pair{A: c.Students[i].Name, B: c.Students[i+1].Name, Score: .9}}
		for range 20 {
			a.Matches = append(a.Matches, similarity.Match{
				A: similarity.Region{File: "a.go", From: 1, To: 4000},
				B: similarity.Region{File: "a.go", From: 2, To: 400},
			})
		}
		c.Alike = append(c.Alike, a)
	}
	var out bytes.Buffer
	if err := Write(&out, c); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 8<<20 {
		t.Errorf("the page has %d bytes", out.Len())
	}
	page := out.String()
	for _, s := range c.Students {
		if !strings.Contains(page, html.EscapeString(s.Name)) {
			t.Errorf("the page does not name %s", s.Name)
		}
	}
}

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk full")
	if err := Write(writer{broken}, &Class{}); !errors.Is(err, broken) ||
		!strings.Contains(err.Error(), "writing the page of the class") {
		t.Errorf("Write() error = %v", err)
	}
	c := sample(t, 10)
	c.Source = func(string, string, string) ([]byte, error) { return nil, broken }
	var out bytes.Buffer
	if err := Write(&out, c); err != nil || !strings.Contains(out.String(), "icecream_controller.go, lines ") {
		t.Errorf("without Source, the page does not name the lines: error = %v", err)
	}
}

type writer struct{ err error }

func (w writer) Write([]byte) (int, error) { return 0, w.err }
