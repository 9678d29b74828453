// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestMeterReportsProgressPeriodically(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var messages []string
		m := meter{report: func(message string) { messages = append(messages, message) }}
		m.note("Debian packages for e2e", 7, 0)
		for done := range int64(200) {
			m.note("program coredns", done, 400)
			<-time.After(100 * time.Millisecond)
		}
		want := []string{
			"Debian packages for e2e",
			"program coredns, 30 of 400 packages compiled",
			"program coredns, 60 of 400 packages compiled, about 35 s left",
			"program coredns, 90 of 400 packages compiled, about 30 s left",
			"program coredns, 120 of 400 packages compiled, about 30 s left",
			"program coredns, 150 of 400 packages compiled, about 25 s left",
			"program coredns, 180 of 400 packages compiled, about 20 s left",
		}
		if !slices.Equal(messages, want) {
			t.Errorf("got messages %q, want %q", messages, want)
		}
	})
}
