// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package browser

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lva.io/operators/scripts/grading/report"
)

const (
	failedRun = "../../grading/report/testdata/faults-failed.json"
	fullRun   = "../../grading/report/testdata/faults-full.json"
	// realRun is the report that `lab grade` wrote for the solution of lab 03 with an ignored error.
	realRun = "testdata/real-failed.json"
)

// point is the middle of an element in the chart, where a user would click or tap it.
type point struct{ X, Y float64 }

// clickInChart clicks on the middle of the element in the chart that a selector finds.
func clickInChart(tab context.Context, t *testing.T, selector string) {
	t.Helper()
	at := value[point](tab, t, fmt.Sprintf(`(() => {
		document.getElementById("chart").scrollIntoView({ block: "center", behavior: "instant" });
		const found = document.querySelector(%q);
		if (!found) throw new Error("not in the chart");
		const box = found.getBoundingClientRect();
		return { X: box.left + box.width / 2, Y: box.top + box.height / 2 };
	})()`, "#chart "+selector))
	do(tab, t, chromedp.MouseClickXY(at.X, at.Y))
}

func checkIndex(t *testing.T, r *report.Report, id string) int {
	t.Helper()
	i := slices.IndexFunc(r.Checks, func(c report.Check) bool { return c.ID == id })
	if i < 0 {
		t.Fatalf("the report has no check %s", id)
	}
	return i
}

// during counts the moments that began while a check ran.
func during(r *report.Report, c report.Check) int {
	n := 0
	for _, moment := range r.Timeline {
		if moment.At >= c.At && moment.At <= c.At+c.Seconds {
			n++
		}
	}
	return n
}

// picked is how the page shows the selected check.
type picked struct {
	// Check is the id of the highlighted check in the chart. Listed is the title of the list. Within and Rows are how many
	// moments are highlighted and listed.
	Check, Listed, Select string
	Within, Outside, Rows int
	Moment                string
}

func look(tab context.Context, t *testing.T) picked {
	t.Helper()
	return value[picked](tab, t, `(() => {
		const all = (selector) => [...document.querySelectorAll(selector)];
		const indices = (selector) => new Set(all(selector).map((e) => e.dataset.moment)).size;
		const text = (selector) => all(selector).map((e) => e.textContent).join("");
		return {
			Check: all("#chart .span.picked title").map((e) => e.textContent.split(":")[0]).join(),
			Listed: text("#requests h3"), Select: document.getElementById("pick").selectedOptions[0].textContent,
			Within: indices("#chart .moment.within"), Outside: indices("#chart .moment.outside"), Rows: all("#requests tbody tr").length,
			Moment: text("#moment"),
		};
	})()`)
}

// A click on a check highlights its span and its requests, and lists them. Another click removes the highlight.
func TestClickOnCheckShowsRequests(t *testing.T) {
	browser := start(t)
	for _, file := range []string{failedRun, fullRun, realRun} {
		r := read(t, file)
		for _, s := range screens[1:3] {
			t.Run(filepath.Base(file)+" "+s.name, func(t *testing.T) {
				tab := open(browser, t, page(t, r), s)
				if before := look(tab, t); before.Check != "" || before.Rows != 0 || before.Outside != 0 {
					t.Errorf("before the click: picked = %+v, want none", before)
				}
				i := checkIndex(t, r, "freezer-down")
				clickInChart(tab, t, fmt.Sprintf("[data-check='%d'] rect", i))
				want := during(r, r.Checks[i])
				got := look(tab, t)
				if want < 5 || got.Within != want || got.Rows != want || got.Check != "freezer-down" {
					t.Errorf("picked = %+v, want freezer-down with %d moments", got, want)
				}
				if got.Outside == 0 ||
					!strings.Contains(got.Listed, "freezer-down") || !strings.Contains(got.Select, "freezer-down") {
					t.Errorf("the others are not dimmed, or the list and the choice do not show the picked check: %+v", got)
				}
				saveScreenshot(tab, t, fmt.Sprintf("picked-check-%s-%s-%s",
					strings.TrimSuffix(filepath.Base(file), ".json"), s.name, s.scheme))
				clickInChart(tab, t, fmt.Sprintf("[data-check='%d'] rect", i))
				if after := look(tab, t); after.Check != "" || after.Rows != 0 {
					t.Errorf("after the second click: picked = %+v, want none", after)
				}
			})
		}
	}
}

