// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	// siteVariable reports that the site was built. Elsewhere the site may be old, or Node may be missing.
	siteVariable = "OPERATOR_LABS_SITE"
	siteFolder   = "../../../out/site"
	axeFile      = "../../../docs/site/node_modules/axe-core/axe.min.js"
	// below is the path at which the tests serve the site. The build does not know it. GitHub Pages would take the
	// repository's name, whose end is also the name of a folder of the site.
	below = "/operator-labs/"
)

// missing is the end of an address at which the site has no page.
const missing = "/missing"

// sitePages has a page of each kind.
var sitePages = map[string]string{
	"home": "", "lecture": "docs/lectures/03-finalizers.html",
	"lab": "labs/02-reconciler/", "reference": "docs/reference/commands.html",
	"runs": "docs/runs/", "run": "docs/runs/03-finalizer/mistake.html",
}

func builtSite(t *testing.T) string {
	t.Helper()
	if os.Getenv(siteVariable) != "required" {
		t.Skipf("run `make docs`, and set %s=required, as CI does", siteVariable)
	}
	if _, err := os.Stat(filepath.Join(siteFolder, "index.html")); err != nil {
		t.Fatalf("%s=required, but there is no site: run `make docs` (%v)", siteVariable, err)
	}
	return siteFolder
}

// serveSite starts a plain file server, which shows 404.html for missing pages. It returns the address of the first
// page.
func serveSite(t *testing.T) string {
	t.Helper()
	site := builtSite(t)
	files := http.FileServer(http.Dir(site))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, missing) {
			http.ServeFile(w, r, filepath.Join(site, "404.html"))
			return
		}
		files.ServeHTTP(w, r)
	})
	server := httptest.NewServer(http.StripPrefix(strings.TrimSuffix(below, "/"), handler))
	t.Cleanup(server.Close)
	return server.URL + below
}

// browse opens a page of the site. A request to another host fails the test, and so does an error response.
func browse(
	browser context.Context, t *testing.T, address string, s screen, before ...chromedp.Action[chromedp.Void],
) context.Context {
	t.Helper()
	tab, problems := newTab(browser, t)
	host, _, _ := strings.Cut(strings.TrimPrefix(address, "http://"), "/")
	if err := chromedp.Listen(tab, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if url := e.Request.URL; !strings.HasPrefix(url, "http://"+host+below) && !strings.HasPrefix(url, "data:") {
				problems.add("a request to %s", url)
			}
		case *network.EventResponseReceived:
			if e.Response.Status >= http.StatusBadRequest {
				problems.add("%d for %s", e.Response.Status, e.Response.URL)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	do(tab, t, append(append([]chromedp.Action[chromedp.Void]{
		call(network.Enable, network.EnableParams{}), chromedp.EmulateViewport(s.width, s.height), prefer(s.scheme),
	}, before...), chromedp.Navigate(address))...)
	problems.failAtEnd(t)
	return tab
}

// call turns a command of the browser's protocol into a step.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, command, params)
		return chromedp.Void{}, err
	}
}

// waitFor waits for an expression of the page's script to become true.
func waitFor(tab context.Context, t *testing.T, expression string) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(tab, stepTimeout, errAction)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression)); err != nil {
		t.Fatalf("waiting for %s: %v", expression, err)
	}
}

// mounted is true when the page's scripts work.
const mounted = `!!document.querySelector("#app")?.__vue_app__`

// axe lists the violations of WCAG and of good practice that axe-core finds, with one element for each.
const axe = `axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
	violations.map((v) => v.id + ": " + v.help + " (" + v.nodes.length + "): " + v.nodes.slice(0, 3).map((n) =>
		n.html.slice(0, 160) + " " + n.any.map((a) => a.message).join()).join(" | ")))`

