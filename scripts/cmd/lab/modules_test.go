// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lva.io/operators/clusters/gobuild"
	"lva.io/operators/clusters/longtest"
	"lva.io/operators/scripts/grading/report"
)

// withoutModules gives the lab command an empty module cache. proxy is the source of modules. Empty: the module cache
// of this machine, and for other modules the proxy of this machine.
func withoutModules(t *testing.T, c *exec.Cmd, proxy string) (cache string) {
	t.Helper()
	if proxy == "" {
		out, err := exec.Command("go", "env", "GOPROXY").Output()
		if err != nil {
			t.Fatal(err)
		}
		proxy = "file://" + filepath.Join(gobuild.ModuleCache(), "cache", "download") + "," + strings.TrimSpace(string(out))
	}
	cache = t.TempDir()
	// The go command makes the module cache read-only.
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", cache).Run() })
	c.Env = append(c.Env, "GOMODCACHE="+cache, "GOPROXY="+proxy)
	return cache
}

func TestModulesAreDownloadedAutomatically(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := complete(t)
	commands := []string{"grade 1 --solution", "certify 1 --only solution", "torture 2 --solution --random 0"}
	for _, args := range commands {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c, runs := command(t, root, strings.Fields(args)...)
			withoutModules(t, c, "")
			out, err := c.CombinedOutput()
			if err != nil || strings.Contains(string(out), "--fetch") {
				t.Errorf("%v\n%s", err, out)
			}
			wantNothing(t, runs)
			if !strings.HasPrefix(args, "grade ") {
				return
			}
			// Full marks are printed, and kept.
			if !strings.Contains(string(out), "100 of 100 points") {
				t.Errorf("want full marks, got\n%s", out)
			}
			reports := filepath.Join(root, "out", "solutions", "01-icecream")
			if _, err := report.Read(filepath.Join(reports, report.JSONFile)); err != nil {
				t.Error(err)
			}
			if best := bestIn(t, reports); best != 100 {
				t.Errorf("best score after full marks = %d, want 100", best)
			}
		})
	}
	t.Run("modules of another folder are not downloaded automatically", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "elsewhere")
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "solutions", "01-icecream"))); err != nil {
			t.Fatal(err)
		}
		c, _ := command(t, root, "grade", "1", "--dir", dir)
		cache := withoutModules(t, c, "")
		out, err := c.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "grade it with --fetch") {
			t.Errorf("%v\n%s", err, out)
		}
		if modules, err := filepath.Glob(filepath.Join(cache, "*", "*@*")); err != nil || len(modules) > 0 {
			t.Errorf("modules were downloaded: %v, error %v", modules, err)
		}
	})
}

// Programs that are built work without Go. Only a submission has to be compiled.
func TestMissingGo(t *testing.T) {
	t.Parallel()
	root := complete(t, "01-icecream")
	withoutGo := func(args ...string) (string, error) {
		c, runs := command(t, root, args...)
		c.Env = append(c.Env, "PATH="+t.TempDir())
		out, err := c.CombinedOutput()
		wantNothing(t, runs)
		return string(out), err
	}
	if out, err := withoutGo("kubectl", "help"); err != nil ||
		!strings.Contains(out, "kubectl controls the Kubernetes cluster manager") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := withoutGo("grade", "1", "--solution")
	if err == nil || strings.Count(out, "Go is not installed or not on PATH: install it from go.dev/dl") != 1 ||
		strings.Contains(out, "the grader itself failed") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestLabIsNotGradedWithoutNetwork(t *testing.T) {
	t.Parallel()
	longtest.Proof(t)
	root := complete(t)
	c, runs := command(t, root, "grade", "1", "--solution")
	withoutModules(t, c, "http://127.0.0.1:1")
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the network or the module proxy failed") ||
		strings.Contains(string(out), "--fetch") {
		t.Errorf("%v\n%s", err, out)
	}
	wantNothing(t, runs)
	written, err := report.Read(filepath.Join(root, "out", "solutions", "01-icecream", report.JSONFile))
	if err != nil || written.Outcome != report.Error ||
		!strings.HasPrefix(written.Reason, "modules could not be downloaded") {
		t.Errorf("got report %+v, error %v", written, err)
	}
}
