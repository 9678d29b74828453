// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package class

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkClass invites a class, invites it again, and revokes it. It reports the seconds for each step, and the
// memory of the API server in MB while all students are invited. The figures in docs/guides/instructor.md come from
// this command:
//
//	go test ./classes/class -run - -bench Class -benchtime 1x
func BenchmarkClass(b *testing.B) {
	for _, size := range []int{10, 100, 500} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			class := &Class{Config: admin(b), Out: filepath.Join(b.TempDir(), "class")}
			var names []string
			for i := range size {
				names = append(names, fmt.Sprintf("s%d", i))
			}
			timed := func(what string, do func() error) {
				b.Helper()
				started := time.Now()
				if err := do(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(time.Since(started).Seconds(), what)
			}
			roster := students(names...)
			invite := func() error { _, err := class.Invite(b.Context(), roster); return err }
			for b.Loop() {
				timed("s/invite", invite)
				timed("s/again", invite)
				b.ReportMetric(float64(memory(b, cluster.PIDs()["kube-apiserver"])), "MB")
				timed("s/revoke", func() error { _, err := class.Revoke(b.Context(), roster, false); return err })
			}
		})
	}
}

// memory returns the memory that a process uses, in MB, or 0 where the kernel does not report it.
func memory(b *testing.B, pid int) (megabytes int) {
	b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				b.Fatal(err)
			}
			return kilobytes / 1000
		}
	}
	return 0
}