func TestSiteIsAccessible(t *testing.T) {
	site, browser := serveSite(t), start(t)
	script, err := os.ReadFile(axeFile)
	if err != nil {
		t.Fatalf("reading axe-core: %v", err)
	}
	for kind, page := range sitePages {
		for _, s := range screens {
			t.Run(fmt.Sprintf("%s %s %s", kind, s.name, s.scheme), func(t *testing.T) {
				tab := browse(browser, t, site+page, s)
				if kind != "run" { // the run is no page of VitePress
					waitFor(tab, t, mounted)
					if dark := value[bool](
						tab, t, `document.documentElement.classList.contains("dark")`,
					); dark != (s.scheme == "dark") {
						t.Errorf("the page is dark: %t", dark)
					}
				}
				saveScreenshot(tab, t, fmt.Sprintf("site-%s-%s-%s", kind, s.name, s.scheme))
				if wide := value[[]string](tab, t, tooWide); len(wide) > 0 {
					t.Errorf("elements are wider than the screen: %s", strings.Join(wide, "; "))
				}
				do(tab, t, chromedp.Evaluate[chromedp.Void](string(script)))
				ctx, cancel := context.WithTimeoutCause(tab, stepTimeout, errAction)
				defer cancel()
				violations, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](axe, chromedp.EvalAwaitPromise))
				if err != nil {
					t.Fatal(err)
				}
				if len(violations) > 0 {
					t.Errorf("axe-core violations:\n%s", strings.Join(violations, "\n"))
				}
			})
		}
	}
}

func TestScriptsWorkOnNotFoundPage(t *testing.T) {
	site, browser := serveSite(t), start(t)
	tab, _ := newTab(browser, t) // at first the browser also looks for the scripts next to the missing page
	do(tab, t, chromedp.Navigate(site+"docs/lectures"+missing))
	waitFor(tab, t, mounted)
}

func TestSearchWithKeyboard(t *testing.T) {
	site, browser := serveSite(t), start(t)
	for _, s := range screens[:3] {
		t.Run(s.name+" "+s.scheme, func(t *testing.T) {
			tab := browse(browser, t, site+sitePages["lab"], s)
			waitFor(tab, t, mounted)
			do(tab, t, chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
			waitFor(tab, t, `document.activeElement?.id === "localsearch-input"`)
			// Only one lecture has this word.
			do(tab, t, chromedp.KeyEvent("thumbprint"))
			waitFor(tab, t, `document.querySelectorAll(".VPLocalSearchBox .result").length > 0`)
			saveScreenshot(tab, t, fmt.Sprintf("site-search-%s-%s", s.name, s.scheme))
			do(tab, t, chromedp.KeyEvent(kb.Enter))
			waitFor(tab, t, `location.pathname === "`+below+`docs/lectures/06-acme.html" && `+
				`document.querySelector("h1")?.textContent.includes("ACME")`)
			// From this page, the list of pages continues with the next lecture.
			next := value[string](tab, t, `document.querySelector(".pager-link.next").href`)
			if next != site+"docs/lectures/07-aggregation.html" {
				t.Errorf("page after lecture 6 = %s, want lecture 7", next)
			}
			do(tab, t, chromedp.Evaluate[chromedp.Void](`document.querySelector(".pager-link.next").click()`))
			waitFor(tab, t, `location.pathname.endsWith("/07-aggregation.html") && `+
				`document.querySelector("h1")?.textContent.includes("Aggregation")`)
			outside := value[[]string](tab, t, `[...document.links].map((l) => l.href)`+
				`.filter((h) => h.startsWith(location.origin) && !h.startsWith("`+site+`"))`)
			if len(outside) > 0 {
				t.Errorf("links point out of the site: %v", outside)
			}
		})
	}
}

func TestTabKeyReachesText(t *testing.T) {
	site, browser := serveSite(t), start(t)
	tab := browse(browser, t, site+sitePages["lecture"], screens[0])
	waitFor(tab, t, mounted)
	focus := func() string {
		return value[string](tab, t, `(() => {
			const e = document.activeElement;
			return e.closest(".VPSkipLink, .VPNavBar, .VPSidebar, .VPDoc, #VPContent")?.className.split(" ")[0] ?? e.tagName;
		})()`)
	}
	// Without the skip link, the tab key reaches each part of the page, in order.
	var parts []string
	for range 200 {
		do(tab, t, chromedp.KeyEvent(kb.Tab))
		parts = append(parts, focus())
		if parts[len(parts)-1] == "VPDoc" {
			break
		}
	}
	if order, want := slices.Compact(parts), []string{
		"VPSkipLink", "VPNavBar", "VPSidebar", "VPDoc",
	}; !slices.Equal(order, want) {
		t.Errorf("the tab key reaches %v, want %v", order, want)
	}
	// The skip link jumps to the text at once.
	do(tab, t, chromedp.Navigate(site+sitePages["lecture"]))
	waitFor(tab, t, mounted)
	do(tab, t, chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	waitFor(tab, t, `document.activeElement.id === "VPContent"`)
	do(tab, t, chromedp.KeyEvent(kb.Tab))
	if got := focus(); got != "VPDoc" {
		t.Errorf("the tab key after the skip link reaches %s, want the text", got)
	}
}

// A printed page has its text in dark letters, including the parts that are folded on the screen, except the output of
// commands.
func TestLectureCanBePrinted(t *testing.T) {
	site, browser := serveSite(t), start(t)
	tab := browse(browser, t, site+sitePages["lecture"], screens[1])
	waitFor(tab, t, mounted+` && document.documentElement.classList.contains("dark")`)
	folded := value[float64](tab, t,
		`document.querySelector(".vp-doc details:not(.printed)").getBoundingClientRect().height`)
	do(tab, t, call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}))
	waitFor(tab, t, `!document.documentElement.classList.contains("dark")`)
	saveScreenshot(tab, t, "site-print")
	if open := value[float64](tab, t,
		`document.querySelector(".vp-doc details:not(.printed)").getBoundingClientRect().height`); open <= folded {
		t.Errorf("an answer is %.0f pixels high on the screen and %.0f on paper", folded, open)
	}
	shown := value[[]string](tab, t, `[...document.querySelectorAll(".VPNav, .VPLocalNav, .VPSidebar, .aside, `+
		`.VPDocFooter, button.copy, details.printed")]
		.filter((e) => e.checkVisibility()).map((e) => e.className)`)
	if len(shown) > 0 {
		t.Errorf("elements that must not be printed: %s", strings.Join(shown, ", "))
	}
	do(tab, t, call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "screen"}))
	waitFor(tab, t, `document.documentElement.classList.contains("dark")`)
}

