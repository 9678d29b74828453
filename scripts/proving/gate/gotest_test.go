// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gate

import (
	"bytes"
	"io"
	"testing"
)

func TestDownloadsOfTestsAreCounted(t *testing.T) {
	t.Parallel()
	var to bytes.Buffer
	calls, counted := 0, 0
	o := &output{to: &to, onOutput: func() { calls++ }, downloads: func(n int) { counted = n }}
	for _, piece := range []string{"go: downloading a v1\ngo: down", "loading b v2\n", "# x\n", "x.go:1: ", "no\n"} {
		if n, err := io.WriteString(o, piece); err != nil || n != len(piece) {
			t.Fatalf("wrote %d of %d bytes: %v", n, len(piece), err)
		}
		if counted == 2 && to.Len() == 0 && calls > 0 {
			t.Error("a download ends the bar")
		}
	}
	if want := "# x\nx.go:1: no\n"; to.String() != want || counted != 2 || calls == 0 {
		t.Errorf("passed on %q, want %q; counted %d downloads", to.String(), want, counted)
	}
}
