// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package socket

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestSocketInDeepFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 100))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "socket")
	if runtime.GOOS != "linux" {
		for _, err := range []error{second(Listen(path)), second(Dial(t.Context(), path))} {
			if err == nil || !strings.Contains(err.Error(), "set TMPDIR to one") {
				t.Errorf("error = %v", err)
			}
		}
		return
	}
	listener, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if connection, err := listener.Accept(); err == nil {
			_, _ = io.WriteString(connection, "good day")
			connection.Close()
		}
	}()
	connection, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if output, err := io.ReadAll(connection); err != nil || string(output) != "good day" {
		t.Errorf("the listener sent %q, %v", output, err)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("Close() removed the file, which may belong to another listener: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestErrorsNameTheOriginalPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for want, err := range map[string]error{
		"listening at " + taken + ": ":            second(Listen(taken)),
		"listening at " + dir + "/gone/socket: ":  second(Listen(dir + "/gone/socket")),
		"connecting to " + dir + "/gone/socket: ": second(Dial(t.Context(), dir+"/gone/socket")),
		"connecting to " + dir + "/nobody: ":      second(Dial(t.Context(), dir+"/nobody")),
		"connecting to " + dir + "/interrupted: ": second(Dial(ended, dir+"/interrupted")),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error = %v, want the prefix %q", err, want)
		}
	}
}
