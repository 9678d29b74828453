// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package stopwatch measures the resources that a piece of work used: time by the clock, CPU time of the whole machine,
// and the share of that time in which the processors were idle. Other running programs count as well, so the figures
// are only useful on a quiet machine.
package stopwatch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Watch is a running stopwatch.
type Watch struct {
	began time.Time
	then  processors
}

// Start starts a stopwatch.
func Start() Watch { return Watch{began: time.Now(), then: measure()} }

// Elapsed returns the measurements since the start.
func (w Watch) Elapsed() Elapsed {
	now := measure()
	elapsed := Elapsed{Wall: time.Since(w.began), CPU: now.busy - w.then.busy}
	if all := elapsed.CPU + now.idle - w.then.idle; w.then.known && now.known && all > 0 {
		elapsed.Known, elapsed.Idle = true, float64(now.idle-w.then.idle)/float64(all)
	}
	return elapsed
}

// Elapsed is the time that some work took. CPU is the time for which all processors of the machine together worked.
// Idle is the share of their time, from 0 to 1, in which they did not. Both are known on Linux only.
type Elapsed struct {
	Wall, CPU time.Duration
	Idle      float64
	Known     bool
}

func (e Elapsed) String() string {
	if !e.Known {
		return fmt.Sprintf("%.1f s", e.Wall.Seconds())
	}
	return fmt.Sprintf("%.1f s, %.1f s of processors, %.0f %% idle", e.Wall.Seconds(), e.CPU.Seconds(), 100*e.Idle)
}

// processors is the time of all processors since the machine was started.
type processors struct {
	busy, idle time.Duration
	known      bool
}

func measure() processors {
	file, err := os.Open("/proc/stat")
	if err != nil {
		return processors{}
	}
	defer file.Close()
	return parse(file)
}

// tick is the unit of /proc/stat: USER_HZ is 100 on all architectures that Go supports.
const tick = time.Second / 100

// parse reads the first line of /proc/stat (proc_stat(5)): user, nice, system, idle, iowait, irq, softirq, steal.
// Waiting for a disk counts as idle. Time that a hypervisor took away counts as neither.
func parse(stat io.Reader) (p processors) {
	line, _ := bufio.NewReader(stat).ReadString('\n')
	var user, nice, system, idle, wait, irq, soft int64
	n, _ := fmt.Fscan(strings.NewReader(strings.TrimPrefix(line, "cpu ")),
		&user, &nice, &system, &idle, &wait, &irq, &soft)
	if n < 7 {
		return processors{}
	}
	return processors{
		busy: time.Duration(user+nice+system+irq+soft) * tick, idle: time.Duration(idle+wait) * tick, known: true,
	}
}