func TestSiteWorksWithoutScripts(t *testing.T) {
	site, browser := serveSite(t), start(t)
	disabled := call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	for _, s := range []screen{screens[0], screens[2]} {
		t.Run(s.name, func(t *testing.T) {
			tab := browse(browser, t, site+sitePages["lecture"], s, disabled)
			if value[bool](tab, t, mounted) {
				t.Fatal("a script ran")
			}
			saveScreenshot(tab, t, "site-without-script-"+s.name)
			seen := value[map[string]int](tab, t, `(() => {
				const seen = (selector) => [...document.querySelectorAll(selector)].filter((e) =>
					e.checkVisibility({ checkOpacity: true, visibilityProperty: true }) && e.getBoundingClientRect().right > 0).length;
				return { text: document.querySelector(".vp-doc").innerText.length, pages: seen(".VPSidebar a"), next: seen(".pager-link.next"),
					diagrams: seen(".diagram svg"), dead: seen("button:not(.copy)") };
			})()`)
			if seen["text"] < 20_000 || seen["pages"] < 60 || seen["next"] != 1 || seen["diagrams"] != 2 || seen["dead"] > 0 {
				t.Errorf("visible without scripts: %v; want the text, the list of pages, the next lecture, its diagrams, "+
					"and no button that needs a script", seen)
			}
			if wide := value[[]string](tab, t, tooWide); len(wide) > 0 {
				t.Errorf("elements are wider than the screen: %s", strings.Join(wide, "; "))
			}
			do(tab, t, chromedp.Click(chromedp.CSS(".VPSidebar a[href$='labs/02-reconciler/']")))
			do(tab, t, chromedp.WaitReady(chromedp.CSS("#lab-02-the-reconciler")))
			if url := value[string](tab, t, "location.href"); url != site+"labs/02-reconciler/" {
				t.Errorf("the list of pages points to %s", url)
			}
		})
	}
}

// A link to a recorded run opens the page of the report, which can be replayed there.
func TestSiteReplaysRecordedRun(t *testing.T) {
	site, browser := serveSite(t), start(t)
	tab := browse(browser, t, site+"docs/runs/", screens[0])
	waitFor(tab, t, mounted)
	do(tab, t, chromedp.Click(chromedp.CSS(`a[href$="03-finalizer/mistake.html"]`)))
	do(tab, t, chromedp.WaitReady(chromedp.CSS("#replayed:not([hidden])")))
	do(tab, t, chromedp.Click(chromedp.CSS("#replay-start")))
	if now := lookAtReplay(tab, t); len(now.Choices) < 3 || !strings.Contains(now.Check, "(failed)") {
		t.Errorf("the page shows %+v, want the failed check with a question", now)
	}
	lecture := value[string](tab, t, `document.querySelector(".explained a").getAttribute("href")`)
	if !strings.HasPrefix(lecture, "../../lectures/03-finalizers.html#") {
		t.Errorf("the link to the lecture is %s", lecture)
	}
}