func TestClickOnMomentShowsDetails(t *testing.T) {
	browser := start(t)
	r := read(t, failedRun)
	for _, s := range screens[1:3] {
		t.Run(s.name, func(t *testing.T) {
			tab := open(browser, t, page(t, r), s)
			i := slices.IndexFunc(r.Timeline, func(m report.Moment) bool { return m.Fault == "kill-after" })
			clickInChart(tab, t, fmt.Sprintf("path.fault[data-moment='%d']", i))
			got := look(tab, t).Moment
			for _, want := range []string{
				r.Timeline[i].What, "to the freezer", "answered with 201, which never arrived",
				"kill-after", "then the operator was killed", "during killed-between",
			} {
				if !strings.Contains(got, want) {
					t.Errorf("the details %q lack %q", got, want)
				}
			}
			saveScreenshot(tab, t, fmt.Sprintf("picked-moment-%s-%s", s.name, s.scheme))

			// A click on the moment's check selects it, and a click in the check's list selects another moment.
			do(tab, t, chromedp.Click(chromedp.CSS("#moment button")))
			if got := look(tab, t); got.Check != "killed-between" {
				t.Errorf("picked = %+v, want killed-between", got)
			}
			do(tab, t, chromedp.Click(chromedp.CSS("#requests tbody tr:last-child button")))
			if got := look(tab, t).Moment; !strings.Contains(got, "patch icecreams parfait") ||
				!strings.Contains(got, "answered with 200") {
				t.Errorf("the details are %q, want the last request of the list", got)
			}
		})
	}
}

func TestReportWorksWithKeyboard(t *testing.T) {
	browser := start(t)
	r := read(t, failedRun)
	tab := open(browser, t, page(t, r), screens[0])

	// The tab key reaches the link over all, every check, the chart, and its controls.
	var reached []string
	for range 40 {
		do(tab, t, chromedp.KeyEvent(kb.Tab))
		reached = append(reached, value[string](tab, t, `(() => {
			const e = document.activeElement;
			return e.id || (e.closest("li") || e).id || e.className || e.tagName;
		})()`))
	}
	for _, want := range []string{"skip", "check-freezer-down", "check-bad-day", "pick", "closer", "chart"} {
		if !slices.Contains(reached, want) {
			t.Errorf("the tab key never reaches %s, only %v", want, reached)
		}
	}

	open := `document.querySelector("#check-returned details").open`
	do(tab, t, chromedp.Focus(chromedp.CSS("#check-returned summary")), chromedp.KeyEvent(kb.Enter))
	if !value[bool](tab, t, open) {
		t.Error("Enter does not open a check")
	}
	do(tab, t, chromedp.KeyEvent(" "))
	if value[bool](tab, t, open) {
		t.Error("the space bar does not close it again")
	}

	do(tab, t, chromedp.Focus(chromedp.CSS("#chart")), chromedp.KeyEvent(kb.ArrowRight))
	if got := look(tab, t).Moment; !strings.Contains(got, "started") {
		t.Errorf("the first moment is %q, want the operator's start", got)
	}
	do(tab, t, chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown))
	if got := look(tab, t); got.Check != "finalizer-first" {
		t.Errorf("picked = %+v, want the second check", got)
	}
	do(tab, t, chromedp.KeyEvent(kb.ArrowRight))
	if got := look(tab, t).Moment; !strings.Contains(got, "409") || !strings.Contains(got, "conflict") {
		t.Errorf("the moment is %q, want the first of the check", got)
	}
	do(tab, t, chromedp.KeyEvent("+"))
	if value[bool](tab, t, `document.getElementById("whole").disabled`) {
		t.Error("+ does not zoom in")
	}
	do(tab, t, chromedp.KeyEvent(kb.Escape))
	if got := look(tab, t); got.Check != "" || got.Moment != "" ||
		!value[bool](tab, t, `document.getElementById("whole").disabled`) {
		t.Errorf("after Escape: %+v, want nothing picked or zoomed", got)
	}
}

