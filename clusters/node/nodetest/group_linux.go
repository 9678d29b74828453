// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package nodetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/node/cgroup"
	"lva.io/operators/clusters/node/namespace"
)

const (
	// groupsVariable is "required" in CI. Root's tests that can't create control groups fail there, and are skipped
	// elsewhere. The variable does not affect ordinary users, who get no groups without systemd.
	groupsVariable = "OPERATOR_LABS_CGROUPS"
	// groupVariable names the folder of the group in which the tests run.
	groupVariable = "OPERATOR_LABS_NODETEST_GROUP"
)

// Group creates a control group of version 2 for the test. It has no limits, because the machine's controllers may be
// used elsewhere. The tests must have been started by InsideGroup.
func Group(t *testing.T) (dir string) {
	t.Helper()
	tests := os.Getenv(groupVariable)
	if tests == "" {
		t.Skipf("there are no control groups for this user here: see CI, which sets %s=required", groupsVariable)
	}
	dir = filepath.Join(tests, t.Name())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := (&cgroup.Group{Dir: dir}).Remove(); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// createGroup creates the group in which root's tests run. It returns nil if there can be none, unless groups are
// required.
func createGroup(mapping namespace.Mapping) (*cgroup.Group, error) {
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var system unix.Statfs_t
		if unix.Statfs(dir, &system) == nil && system.Type == unix.CGROUP2_SUPER_MAGIC && unix.Access(dir, unix.W_OK) == nil {
			user, group := mapping.Owner()
			return cgroup.Create(dir, fmt.Sprint("nodetest-", os.Getpid()), nil, user, group)
		}
	}
	if os.Getenv(groupsVariable) == "required" {
		return nil, fmt.Errorf("%s=required, but there are no cgroups v2 that root can change", groupsVariable)
	}
	return nil, nil
}
