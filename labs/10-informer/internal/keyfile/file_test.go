// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package keyfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSync(t *testing.T) {
	t.Parallel()
	const adas, graces = ada + " authorizedkey:ada\n", grace + " authorizedkey:grace\n"
	both := map[string]string{"grace": grace, "ada": ada}
	long := "# " + strings.Repeat("x", 100<<10) + "\n" // longer than a bufio.Scanner takes
	for _, test := range []struct {
		name, before string
		keys         map[string]string
		want         string
		unchanged    bool
	}{
		{name: "an empty file", keys: both, want: adas + graces},
		{name: "nothing to do", before: adas + graces, keys: both, want: adas + graces, unchanged: true},
		{name: "no keys", before: adas + "# kept\n" + graces, want: "# kept\n"},
		{
			name: "lines of others stay as they are", before: "# a \n\n  no-pty " + grace + "\tx \n", keys: both,
			want: "# a \n\n  no-pty " + grace + "\tx \n" + adas + graces,
		},
		{name: "the last line has no break", before: "# a", keys: map[string]string{"ada": ada}, want: "# a\n" + adas},
		{name: "the last line has no break, and nothing is added", before: "# a", want: "# a", unchanged: true},
		{name: "a key of others is not ours", before: ada + "\n", want: ada + "\n", unchanged: true},
		{name: "a comment is not ours", before: "# authorizedkey:ada\n", want: "# authorizedkey:ada\n", unchanged: true},
		{name: "an indented comment is not ours", before: " \t# authorizedkey:ada\n", want: " \t# authorizedkey:ada\n", unchanged: true},
		{name: "CRLF and long lines stay", before: "# a\r\n" + adas + long, keys: map[string]string{"ada": ada}, want: "# a\r\n" + long + adas},
		{name: "a forged line goes", before: `command="x" ` + adas, keys: map[string]string{"ada": ada}, want: adas},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			t.Skip("TODO(lab): 4. remove this line when you begin with Sync, merge and replace; then: make test")
			file := File{Path: filepath.Join(t.TempDir(), "authorized_keys")}
			if err := os.WriteFile(file.Path, []byte(test.before), mode); err != nil {
				t.Fatal(err)
			}
			changed, err := file.Sync(test.keys)
			if err != nil || changed == test.unchanged {
				t.Errorf("changed: %t, %v", changed, err)
			}
			if got, err := os.ReadFile(file.Path); err != nil || string(got) != test.want {
				t.Errorf("the file is\n%q, %v, want\n%q", got, err, test.want)
			}
			info, err := os.Stat(file.Path)
			if err != nil || info.Mode() != mode {
				t.Errorf("the mode is %v, %v", info.Mode(), err)
			}
			if changed, err := file.Sync(test.keys); changed || err != nil {
				t.Errorf("the second time: changed: %t, %v", changed, err)
			}
		})
	}
}

func TestAFailureLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	t.Skip("TODO(lab): 4. remove this line when you begin with replace; then: make test")
	file := File{Path: filepath.Join(t.TempDir(), "authorized_keys")}
	// Not even root can replace a folder with something in it by a file.
	if err := os.MkdirAll(filepath.Join(file.Path, "in-the-way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := file.replace([]byte(ada)); err == nil {
		t.Error("there is no error")
	}
	entries, err := os.ReadDir(filepath.Dir(file.Path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

// A controller that is killed after CreateTemp and before the rename cannot remove its file itself.
func TestLeftoversOfAKilledControllerAreRemoved(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for range 3 {
		leftover, err := os.CreateTemp(folder, temporaryFiles)
		if err != nil {
			t.Fatal(err)
		}
		if err := leftover.Close(); err != nil {
			t.Fatal(err)
		}
	}
	others := []string{
		".authorized_keys-2026", ".authorized_keys.swp", "authorized_keys", "authorized_keys-1.authorizedkey-controller",
	}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(folder, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	file := File{Path: filepath.Join(folder, "authorized_keys")}
	if err := file.RemoveLeftovers(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	if !slices.Equal(left, others) {
		t.Errorf("the folder has %v, want %v", left, others)
	}
	nowhere := File{Path: filepath.Join(folder, "none", "authorized_keys")}
	if err := nowhere.RemoveLeftovers(); err != nil {
		t.Errorf("a folder that is not there has no leftovers, and the error is %v", err)
	}
}
