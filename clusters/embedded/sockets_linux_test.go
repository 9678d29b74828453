// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// listening returns the TCP addresses that a process listens on, as the kernel writes them.
func listening(t *testing.T, pid int) (addresses []string) {
	t.Helper()
	sockets := map[string]bool{}
	descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(descriptors) == 0 {
		t.Fatalf("process %d has no open files (%v)", pid, err)
	}
	for _, descriptor := range descriptors {
		if target, err := os.Readlink(descriptor); err == nil {
			if number, ok := strings.CutPrefix(target, "socket:["); ok {
				sockets[strings.TrimSuffix(number, "]")] = true
			}
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		file, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			const listen = "0A"
			if len(fields) > 9 && fields[3] == listen && sockets[fields[9]] {
				addresses = append(addresses, fields[1])
			}
		}
	}
	return addresses
}

func TestOnlyTheAPIServerListensAndOnlyOnLoopback(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	want := map[string][]string{
		"kube-apiserver": {fmt.Sprintf("0100007F:%04X", cluster.port.Port)}, // 127.0.0.1
		"etcd":           nil, "kube-controller-manager": nil, "kube-scheduler": nil,
	}
	if len(cluster.PIDs()) != len(want) {
		t.Fatalf("processes = %v, want the four programs of the control plane", cluster.PIDs())
	}
	for name, pid := range cluster.PIDs() {
		if got := listening(t, pid); !slices.Equal(got, want[name]) {
			t.Errorf("%s listens on %v, want %v", name, got, want[name])
		}
	}
	for _, socket := range []string{"etcd-client:0", "etcd-peer:0"} {
		info, err := os.Lstat(filepath.Join(cluster.Dir, socket))
		if err != nil || info.Mode().Type() != fs.ModeSocket {
			t.Errorf("%s is not a Unix socket (%v)", socket, err)
		}
	}
}
