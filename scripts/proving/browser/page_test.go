// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/report"
	"lva.io/operators/scripts/grading/report/formats"
)

var screenshots = flag.String("screenshots", "", "a folder for pictures of the pages")

// screen is a setting in which a reader looks at a page.
type screen struct {
	name          string
	width, height int64
	scheme        string
}

var screens = []screen{
	{"wide", 1280, 900, "light"}, {"wide", 1280, 900, "dark"}, {"narrow", 360, 740, "light"}, {"narrow", 360, 740, "dark"},
}

// page writes a report's page into a folder.
func page(t *testing.T, r *report.Report) string {
	t.Helper()
	content, err := formats.Encode(r, formats.HTML, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), report.HTMLFile)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func read(t *testing.T, file string) *report.Report {
	t.Helper()
	r, err := report.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// pageProblems are the page's messages on the console and the browser's messages about the page: errors, and violations
// of its policy. A test can add others.
type pageProblems struct {
	mutex sync.Mutex
	all   []string
}

func (p *pageProblems) add(format string, args ...any) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.all = append(p.all, fmt.Sprintf(format, args...))
}

func (p *pageProblems) get() []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Clone(p.all)
}

// open opens a page in a tab of its own. Problems of the page fail the test at its end.
func open(browser context.Context, t *testing.T, file string, s screen) context.Context {
	t.Helper()
	tab, problems := openAndListen(browser, t, file, s)
	problems.failAtEnd(t)
	return tab
}

// failAtEnd fails the test at its end if the page has problems by then.
func (p *pageProblems) failAtEnd(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if all := p.get(); len(all) > 0 {
			t.Errorf("the page has problems:\n%s", strings.Join(all, "\n"))
		}
	})
}

func openAndListen(browser context.Context, t *testing.T, file string, s screen) (context.Context, *pageProblems) {
	t.Helper()
	tab, problems := newTab(browser, t)
	do(tab, t,
		chromedp.EmulateViewport(s.width, s.height),
		prefer(s.scheme),
		chromedp.Navigate("file://"+file),
	)
	return tab, problems
}

// newTab returns an empty tab, and the problems of its pages.
func newTab(browser context.Context, t *testing.T) (context.Context, *pageProblems) {
	t.Helper()
	tab, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	problems := &pageProblems{}
	if err := chromedp.Do(tab); err != nil { // creates the tab, which would end with a shorter context
		t.Fatal(err)
	}
	if err := chromedp.Listen(tab, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			problems.add("console.%s", e.Type)
		case *runtime.EventExceptionThrown:
			text := e.ExceptionDetails.Text
			if thrown := e.ExceptionDetails.Exception; thrown != nil {
				text, _, _ = strings.Cut(thrown.Description, "\n") // the stack follows
			}
			problems.add("exception: %s at line %d", text, e.ExceptionDetails.LineNumber+1)
		case *cdplog.EventEntryAdded:
			problems.add("%s: %s", e.Entry.Source, e.Entry.Text)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return tab, problems
}

// prefer sets the user's preferred colours.
func prefer(scheme string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return chromedp.Void{}, err
	}
}

// saveScreenshot takes a screenshot of the whole page, if -screenshots is set.
func saveScreenshot(tab context.Context, t *testing.T, name string) {
	t.Helper()
	if *screenshots == "" {
		return
	}
	const png = 100
	image, err := chromedp.Run(tab, chromedp.FullScreenshot(png))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(*screenshots, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), image, 0o600); err != nil {
		t.Fatal(err)
	}
}

// samples returns the golden reports of package report and real ones of this package.
func samples(t *testing.T) map[string]*report.Report {
	t.Helper()
	all := map[string]*report.Report{}
	for _, pattern := range []string{"../../grading/report/testdata/*.json", "testdata/*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, ".schema.json") {
				all[strings.TrimSuffix(filepath.Base(file), ".json")] = read(t, file)
			}
		}
	}
	if len(all) < len(report.Outcomes) {
		t.Fatalf("found %d reports, want one for each outcome", len(all))
	}
	return all
}

func TestPagesFitEveryScreen(t *testing.T) {
	longtest.Proof(t)
	browser := start(t)
	for name, r := range samples(t) {
		for _, s := range screens {
			t.Run(fmt.Sprintf("%s %s %s", name, s.name, s.scheme), func(t *testing.T) {
				tab := open(browser, t, page(t, r), s)
				saveScreenshot(tab, t, fmt.Sprintf("%s-%s-%s", name, s.name, s.scheme))
				do(tab, t, chromedp.Evaluate[chromedp.Void](
					`document.querySelectorAll("details").forEach((d) => { d.open = true })`,
				))
				if wide := value[[]string](tab, t, tooWide); len(wide) > 0 {
					t.Errorf("elements are wider than the screen: %s", strings.Join(wide, "; "))
				}
			})
		}
	}
}

// tooWide lists the elements that are wider than the screen, if the page can be scrolled sideways.
const tooWide = `(() => {
	if (document.documentElement.scrollWidth <= innerWidth) return [];
	return [...document.body.querySelectorAll("*")]
		.filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5 && !e.closest("svg"))
		.map((e) => e.tagName + "." + e.className + " " + Math.round(e.getBoundingClientRect().right));
})()`
