// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package engine

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// rulesWithDocker is the output of iptables-save on a machine on which Docker's engine was started, and kind had a
// network.
const rulesWithDocker = `*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:DOCKER - [0:0]
:DOCKER-USER - [0:0]
:OWN - [0:0]
-A INPUT -p tcp --dport 22 -j ACCEPT
-A FORWARD -j DOCKER-USER
-A FORWARD -o docker0 -j DOCKER
-A FORWARD -i br-0123456789ab ! -o br-0123456789ab -j ACCEPT
-A FORWARD -i br-lan -j OWN
-A DOCKER-USER -j RETURN
COMMIT
*nat
:POSTROUTING ACCEPT [0:0]
:DOCKER - [0:0]
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
-A POSTROUTING -s 172.18.0.0/16 ! -o br-0123456789ab -j MASQUERADE
COMMIT
`

func TestOnlyDockerRulesAreRemoved(t *testing.T) {
	const want = `*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OWN - [0:0]
-A INPUT -p tcp --dport 22 -j ACCEPT
-A FORWARD -i br-lan -j OWN
COMMIT
*nat
:POSTROUTING ACCEPT [0:0]
COMMIT
`
	if got := withoutDocker(rulesWithDocker, "ACCEPT"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRootWithoutCapability(t *testing.T) {
	if mayRaiseLimits("CapBnd:\t000001fffeffffff\n") {
		t.Error("without bit 24 it may raise limits")
	}
	if !mayRaiseLimits("CapBnd:\t000001ffffffffff\n") {
		t.Error("with all bits it may not raise limits")
	}
}

func TestForeignEngineIsNotOurs(t *testing.T) {
	root := t.TempDir()
	if engine := ours(root); engine != nil {
		t.Errorf("ours() without a file = %v", engine)
	}
	if err := os.MkdirAll(folder(root), 0o755); err != nil {
		t.Fatal(err)
	}
	// The file has the number of a process that exists, but is no engine of this checkout: the test itself.
	if err := os.WriteFile(filepath.Join(folder(root), "dockerd.pid"),
		[]byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		t.Fatal(err)
	}
	if engine := ours(root); engine != nil {
		t.Errorf("ours() = %v for a process that is no engine", engine)
	}
	if stopped, err := StopIfOurs(t.Context(), root); stopped || err != nil {
		t.Errorf("StopIfOurs() = %v, %v, want false", stopped, err)
	}
}
