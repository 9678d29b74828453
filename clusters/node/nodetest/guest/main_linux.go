// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command guest runs in the Pods of tests. Each of its arguments makes it misbehave in one way that real programs do:
//
//	guest serve ADDRESS   greets each client
//	guest exit CODE       ends at once
//	guest ignore-sigterm  ignores SIGTERM
//	guest spawn           ignores SIGTERM, as do its two children, one of which has left its process group, its
//	                      session and its parent
//	guest leave-zombie    has a child that it never waits for, and one that has left it. Both end. It prints when
//	                      one zombie is left
//	guest print BYTES     prints that many bytes, and then "the end"
//	guest fill FILE BYTES writes that many bytes to a file, and prints the error if it can't
//	guest fill-disk FILE  writes to a file until it can't, prints the error, and keeps running
//	guest detach ...      starts a guest in a session of its own, and ends
package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: guest BEHAVIOUR [ARGUMENT...]")
		os.Exit(2)
	}
	if err := behave(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

func behave(behaviour string, arguments []string) error {
	argument := strings.Join(arguments, " ")
	switch behaviour {
	case "serve":
		return serve(argument)
	case "exit":
		code, err := strconv.Atoi(argument)
		if err != nil {
			return err
		}
		os.Exit(code)
	case "ignore-sigterm":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ignores SIGTERM")
		wait()
	case "spawn":
		if err := errors.Join(guest("ignore-sigterm").Start(), guest("detach", "ignore-sigterm").Run()); err != nil {
			return err
		}
		return behave("ignore-sigterm", nil)
	case "detach":
		c := guest(arguments...)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return c.Start()
	case "leave-zombie":
		return leaveZombie()
	case "print":
		return printBytes(argument)
	case "fill":
		return fill(arguments)
	case "fill-disk":
		return fillDisk(argument)
	default:
		return fmt.Errorf("unknown behaviour %q", behaviour)
	}
	return nil
}

// wait waits for a signal that ends the process.
func wait() { <-time.After(24 * time.Hour) }

func guest(arguments ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], arguments...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c
}

func serve(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		fmt.Fprintln(connection, "welcome")
		connection.Close()
	}
}

func leaveZombie() error {
	if err := errors.Join(guest("exit", "0").Start(), guest("detach", "exit", "0").Run()); err != nil {
		return err
	}
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		if running, zombies := others(); running == 0 && zombies == 1 {
			fmt.Println("1 zombie")
			wait()
		}
	}
}

// others counts the other guests that this one can see.
func others() (running, zombies int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has just ended
		}
		pid, rest, _ := strings.Cut(string(stat), " ")
		state, isGuest := strings.CutPrefix(rest, "("+filepath.Base(os.Args[0])+") ")
		switch {
		case !isGuest || pid == strconv.Itoa(os.Getpid()):
		case strings.HasPrefix(state, "Z"):
			zombies++
		default:
			running++
		}
	}
	return running, zombies
}

func printBytes(amount string) error {
	bytes, err := strconv.Atoi(amount)
	if err != nil {
		return err
	}
	const length = 1000
	line := strings.Repeat("x", length-1) + "\n"
	out := bufio.NewWriterSize(os.Stdout, 64*length)
	for written := 0; written < bytes; written += length {
		if _, err := out.WriteString(line); err != nil {
			return err
		}
	}
	if _, err := out.WriteString("the end\n"); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	wait()
	return nil
}

func fill(arguments []string) error {
	if len(arguments) != 2 {
		return errors.New("usage: fill FILE BYTES")
	}
	bytes, err := strconv.Atoi(arguments[1])
	if err != nil {
		return err
	}
	if err := os.WriteFile(arguments[0], make([]byte, bytes), 0o600); err != nil {
		return err
	}
	wait()
	return nil
}

func fillDisk(name string) error {
	file, err := os.Create(name)
	const piece = 1 << 16 // bytes
	for bytes := make([]byte, piece); err == nil; {
		_, err = file.Write(bytes)
	}
	fmt.Println(err)
	wait()
	return nil
}
