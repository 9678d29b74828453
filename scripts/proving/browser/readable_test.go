// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/report"
)

// The tests must notice an error of a script, messages of a page on the console, and violations of its policy.
func TestPageErrorsAreFound(t *testing.T) {
	browser := start(t)
	for name, body := range map[string]string{
		"console": `<script>console.error("no")</script>`, "exception: TypeError: ": `<script>null.x</script>`,
		"Content Security Policy": `<meta http-equiv="Content-Security-Policy" content="script-src 'none'"><script>1</script>`,
	} {
		file := filepath.Join(t.TempDir(), "page.html")
		if err := os.WriteFile(file, []byte("<!doctype html><link rel=icon href=data:,>"+body), 0o600); err != nil {
			t.Fatal(err)
		}
		_, problems := openAndListen(browser, t, file, screens[0])
		if all := strings.Join(problems.get(), "\n"); !strings.Contains(all, name) {
			t.Errorf("a page with a problem of %s: got %q", name, all)
		}
	}
}

// contrast lists texts whose contrast to their background is below the requirement of WCAG 2.2, 1.4.3. It paints
// colours to read them, so that it works with every colour format of the browser.
const contrast = `(() => {
	const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const rgba = (color) => {
		paint.clearRect(0, 0, 1, 1);
		paint.fillStyle = color;
		paint.fillRect(0, 0, 1, 1);
		return [...paint.getImageData(0, 0, 1, 1).data].map((n) => n / 255);
	};
	const over = (top, ground) => [0, 1, 2].map((i) => top[i] * top[3] + ground[i] * (1 - top[3]));
	const ground = (e) => e ? over(rgba(getComputedStyle(e).backgroundColor), ground(e.parentElement)) : [1, 1, 1];
	const luminance = (c) => c.map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const bad = [];
	for (const e of document.body.querySelectorAll("*")) {
		const own = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim());
		if (!own || !e.checkVisibility() || e.closest("script, .hidden, :disabled, title, noscript")) continue;
		const style = getComputedStyle(e), svg = e instanceof SVGElement;
		const behind = ground(svg ? e.closest("div") : e);
		const text = over(rgba(svg ? style.fill : style.color), behind);
		const [dark, light] = [luminance(text), luminance(behind)].sort((a, b) => a - b);
		const ratio = (light + 0.05) / (dark + 0.05);
		if (ratio >= 4.5) continue;
		const name = e.tagName + "." + (e.getAttribute("class") || "");
		bad.push(name + " " + ratio.toFixed(2) + ": " + e.textContent.trim().slice(0, 40));
	}
	return bad;
})()`

// nameless lists controls without a name for screen readers, and controls that are too small for a finger (WCAG 2.2,
// 2.5.8).
const nameless = `[...document.querySelectorAll("button, select, summary, a, [tabindex='0']")].flatMap((e) => {
	if (!e.checkVisibility()) return [];
	const labelled = e.getAttribute("aria-labelledby");
	const label = labelled ? document.getElementById(labelled) : e.labels && e.labels[0];
	const name = (e.getAttribute("aria-label") || (label || e).textContent).trim();
	const box = e.getBoundingClientRect();
	const small = e.matches("button, select, summary") && !e.closest("td, p") && (box.height < 24 || box.width < 24);
	return name && !small ? [] : [e.outerHTML.slice(0, 80) + (small ? " is small" : " has no name")];
})`

func TestPagesAreAccessible(t *testing.T) {
	longtest.Proof(t)
	browser := start(t)
	all := samples(t)
	for _, name := range []string{"faults-full", "faults-failed", "not-built", "graded-forbidden", "crashed"} {
		for _, s := range screens {
			t.Run(name+" "+s.name+" "+s.scheme, func(t *testing.T) {
				tab := open(browser, t, page(t, all[name]), s)
				do(tab, t, chromedp.Evaluate[chromedp.Void](
					`document.querySelectorAll("details").forEach((d) => { d.open = true })`,
				))
				if strings.HasPrefix(name, "faults") {
					clickInChart(tab, t, "[data-check='6'] rect")
					clickInChart(tab, t, "path.fault.within")
				}
				if bad := value[[]string](tab, t, contrast); len(bad) > 0 {
					t.Errorf("hard to read:\n%s", strings.Join(bad, "\n"))
				}
				if bad := value[[]string](tab, t, nameless); len(bad) > 0 {
					t.Errorf("hard to operate:\n%s", strings.Join(bad, "\n"))
				}
			})
		}
	}
}

// The page shows everything that a submission writes, but none of it runs, loads anything, or makes the page wider than
// the screen.
func TestSubmissionCannotInjectScripts(t *testing.T) {
	browser := start(t)
	const attack = `</script></pre><script>window.pwned=1</script><img src=x onerror="window.pwned=1"><svg onload="window.pwned=1">`
	r := read(t, failedRun)
	long := attack + strings.Repeat("W", 400)
	r.Title, r.Submission.Dir, r.Submission.Module, r.OperatorLog = attack, long, long, []string{long}
	r.Notices, r.Seed = []string{long}, 4294967295
	i := checkIndex(t, r, "freezer-down")
	r.Checks[i].Observed, r.Checks[i].Evidence = long, []string{long}
	r.Checks[i].Measurements = []report.Measurement{{Name: long, Value: 1e300, Unit: long}}
	r.Forbidden = []report.Forbidden{{Verb: "get", Resource: long, Count: 1, Marker: long}}
	for j := range r.Timeline {
		r.Timeline[j].What = "get " + long
	}
	for _, s := range screens[1:3] {
		tab := open(browser, t, page(t, r), s)
		do(tab, t, chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach((d) => { d.open = true })`))
		clickInChart(tab, t, "[data-check='3'] rect")
		clickInChart(tab, t, ".moment.within")
		if value[bool](tab, t, "window.pwned === 1") {
			t.Error("the submission ran a script")
		}
		if got := look(tab, t); !strings.Contains(got.Moment, attack) {
			t.Errorf("the details are %q, want the whole text as text", got.Moment)
		}
		if wide := value[[]string](tab, t, tooWide); len(wide) > 0 {
			t.Errorf("elements are wider than the screen: %s", strings.Join(wide, "; "))
		}
		saveScreenshot(tab, t, "hostile-"+s.name)
	}
}
