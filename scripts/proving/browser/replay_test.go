// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package browser

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lva.io/operators/scripts/grading/report/replay"
)

// replayed is the state of a replay on the page.
type replayed struct {
	// Check is the selected check. Steps are the lines so far, Choices the offered answers, and Score the page's text
	// about the answers.
	Check, Score   string
	Steps, Choices []string
	Focused        bool
}

func lookAtReplay(tab context.Context, t *testing.T) replayed {
	t.Helper()
	return value[replayed](tab, t, `(() => {
		const texts = (selector) => [...document.querySelectorAll(selector)].map((e) => e.textContent);
		return {
			Check: document.getElementById("replay-check").selectedOptions[0].textContent,
			Score: document.getElementById("replay-score").textContent,
			Steps: texts("#replay-steps .what"), Choices: texts("#replay-question .choices button").map((text) => text.replace(/^\d /, "")),
			Focused: !!document.activeElement.closest("#replay-question"),
		};
	})()`)
}

// The replay offers the steps of package replay, in their order, and counts the answers. It works with the keyboard
// alone.
func TestReaderPredictsNextRequest(t *testing.T) {
	browser := start(t)
	r := read(t, realRun)
	r.Sanitize()
	check, err := replay.Choose(r, "")
	if err != nil {
		t.Fatal(err)
	}
	steps := replay.Steps(r, check)
	for _, s := range screens[:3] {
		t.Run(s.name+" "+s.scheme, func(t *testing.T) {
			tab := open(browser, t, page(t, r), s)
			if before := lookAtReplay(tab, t); !strings.HasPrefix(before.Check, check.ID+" ") ||
				len(before.Steps)+len(before.Choices) > 0 {
				t.Fatalf("before the start: got %+v, want only the check %s", before, check.ID)
			}
			do(tab, t, chromedp.Click(chromedp.CSS("#replay-start")))
			asked, right := 0, 0
			for i, step := range steps {
				if step.Choices == nil {
					continue
				}
				now := lookAtReplay(tab, t)
				if len(now.Steps) != i || !slices.Equal(now.Choices, step.Choices) || !now.Focused {
					t.Fatalf("before step %d: got %+v, want %d steps and the choices %q, one of them focused", i, now, i, step.Choices)
				}
				answer := asked % len(step.Choices)
				asked++
				if step.Choices[answer] == step.Request {
					right++
				}
				do(tab, t, chromedp.KeyEvent(string(rune('1'+answer))))
				if score, want := lookAtReplay(tab, t).Score,
					fmt.Sprintf("You have predicted %d of %d step", right, asked); !strings.Contains(score, want) {
					t.Fatalf("after %d answers: score = %q, want %q", asked, score, want)
				}
				if asked == 2 {
					saveScreenshot(tab, t, "replay-"+s.name+"-"+s.scheme)
				}
			}
			if end := lookAtReplay(tab, t); asked < 3 || right == 0 || right == asked ||
				len(end.Steps) != len(steps) || len(end.Choices) > 0 {
				t.Errorf("at the end of %d steps: got %d, with %d of %d answers right", len(steps), len(end.Steps), right, asked)
			}
			if wide := value[[]string](tab, t, tooWide); len(wide) > 0 {
				t.Errorf("elements are wider than the screen: %s", strings.Join(wide, "; "))
			}
			do(tab, t, chromedp.KeyEvent(kb.Enter)) // the button with the focus starts again
			if again := lookAtReplay(tab, t); len(again.Choices) == 0 || again.Score != "" {
				t.Errorf("after Enter at the end: got %+v, want the first question", again)
			}
		})
	}
}
