// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package filewatch

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// watchingWithout makes the test binary watch a folder in a process with the given inotify limit set to 0.
const watchingWithout = "LAB_TEST_WATCHING_WITHOUT"

// A user namespace has its own limits, which its root user may lower.
func TestInotifyLimitIsExplained(t *testing.T) {
	t.Parallel()
	if os.Getenv(watchingWithout) != "" {
		if _, err := Watch(t.Context(), t.TempDir(), BuildWindow); err != nil {
			t.Fatal(err)
		}
		return
	}
	if os.Getenv("OPERATOR_LABS_NAMESPACES") != "required" {
		if err := exec.Command("unshare", "--user", "--map-root-user", "true").Run(); err != nil {
			t.Skipf("unshare makes no user namespace here: %v", err)
		}
	}
	for limit, want := range map[string]string{
		"max_inotify_instances": "this user has reached the limit of inotify instances",
		"max_inotify_watches":   "this user has reached the limit of inotify watches",
	} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			c := exec.Command("unshare", "--user", "--map-root-user", "sh", "-c",
				`echo 0 >"/proc/sys/user/$1" && exec "$0" -test.run='^TestInotifyLimitIsExplained$'`, os.Args[0], limit)
			c.Env = append(os.Environ(), watchingWithout+"="+limit)
			output, err := c.CombinedOutput()
			if err == nil || !strings.Contains(string(output), want) ||
				!strings.Contains(string(output), "sysctl -w fs.inotify.") {
				t.Errorf("error = %v, output:\n%s", err, output)
			}
		})
	}
}
