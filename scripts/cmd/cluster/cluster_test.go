// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"strings"
	"testing"

	"lva.io/operators/scripts/checkout/cli/clitest"
)

func TestUnpinnedVersionIsReported(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ version, pinned, want string }{
		{"v1.20.2", "1.20.2", ""},
		{"", "1.20.2", ""},
		{"1.19.0", "1.20.2", " (pinned: 1.20.2)"},
	} {
		if got := differs(test.version, test.pinned); got != test.want {
			t.Errorf("differs(%s, %s) = %q, want %q", test.version, test.pinned, got, test.want)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	clitest.CheckUsageErrors(t, root)
}

func TestArgumentErrors(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"create --air-gap --images registry":    "cannot be combined",
		"create --images none":                  "choose one of auto, registry, air-gap",
		"create --profile nope":                 "there is no profile \"nope\"",
		"create --context x --recreate":         "cannot be combined",
		"create --name UPPER":                   "can't be a cluster's name",
		"create --step-time 0s":                 "must be positive",
		"create --addons vault":                 "there is no add-on \"vault\"",
		"uninstall":                             "name what to remove: cert-manager, ingress, pebble",
		"uninstall vault":                       "there is no add-on \"vault\"",
		"uninstall pebble --name a --context b": "--name and --context exclude each other: leave one of them out",
		"create more":                           "`cluster create` takes no arguments: leave out more",
		"status --name a --context b":           "--name and --context exclude each other: leave one of them out",
		"invite --days many students.txt": "invalid value \"many\" for --days: it must be a whole number; " +
			"`cluster invite --help` lists the flags",
		"e2e --within soon":           "invalid value \"soon\" for --within: it must be a duration such as 90s or 1h30m",
		"export-logs":                 "name the folder",
		"images nope":                 "the catalogue has no set \"nope\"",
		"load nope:1":                 "has no image nope:1",
		"bundle save":                 "name the bundle's file",
		"bundle load /does/not/exist": "no such file",
		"invite":                      "name the roster",
		"test --context x":            "needs --image",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			command := root()
			command.SetArgs(strings.Fields(line))
			if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want %q", err, want)
			}
		})
	}
}
