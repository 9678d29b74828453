// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	goldmarkhtml "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/net/html"

	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
)

// attack is text of a submission that a browser or a forge might take for markup.
const attack = "</pre></script><script>parent.pwned=1</script><img src=x onerror=pwned=1> " +
	"![x](https://evil.example/x.png) [a](javascript:pwned=1) <!-- ```` ``` ` | a | " +
	"https://evil.example www.evil.example {{.Seed}} \"'><b onmouseover=pwned=1>"

// hostile returns a report in which the submission controls as much as it can.
func hostile() report.Report {
	r := finalizerFailed()
	r.Title, r.Submission.Dir, r.Submission.Module, r.Submission.Go, r.Submission.ControllerRuntime =
		attack, attack, attack, attack, attack
	r.Environment.Kubernetes = attack
	fail(&r, "freezer-down", attack, attack+"\n````\n"+attack, attack, attack)
	skip(&r, "no-answer", "skipped: "+attack)
	for i := range r.Checks {
		r.Checks[i].Measurements = []report.Measurement{{Name: attack, Value: 1, Unit: attack}}
	}
	r.Notices, r.OperatorLog = []string{attack, attack}, []string{attack, "panic: " + attack}
	r.Diagnostics = []report.Diagnostic{{File: attack, Line: 1, Message: attack}, {Message: attack}}
	r.Forbidden = []report.Forbidden{{Verb: attack, Resource: attack, Subresource: attack, Count: 1, Marker: attack}}
	for i := range r.Timeline {
		r.Timeline[i].What = attack
	}
	r.Outcome, r.Reason = report.Crashed, attack
	r.Score = 70
	return r
}

// elements lists all elements of a page, with their attributes.
func elements(t *testing.T, page []byte) []*html.Node {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var all []*html.Node
	for node := range root.Descendants() {
		if node.Type == html.ElementNode {
			all = append(all, node)
		}
	}
	return all
}

func attribute(node *html.Node, name string) string {
	for _, a := range node.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func text(node *html.Node) string {
	var out strings.Builder
	for child := range node.Descendants() {
		if child.Type == html.TextNode {
			out.WriteString(child.Data)
		}
	}
	return out.String()
}

func TestPageEscapesSubmissionText(t *testing.T) {
	t.Parallel()
	page := encode(t, hostile(), formats.HTML, formats.Options{})
	scripts := 0
	for _, element := range elements(t, page) {
		switch element.Data {
		case "script":
			if scripts++; element.FirstChild.NextSibling != nil {
				t.Error("a script contains more than text")
			}
		case "img", "b", "iframe", "object", "embed", "form", "base":
			// The score is the only thing in bold.
			if element.Data != "b" || text(element) != "70" {
				t.Errorf("page has a <%s>", element.Data)
			}
		case "a", "link":
			if href := attribute(element, "href"); !strings.HasPrefix(href, "#") && href != "data:," {
				t.Errorf("page has a link to %q", href)
			}
		}
		for _, a := range element.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src" {
				t.Errorf("<%s> has %s=%q", element.Data, a.Key, a.Val)
			}
		}
	}
	if scripts != 2 {
		t.Errorf("page has %d scripts, want two: its code and its data", scripts)
	}
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	// No text is lost either: the attack is shown at least as often as fields were set.
	if n := strings.Count(text(root), "<script>parent.pwned=1</script><img src=x onerror=pwned=1>"); n < 20 {
		t.Errorf("the attack is shown %d times, want at least 20", n)
	}
}

// The policy must name exactly the style and the script of the page. Otherwise, a browser shows the page without
// them.
func TestContentSecurityPolicyAllowsOnlyOwnScript(t *testing.T) {
	t.Parallel()
	for name, r := range samples() {
		policy := ""
		own := map[string]string{}
		for _, element := range elements(t, encode(t, r, formats.HTML, formats.Options{})) {
			switch {
			case attribute(element, "http-equiv") == "Content-Security-Policy":
				policy = attribute(element, "content")
			case element.Data == "style" || element.Data == "script" && attribute(element, "type") == "":
				sum := sha256.Sum256([]byte(element.FirstChild.Data))
				own[element.Data] = "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
			}
		}
		for _, want := range []string{
			"default-src 'none';", "style-src " + own["style"] + ";", "script-src " + own["script"] + ";",
		} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: policy %q lacks %q", name, policy, want)
			}
		}
	}
}

// Users of screen readers navigate by headings: there must be one of the first level, no level may be skipped, and
// each section needs one.
func TestPageHeadingsAreInOrder(t *testing.T) {
	t.Parallel()
	for name, r := range samples() {
		level, ids := 0, map[string]bool{}
		all := elements(t, encode(t, r, formats.HTML, formats.Options{}))
		for _, element := range all {
			if id := attribute(element, "id"); id != "" {
				if ids[id] {
					t.Errorf("%s: duplicate id %s", name, id)
				}
				ids[id] = true
			}
			if len(element.Data) == 2 && element.Data[0] == 'h' && element.Data[1] >= '1' && element.Data[1] <= '6' {
				next := int(element.Data[1] - '0')
				if next > level+1 || next == 1 && level != 0 || strings.TrimSpace(text(element)) == "" {
					t.Errorf("%s: <%s> %q follows a heading of level %d", name, element.Data, text(element), level)
				}
				level = next
			}
		}
		for _, element := range all {
			for _, reference := range []string{"aria-labelledby", "aria-describedby", "for"} {
				if id := attribute(element, reference); id != "" && !ids[id] {
					t.Errorf("%s: <%s> refers to %q, which does not exist", name, element.Data, id)
				}
			}
			if href := attribute(element, "href"); strings.HasPrefix(href, "#") && !ids[href[1:]] {
				t.Errorf("%s: a link points to %s, which does not exist", name, href)
			}
		}
	}
}

