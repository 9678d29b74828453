// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestDownloadsOfTestsAreCountedAndAllElseIsPassedOn(t *testing.T) {
	t.Parallel()
	var to bytes.Buffer
	spoken, counted := 0, 0
	o := &output{to: &to, speaks: func() { spoken++ }, downloads: func(n int) { counted = n }}
	for _, piece := range []string{"go: downloading a v1\ngo: down", "loading b v2\n", "# x\n", "x.go:1: ", "no\n"} {
		if n, err := io.WriteString(o, piece); err != nil || n != len(piece) {
			t.Fatalf("%d of %d bytes were written: %v", n, len(piece), err)
		}
		if counted == 2 && to.Len() == 0 && spoken > 0 {
			t.Error("a download ends the bar")
		}
	}
	if want := "# x\nx.go:1: no\n"; to.String() != want || counted != 2 || spoken == 0 {
		t.Errorf("it passed on %q, want %q, and counted %d downloads", to.String(), want, counted)
	}
}

func TestAPackageThatFailsWithoutATestIsNotForgiven(t *testing.T) {
	t.Parallel()
	const (
		test    = `{"Action":"fail","Package":"a","Test":"TestA"}` + "\n"
		pkg     = `{"Action":"fail","Package":"a"}` + "\n"
		passing = `{"Action":"pass","Package":"a"}` + "\n"
		other   = `{"Action":"fail","Package":"b"}` + "\n"
	)
	for events, want := range map[string]string{
		passing:                     "",
		test + pkg + passing:        "",
		pkg + passing:               "package a failed although each of its tests passed",
		test + pkg + other:          "package b failed although each of its tests passed",
		passing + `{"Action":"fail`: "reading what the tests have reported",
	} {
		err := failedWithoutTest(strings.NewReader(events))
		if (want == "") != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("of %s it says %v, want %q", events, err, want)
		}
	}
}

func TestNothingIsLeftOfTryingAFolderForReports(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	killed := exec.CommandContext(t.Context(), "true")
	if err := killed.Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf(".writable-%d-1", killed.Process.Pid)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writable(dir); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}