func TestZoomKeepsAllEvents(t *testing.T) {
	browser := start(t)
	r := read(t, fullRun)
	tab := open(browser, t, page(t, r), screens[2])
	shown := func() int { return value[int](tab, t, `document.querySelectorAll("#chart .span").length`) }
	all := shown()
	do(tab, t, chromedp.SetValue(chromedp.CSS("#pick"), fmt.Sprint(checkIndex(t, r, "no-answer"))))
	do(tab, t, chromedp.Evaluate[chromedp.Void](`document.getElementById("pick").dispatchEvent(new Event("change"))`),
		chromedp.Click(chromedp.CSS("#requests h3 button")))
	label := value[string](tab, t, `document.querySelector("#chart .span.picked text").textContent`)
	width := value[float64](tab, t, `document.querySelector("#chart .ground.picked").getBoundingClientRect().width`)
	if label != "no-answer" || width < 250 {
		t.Errorf("zoomed in, the check is %.0f wide and has the text %q", width, label)
	}
	saveScreenshot(tab, t, "zoomed-narrow-light")
	do(tab, t, chromedp.Click(chromedp.CSS("#later")), chromedp.Click(chromedp.CSS("#earlier")),
		chromedp.Click(chromedp.CSS("#wider")), chromedp.Click(chromedp.CSS("#whole")))
	if got := shown(); got != all || all != len(r.Checks) {
		t.Errorf("the whole run shows %d checks, at first %d, want %d", got, all, len(r.Checks))
	}
}

func TestCheckLinksToTimeline(t *testing.T) {
	browser := start(t)
	tab := open(browser, t, page(t, read(t, failedRun)), screens[2])
	do(tab, t, chromedp.Click(chromedp.CSS("#check-freezer-down .show")))
	if got := look(tab, t); got.Check != "freezer-down" {
		t.Errorf("picked = %+v, want freezer-down", got)
	}
	if focused := value[string](tab, t, "document.activeElement.id"); focused != "chart" {
		t.Errorf("the focus is on %q, want the chart", focused)
	}
	// The verdict links to the check that must be fixed, even after the reader has closed it.
	do(tab, t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#check-freezer-down details").open = false`),
		chromedp.Click(chromedp.CSS(".verdict a")),
		// The page receives the new address later than the click.
		chromedp.WaitReady(chromedp.CSS("#check-freezer-down details[open]")))
}

func TestFailedBuildShowsReasonFirst(t *testing.T) {
	browser := start(t)
	for _, s := range screens {
		tab := open(browser, t, page(t, read(t, "../../grading/report/testdata/not-built.json")), s)
		headings := value[[]string](tab, t, `[...document.querySelectorAll("h1, h2")].map((e) => e.textContent)`)
		if want := []string{
			"The reconciler", "It does not build", "Errors of the tools", "Checks", "This run",
		}; !slices.Equal(headings, want) {
			t.Errorf("the headings are %q, want %q", headings, want)
		}
		do(tab, t, chromedp.Click(chromedp.CSS(".plain summary")))
		if n := value[int](
			tab, t, `[...document.querySelectorAll(".planned li")].filter((e) => e.checkVisibility()).length`,
		); n != 13 {
			t.Errorf("%d checks are listed, want 13", n)
		}
	}
}
