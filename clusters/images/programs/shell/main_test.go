// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/interp"
)

// The test runs the scripts of local-path storage with the arguments that its provisioner passes.
func TestVolumeIsCreatedAndRemoved(t *testing.T) {
	volume := filepath.Join(t.TempDir(), "a", "volume")
	t.Setenv("VOL_DIR", volume)
	script := func(text string) string {
		file := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(file, []byte("#!/bin/sh\nset -eu\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	args := []string{"-p", volume, "-s", "10", "-m", "Filesystem", "-a", "create"}
	setup, teardown := script(`mkdir -m 0777 -p "$VOL_DIR"`), script(`rm -rf "$VOL_DIR"`)
	for range 2 { // the second time it exists
		if err := run(t.Context(), append([]string{setup}, args...), os.Stdout, os.Stderr); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(volume); err != nil || info.Mode().Perm() != 0o777 {
			t.Errorf("volume = %v, %v", info, err)
		}
	}
	if err := os.WriteFile(filepath.Join(volume, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := run(t.Context(), append([]string{teardown}, args...), os.Stdout, os.Stderr); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(volume); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the volume still exists: %v", err)
		}
	}
}

func TestScripts(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, test := range []struct {
		script, out, problems string
		status                interp.ExitStatus
	}{
		{script: `echo "$1 $#"`, out: "one 2\n"},
		{script: `exit 3`, status: 3},
		{script: `mkdir a/b`, problems: "mkdir: mkdir " + dir + "/a/b: no such file", status: 1},
		{script: `mkdir -p a/b; rm a`, problems: "rm: a is a folder: remove it with -r", status: 1},
		{script: `rm nothing`, problems: "no such file", status: 1},
		{script: `rm -i nothing`, problems: "rm: -i is not known here", status: 1},
		{script: `mkdir -m rwx x`, problems: `mkdir: invalid mode "rwx"`, status: 1},
		{script: `mkdir -p d/e; echo hello > d/f; ls d; cat d/f d/f; ls d/f; rm -r d`, out: "e\nf\nhello\nhello\nf\n"},
		{
			script: `mkdir d; cd d; echo hello > f; echo > e; ls -l; ls; ls -l ../d/e; cd ..; rm -r d`,
			out:    "-rw-r--r-- 1 e\n-rw-r--r-- 6 f\ne\nf\n-rw-r--r-- 1 e\n",
		},
		{script: `ls nothing`, problems: "ls: lstat " + dir + "/nothing: no such file", status: 1},
		{script: `ls -a`, problems: "ls: -a is not known here", status: 1},
		{script: `cat nothing`, problems: "cat: open " + dir + "/nothing: no such file", status: 1},
		{script: `set -e; mkdir -p a/b; rm -r a; mkdir a; false; echo never`, status: 1},
	} {
		var out, problems strings.Builder
		err := run(t.Context(), []string{"-c", test.script, "sh", "one", "two"}, &out, &problems)
		var status interp.ExitStatus
		if err != nil && !errors.As(err, &status) {
			t.Fatal(err)
		}
		if out.String() != test.out || !strings.Contains(problems.String(), test.problems) || status != test.status {
			t.Errorf("%s prints %q and %q, and exits with %d", test.script, out.String(), problems.String(), status)
		}
	}
	for _, args := range [][]string{nil, {"-c"}, {filepath.Join(dir, "missing")}, {"-c", "if"}} {
		if err := run(t.Context(), args, os.Stdout, os.Stderr); err == nil {
			t.Errorf("no error for sh %v", args)
		}
	}
}
