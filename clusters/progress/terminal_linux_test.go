// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package progress

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// newTerminal returns a pair of files. The output to the terminal can be read from the screen.
func newTerminal(t *testing.T) (terminal, screen *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, screen
}

// readUntil reads what the kernel passes on, in pieces of any size, up to a certain end.
func readUntil(t *testing.T, screen *os.File, end string) (text string) {
	t.Helper()
	buffer := make([]byte, 4096)
	for !strings.HasSuffix(text, end) {
		n, err := screen.Read(buffer)
		if err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
		text += string(buffer[:n])
	}
	return text
}

func TestTerminalLineIsReplacedByTheResult(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	terminal, screen := newTerminal(t)
	if !IsTerminal(terminal) {
		t.Fatal("IsTerminal() of a terminal = false")
	}
	synctest.Test(t, func(*testing.T) {
		bar := Start(terminal, "build")
		bar.Set("packages", 5, 10)
		pass(250 * time.Millisecond)
		bar.Done()
	})
	got := readUntil(t, screen, "\n")
	gauge := "[" + strings.Repeat("█", 12) + strings.Repeat("·", 12) + "]"
	const again = ClearLine
	want := again + "⠋ build " + gauge + " 5 of 10 packages (0s)" + again + "⠙ build " + gauge + " 5 of 10 packages (0s)" +
		again + "build: done in 300ms\r\n"
	if got != want {
		t.Errorf("output =\n%q\nwant\n%q", got, want)
	}
}

func TestDumbTerminalIsTreatedAsLog(t *testing.T) {
	terminal, _ := newTerminal(t)
	for _, kind := range []string{"dumb", ""} {
		t.Setenv("TERM", kind)
		if IsTerminal(terminal) {
			t.Errorf("IsTerminal() with TERM=%q = true", kind)
		}
	}
}
