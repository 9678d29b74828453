// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pauseVariable makes this binary run the program, after a child of it has ended.
const pauseVariable = "PAUSE_TEST_IS_PAUSE"

func TestMain(m *testing.M) {
	switch os.Getenv(pauseVariable) {
	case "":
		os.Exit(m.Run())
	case "later":
		if err := haveChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	main()
}

// haveChild waits until a child has ended, prints the child's number, and then executes the program.
func haveChild() error {
	c := exec.Command("true")
	if err := c.Start(); err != nil {
		return err
	}
	for !strings.Contains(read(stat(c.Process.Pid)), ") Z ") {
		<-time.After(time.Millisecond)
	}
	fmt.Println(c.Process.Pid)
	if err := os.Setenv(pauseVariable, "now"); err != nil {
		return err
	}
	return syscall.Exec(os.Args[0], os.Args, os.Environ())
}

// On a busy machine a process of the Pod may end before the program listens for the signal.
func TestEarlierZombiesAreReaped(t *testing.T) {
	t.Parallel()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), pauseVariable+"=later")
	output, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		if err := c.Wait(); err != nil {
			t.Errorf("error after SIGTERM = %v", err)
		}
	}()
	var child int
	if _, err := fmt.Fscan(output, &child); err != nil {
		t.Fatal(err)
	}
	for giveUp := time.Now().Add(20 * time.Second); read(stat(child)) != ""; <-time.After(5 * time.Millisecond) {
		if time.Now().After(giveUp) {
			t.Fatalf("after 20 s the child is not reaped: %s", read(stat(child)))
		}
	}
}

func stat(pid int) string { return fmt.Sprintf("/proc/%d/stat", pid) }

func read(file string) string {
	content, _ := os.ReadFile(file) // a process that is gone has none
	return string(content)
}
