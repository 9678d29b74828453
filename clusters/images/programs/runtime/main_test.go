// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"reflect"
	"slices"
	"testing"
)

func TestParseRuncArguments(t *testing.T) {
	for _, c := range []struct {
		args []string
		want call
	}{
		{
			[]string{"--root", "/run/x", "--log", "/l.json", "create", "--bundle", "/b", "--pid-file", "/b/pid", "abc"},
			call{"create", "/b", ""},
		},
		{[]string{"run", "-b=/b", "abc"}, call{"run", "/b", ""}},
		{[]string{"exec", "--process", "/p.json", "--detach", "abc"}, call{"exec", "", "/p.json"}},
		{[]string{"--systemd-cgroup", "delete", "--force", "abc"}, call{"delete", "", ""}},
		{[]string{"state", "abc"}, call{"state", "", ""}},
		{nil, call{}},
	} {
		if got := parse(c.args); got != c.want {
			t.Errorf("parse(%q) = %+v, want %+v", c.args, got, c.want)
		}
	}
}

func TestMissingHostCapabilitiesAreNamed(t *testing.T) {
	missing, err := lacking("Name:\tx\nCapBnd:\t000001fffeffffff\n")
	if err != nil || !slices.Equal(missing, []string{"CAP_SYS_RESOURCE"}) {
		t.Errorf("lacking = %q, %v", missing, err)
	}
	if missing, err := lacking("CapBnd:\t000001ffffffffff\n"); err != nil || missing != nil {
		t.Errorf("with all capabilities, lacking = %q, %v", missing, err)
	}
}

func TestProcessGetsOnlyGrantedCapabilities(t *testing.T) {
	process := map[string]any{
		"capabilities": map[string]any{
			"bounding":  []any{"CAP_KILL", "CAP_SYS_RESOURCE"},
			"effective": []any{"CAP_SYS_RESOURCE"},
		},
		"oomScoreAdj": float64(-998), "rlimits": []any{map[string]any{"type": "RLIMIT_NOFILE"}}, "cwd": "/",
	}
	limit(process, []string{"CAP_SYS_RESOURCE"}, -5)
	want := map[string]any{
		"capabilities": map[string]any{"bounding": []any{"CAP_KILL"}, "effective": []any{}}, "oomScoreAdj": -5, "cwd": "/",
	}
	if !reflect.DeepEqual(process, want) {
		t.Errorf("limited to %v, want %v", process, want)
	}
}
