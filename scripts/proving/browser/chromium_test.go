// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package browser

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/remote"

	"lva.io/operators/clusters/process"
	"lva.io/operators/scripts/authoring/slides"
)

// requiredVariable makes a missing Chromium an error.
const requiredVariable = "OPERATOR_LABS_BROWSER"

// startTimeout is generous. A machine that compiles something needs seconds for a start that usually takes a fifth of a
// second.
const startTimeout = 60 * time.Second

// flags keep Chromium from unrequested work, above all from the network. While a page scrolls smoothly, a click may
// arrive after its target has moved.
var flags = []string{
	"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-default-browser-check",
	"--disable-background-networking", "--disable-component-update", "--disable-sync",
	"--disable-extensions", "--disable-breakpad",
	"--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", "--force-prefers-reduced-motion",
	"--remote-debugging-port=0",
}

// chromium returns the path of the program. If it is missing, the test is skipped or fails, depending on the
// environment.
func chromium(t *testing.T) string {
	t.Helper()
	program, err := slides.Chromium()
	switch {
	case err == nil:
	case os.Getenv(requiredVariable) == "required":
		t.Fatalf("%s=required, and %v", requiredVariable, err)
	default:
		t.Skipf("%v; CI sets %s=required", err, requiredVariable)
	}
	return program
}

// start starts a browser and returns a context for its tabs. The browser ends with the test, even if the test is
// killed.
func start(t *testing.T) context.Context {
	t.Helper()
	program := chromium(t)
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := scope.Close(); err != nil {
			t.Error(err)
		}
	})
	output := &addressFinder{found: make(chan string, 1)}
	home := filepath.Join(scope.Dir, "home")
	browser, err := scope.Start(process.Spec{
		Path: program, Args: append(flags, "--user-data-dir="+filepath.Join(scope.Dir, "profile"), "about:blank"),
		// Chromium leaves a socket in its temporary folder, so the path of this folder must be short.
		Env:    append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "TMPDIR="+scope.Dir),
		Stdout: output, Stderr: output,
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case address := <-output.found:
		ctx, cancel := remote.NewAllocator(context.Background(), address, remote.NoModifyURL)
		t.Cleanup(cancel)
		return ctx
	case <-browser.Done():
		t.Fatalf("Chromium ended at once (%v):\n%s", browser.Err(), output)
	case <-time.After(startTimeout):
		t.Fatalf("Chromium did not print its address within %s:\n%s", startTimeout, output)
	}
	return nil
}

var address = regexp.MustCompile(`DevTools listening on (ws://\S+)`)

// addressFinder reads Chromium's output until the line with its address.
type addressFinder struct {
	mutex sync.Mutex
	text  bytes.Buffer
	found chan string
	once  sync.Once
}

func (f *addressFinder) Write(p []byte) (int, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.text.Len() < 64<<10 {
		f.text.Write(p)
	}
	if match := address.FindSubmatch(f.text.Bytes()); match != nil {
		f.once.Do(func() { f.found <- string(match[1]) })
	}
	return len(p), nil
}

func (f *addressFinder) String() string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.text.String()
}

// stepTimeout is the time limit of steps that usually take milliseconds, on a machine that compiles at the same time.
const stepTimeout = 30 * time.Second

var errAction = errors.New("the page took too long")

// do runs steps in a tab. Each step has a time limit.
func do(tab context.Context, t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	for i, step := range steps {
		ctx, cancel := context.WithTimeoutCause(tab, stepTimeout, errAction)
		err := chromedp.Do(ctx, step)
		cancel()
		if err != nil {
			t.Fatalf("step %d of %d: %v", i+1, len(steps), errors.Join(err, context.Cause(ctx)))
		}
	}
}

// value returns the value of an expression in the page's script.
func value[T any](tab context.Context, t *testing.T, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(tab, stepTimeout, errAction)
	defer cancel()
	result, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return result
}
