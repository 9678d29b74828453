// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/authoring/slides"
)

// needsNode skips a test if the slides cannot be built, or fails it if a browser is required.
func needsNode(t *testing.T) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Getenv(requiredVariable) == "required" {
			t.Fatalf("%s=required, but %s is not on PATH: install it (Debian: nodejs, npm)", requiredVariable, program)
		}
		t.Skipf("%s is not on PATH: install it, or see CI, which sets %s=required", program, requiredVariable)
	}
}

// shown describes the contents of one slide.
type shown struct {
	// Heading names the slide. Notes is the length of the notes in characters. Outside lists texts that are cut off.
	Heading string
	Notes   int
	Content int
	Outside []string
	// Tiny lists texts of diagrams that are too small for a lecture hall, with their heights in pixels of a slide that is
	// 1280 pixels wide.
	Tiny []string
}

// measure looks at each slide of a deck. A text is cut off if it leaves its box (a block of code, a cell, a box of a
// diagram), comes into the footer, or leaves the slide. Marp leaves out the layout of the slides that are not shown, so
// the script asks for it first.
const measure = `(() => {
	document.head.insertAdjacentHTML("beforeend", "<style>.bespoke-marp-slide { content-visibility: visible !important }</style>");
	return [...document.querySelectorAll("section[data-marpit-pagination]")].map((section, i) => {
	const page = section.getBoundingClientRect(), unit = page.width / 1280;
	const footer = section.querySelector("footer").getBoundingClientRect();
	const limits = (node) => {
		const box = node.parentElement.closest("pre, td, th, .flow > span, .down > span");
		const area = { left: page.left, right: page.right - 32 * unit, top: page.top, bottom: footer.top };
		if (!box || !section.contains(box)) return area;
		const own = box.getBoundingClientRect();
		return { left: own.left, right: Math.min(own.right, area.right), top: own.top, bottom: Math.min(own.bottom, area.bottom) };
	};
	const outside = [], tiny = [];
	const texts = document.createTreeWalker(section, NodeFilter.SHOW_TEXT);
	let content = 0;
	while (texts.nextNode()) {
		const node = texts.currentNode;
		if (!node.data.trim() || node.parentElement.closest("footer")) continue;
		if (!node.parentElement.closest("h1, h2")) content += node.data.trim().length;
		const range = document.createRange();
		range.selectNodeContents(node);
		const limit = limits(node);
		const bad = [...range.getClientRects()].some((r) => r.width > 0 &&
			(r.right > limit.right + unit || r.left < limit.left - unit || r.bottom > limit.bottom + unit || r.top < limit.top - unit));
		if (bad) outside.push(node.data.trim().slice(0, 60));
		const [line] = range.getClientRects();
		if (line && node.parentElement.closest(".diagram") && line.height < 17 * unit) {
			tiny.push((line.height / unit).toFixed(1) + " " + node.data.trim());
		}
	}
	if (section.scrollHeight > section.clientHeight || section.scrollWidth > section.clientWidth) outside.push("(the slide scrolls)");
	if (section.querySelector("code.language-mermaid")) outside.push("(a diagram is text)");
	if (page.width < 100) outside.push("(the slide has no layout)");
	const note = document.querySelector('.bespoke-marp-note[data-index="' + i + '"]');
	return { Heading: (section.querySelector("h1, h2") || section).textContent.trim(), Notes: note ? note.textContent.trim().length : 0,
		Content: content, Outside: outside, Tiny: tiny };
	});
})()`

// A deck has 20 to 30 slides. Each of them has a heading, content below it, and notes, and nothing on it is cut off.
func TestNoSlideIsCutOff(t *testing.T) {
	longtest.Proof(t)
	needsNode(t)
	browser := start(t)
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	decks, err := slides.Decks(root)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if err := slides.Build(t.Context(), root, out, t.Output(), slides.HTML); err != nil {
		t.Fatal(err)
	}
	for _, deck := range decks {
		t.Run(deck, func(t *testing.T) {
			file := filepath.Join(out, deck+".html")
			loadsNothing(t, file)
			tab := open(browser, t, file, screen{"hall", 1280, 720, "light"})
			all := value[[]shown](tab, t, measure)
			if len(all) < 20 || len(all) > 30 {
				t.Errorf("%s has %d slides, want 20 to 30", deck, len(all))
			}
			for i, slide := range all {
				where := fmt.Sprintf("%s, slide %d (%s)", deck, i+1, slide.Heading)
				if len(slide.Outside) > 0 {
					t.Errorf("%s: cut off: %q", where, slide.Outside)
				}
				if len(slide.Tiny) > 0 {
					t.Errorf("%s: the text of the diagram is too small: %q", where, slide.Tiny)
				}
				if slide.Heading == "" || slide.Content < 10 {
					t.Errorf("%s: there is nothing below the heading", where)
				}
				if slide.Notes < 20 {
					t.Errorf("%s: there are no notes", where)
				}
			}
		})
	}
}

// loadsNothing fails the test if a page would load something from another host, because a lecture hall may have no
// network.
func loadsNothing(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, load := range []string{`src="http`, `src="//`, `url(http`, `url("http`, `@import`, `<link rel="stylesheet"`} {
		if strings.Contains(string(content), load) {
			t.Errorf("%s has %s: it loads something from another host", filepath.Base(file), load)
		}
	}
}

// The test of the slides would miss these mistakes if it measured the wrong things.
func TestCutOffSlideIsFound(t *testing.T) {
	browser := start(t)
	const style = `<style>section{position:relative;width:1280px;height:720px;overflow:hidden}footer{position:absolute;bottom:20px}
		pre{width:400px}</style>`
	for _, test := range []struct {
		name, body string
		cut, tiny  bool
	}{
		{"long code", `<pre><code>` + strings.Repeat("x", 300) + `</code></pre>`, true, false},
		{"many lines", strings.Repeat("<p>a line</p>", 40), true, false},
		{"in the footer", `<p style="position:absolute;bottom:0">a line</p>`, true, false},
		{"a diagram that is text", `<pre><code class="language-mermaid">a --> b</code></pre>`, true, false},
		{"a diagram with a tiny text", `<div class="diagram" style="font-size:10px">a line of text</div>`, false, true},
		{"fits", `<pre><code>short</code></pre><p>a line of text</p>`, false, false},
	} {
		file := filepath.Join(t.TempDir(), "deck.html")
		page := "<!doctype html><link rel=icon href=data:,>" + style +
			`<section data-marpit-pagination="1"><h2>a</h2>` + test.body + "<footer>f</footer></section>"
		if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		tab := open(browser, t, file, screen{"hall", 1280, 720, "light"})
		do(tab, t, chromedp.WaitReady(chromedp.CSS("section")))
		all := value[[]shown](tab, t, measure)
		if len(all) != 1 {
			t.Fatalf("%s: found %d slides, want 1", test.name, len(all))
		}
		if cut, tiny := len(all[0].Outside) > 0, len(all[0].Tiny) > 0; cut != test.cut || tiny != test.tiny {
			t.Errorf("%s: found %+v, want cut off: %t, tiny: %t", test.name, all[0], test.cut, test.tiny)
		}
	}
}
