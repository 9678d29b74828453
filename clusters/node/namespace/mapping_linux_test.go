// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package namespace

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

func TestSubordinateIDsByNameOrNumber(t *testing.T) {
	t.Parallel()
	const file = "# comment\nother:1:2\nanna:100000:65536\n1001:300000:1000\nbroken:x:y\n:5:6\nanna:1:1\n"
	for name, test := range map[string]struct {
		names       []string
		first, size int
	}{
		"by name":          {[]string{"anna", "1000"}, 100000, 65535},
		"by number":        {[]string{"bert", "1001"}, 300000, 1000},
		"no entry":         {[]string{"carl", "1002"}, 0, 0},
		"without a name":   {[]string{"", "1002"}, 0, 0},
		"an invalid range": {[]string{"broken"}, 0, 0},
	} {
		got, found := rangeOf(strings.NewReader(file), test.names...)
		if found != (test.size > 0) || found && (got.HostID != test.first || got.Size != test.size || got.ContainerID != 1) {
			t.Errorf("%s: got %+v, %t; want %d IDs from %d", name, got, found, test.size, test.first)
		}
	}
}

// The error gives the reason why there are no namespaces, derived from the kernel's error and its settings.
func TestExplain(t *testing.T) {
	for name, test := range map[string]struct {
		err            error
		settings       map[string]string
		reason, remedy string
	}{
		"turned off": {
			syscall.ENOSPC,
			map[string]string{"sys/user/max_user_namespaces": "0\n"},
			"kind user", "sysctl user.max_user_namespaces=15000",
		},
		"no networks": {
			syscall.ENOSPC,
			map[string]string{"sys/user/max_net_namespaces": "0\n"},
			"kind net", "sysctl user.max_net_namespaces=15000",
		},
		"all in use": {
			syscall.ENOSPC,
			map[string]string{"sys/user/max_user_namespaces": "10\n"},
			"limit of namespaces", "lsns",
		},
		"Debian's setting": {
			syscall.EPERM,
			map[string]string{"sys/kernel/unprivileged_userns_clone": "0\n"},
			"only root", "unprivileged_userns_clone=1",
		},
		"Ubuntu's AppArmor": {
			syscall.EACCES,
			map[string]string{
				"sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
				"sys/kernel/unprivileged_userns_clone":             "1\n",
			},
			"AppArmor", "apparmor_restrict_unprivileged_userns=0",
		},
		"Ubuntu's AppArmor, reported by the kernel": {
			syscall.EACCES,
			map[string]string{
				"sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
				"self/attr/current": "unconfined\n", "self/status": "Name:\tlab\nSeccomp:\t0\n",
			},
			"AppArmor", "docs/reference/machines.md",
		},
		"a container on Ubuntu": {
			syscall.EPERM,
			map[string]string{
				"sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
				"self/status": "Name:\tlab\nSeccomp:\t2\nSeccomp_filters:\t1\n",
			},
			"container without privileges", "--privileged",
		},
		"a container with a profile": {
			syscall.EPERM,
			map[string]string{
				"sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
				"self/attr/current": "docker-default (enforce)\n",
			},
			"container without privileges", "--privileged",
		},
		"a container":   {syscall.EPERM, nil, "container without privileges", "--privileged"},
		"an old kernel": {syscall.EINVAL, nil, "too old", "Linux 5.12"},
	} {
		files := fstest.MapFS{}
		for file, content := range test.settings {
			files[file] = &fstest.MapFile{Data: []byte(content)}
		}
		system = files
		var got *Unavailable
		err := Explain(errors.Join(errors.New("fork"), test.err))
		if !errors.As(err, &got) || !strings.Contains(got.Reason, test.reason) || !strings.Contains(got.Remedy, test.remedy) {
			t.Errorf("%s: Explain() = %v, want an *Unavailable with the reason and the remedy", name, err)
		}
		if !errors.Is(err, test.err) {
			t.Errorf("%s: the kernel's error is not wrapped: %v", name, err)
		}
	}
	if other := errors.New("no such program"); !errors.Is(Explain(other), other) ||
		errors.As(Explain(other), new(*Unavailable)) {
		t.Error("Explain() turned an unrelated error into an *Unavailable")
	}
	if Explain(nil) != nil {
		t.Error("Explain(nil) returned an error")
	}
}