func TestPageBeginsWithVerdict(t *testing.T) {
	t.Parallel()
	all := samples()
	all["no-checks"] = withoutChecks()
	for name, want := range map[string]string{
		"graded-full": "All 13 checks passed", "graded-failed": "5 of 13 checks passed", "not-built": "It does not build",
		"timed-out": "The run timed out", "error": "It could not be graded", "no-checks": "It could not be graded",
	} {
		page := encode(t, all[name], formats.HTML, formats.Options{})
		headings := slices.DeleteFunc(elements(t, page), func(n *html.Node) bool { return n.Data != "h2" })
		if got := text(headings[0]); got != want {
			t.Errorf("%s: first section is %q, want %q", name, got, want)
		}
	}
}

// The student waits for this write at the end of each run.
func BenchmarkWrite(b *testing.B) {
	r := finalizerFull()
	for len(r.Timeline) < report.MaxTimeline {
		r.Timeline = append(r.Timeline, r.Timeline...)
	}
	dir := b.TempDir()
	for b.Loop() {
		if err := formats.Write(dir, r); err != nil {
			b.Fatal(err)
		}
	}
}

// rendered returns a summary as GitHub shows it, including the HTML in its Markdown.
func rendered(t *testing.T, r report.Report) (markdown string, page []byte) {
	t.Helper()
	source := encode(t, r, formats.Markdown, formats.Options{})
	var out bytes.Buffer
	parser := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(goldmarkhtml.WithUnsafe()))
	if err := parser.Convert(source, &out); err != nil {
		t.Fatal(err)
	}
	return string(source), out.Bytes()
}

func TestSummaryEscapesSubmissionText(t *testing.T) {
	t.Parallel()
	markdown, page := rendered(t, hostile())
	for _, element := range elements(t, page) {
		switch element.Data {
		case "html", "head", "body", "h2", "h3", "p", "strong", "code", "pre",
			"table", "thead", "tbody", "tr", "th", "td", "br", "ul", "li":
		default:
			t.Errorf("summary has a <%s %v>: %s", element.Data, element.Attr, text(element))
		}
		if element.Data == "tr" {
			cells := 0
			for child := range element.ChildNodes() {
				if child.Type == html.ElementNode {
					cells++
				}
			}
			if cells != 4 {
				t.Errorf("a row of the table has %d cells: %s", cells, text(element))
			}
		}
	}
	if n := strings.Count(markdown, "pwned"); n < 20 {
		t.Errorf("the attack is shown %d times, want at least 20", n)
	}
}

func TestSummaryContents(t *testing.T) {
	t.Parallel()
	all := samples()
	for name, want := range map[string][]string{
		"graded-full": {"Lab 2, The reconciler: 100 of 100 points", "13 of 13 checks passed."},
		"faults-failed": {
			"Fix this first: freezer-down", "sorbet is gone", "PATCH  icecreams/sorbet", "--seed 2718281828",
			"requests that a fault hit: 6", "it needs freezer-down", "run `make manifests`",
		},
		"graded-forbidden": {"resources=icecreams/status,verbs=get;update;patch"},
		"not-built": {
			"It does not build.", "it does not compile: 7 errors",
			"icecream_controller.go:61:12: undefined: toppings",
		},
		"crashed": {"The operator crashed.", "panic: runtime error"},
		"error":   {"Lab 2, The reconciler: no grade", "It could not be graded.", "not a verdict on the submission"},
	} {
		_, page := rendered(t, all[name])
		root, err := html.Parse(bytes.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		got := text(root)
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("%s lacks %q:\n%s", name, part, got)
			}
		}
		if strings.Contains(got, "none of") || (name == "not-built" && strings.Contains(got, "toppings-count")) {
			t.Errorf("%s lists checks with the same reason", name)
		}
	}
}

// GitHub does not show a summary that is larger than 1 MiB.
func TestSummaryFitsGitHubLimit(t *testing.T) {
	t.Parallel()
	r := graded(func(r *report.Report) {
		r.Checks = nil
		for i := range 100 {
			r.Checks = append(r.Checks, check(fmt.Sprintf("check-%d", i), 1, "x"))
			long := strings.Repeat("冰", report.MaxText)
			fail(r, fmt.Sprintf("check-%d", i), long, long, slices.Repeat([]string{long}, report.MaxEvidence)...)
		}
	})
	markdown, _ := rendered(t, r)
	if len(markdown) > 1<<20 || !strings.Contains(markdown, "There is more in the report.") {
		t.Errorf("summary has %d bytes", len(markdown))
	}
	if n := strings.Count(markdown, "| **failed** |"); n != 100 {
		t.Errorf("table has %d failed checks, want 100", n)
	}
}
