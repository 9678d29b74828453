// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"lva.io/operators/clusters/config"
)

// The Service network is kubeadm's. Its first address is that of the Service kubernetes.
const serviceNetwork = "10.96.0.0/16"

var kubernetesServiceIP = net.IPv4(10, 96, 0, 1)

// component is one program of the control plane and how it is started. All file names are relative to the run folder.
type component struct {
	name  string
	flags []string
	env   []string // besides environment()
}

// environment is that of the programs. It has nothing of what a person may have set for a cluster of theirs: each flag
// of etcd is also a variable (ETCD_NAME), and etcd refuses to start when both are there.
func environment() []string {
	var kept []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			kept = append(kept, name+"="+value)
		}
	}
	return kept
}

// etcd listens on Unix sockets in the run folder: no port to collide, and no other user can connect. Its URLs must have
// the form host:port, which for a Unix socket is just a file name.
func etcd(durable bool) component {
	const client, peer = "unix://etcd-client:0", "unix://etcd-peer:0"
	flags := []string{
		"--name=default", "--data-dir=" + dataDir,
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		"--log-level=warn",
		// The only member elects itself when it has heard of no other member for a while, by default for up to a second.
		// Until then the API server can't begin.
		"--heartbeat-interval=20", "--election-timeout=100",
	}
	if !durable {
		// A cluster that lives for seconds need not survive a power failure, and disks are slow.
		flags = append(flags, "--unsafe-no-fsync")
	}
	return component{name: "etcd", flags: flags}
}

func apiServer(port int, durable bool) component {
	flags := []string{
		"--etcd-servers=unix://etcd-client:0",
		// Where it listens is what it says of itself, too. By default it asks the default route for an address, and ends on a
		// machine that has none. No client uses it: no endpoints are made (see below), and kubeconfigs name an address.
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--permit-port-sharing",
		"--tls-cert-file=apiserver.crt", "--tls-private-key-file=apiserver.key", "--client-ca-file=ca.crt",
		"--anonymous-auth=false", "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=service-account.pub", "--service-account-signing-key-file=service-account.key",
		"--service-cluster-ip-range=" + serviceNetwork, "--endpoint-reconciler-type=none",
		"--egress-selector-config-file=egress.yaml",
		"--allow-privileged", noStreamingLists("WatchList=false"),
		// Blocking: an answered request is in the log.
		"--audit-policy-file=audit-policy.yaml", "--audit-log-path=audit.log", "--audit-log-mode=blocking",
	}
	if durable {
		// A playground may run for weeks.
		flags = append(flags, "--audit-log-maxsize=20", "--audit-log-maxbackup=1") // MB, files
	} else {
		// A grading run reads the log as it grows, so that one must not be cut. By default it is, at 100 MB, to which
		// hundreds of stories come.
		flags = append(flags, "--audit-log-maxsize=1000000") // MB: never
	}
	// A slot of a grade must fit into an old laptop: garbage is collected when the heap has grown by half, not when it has
	// doubled.
	return component{name: "kube-apiserver", flags: flags, env: []string{"GOGC=50"}}
}

// flagsDigest stands for what a playground's programs are started with: one that an older version of this repository
// has started is started again.
func flagsDigest() string {
	digest := sha256.New()
	for _, component := range []component{etcd(true), apiServer(0, true), controllerManager(), scheduler("")} {
		fmt.Fprintln(digest, component.name, component.flags, component.env)
	}
	fmt.Fprint(digest, nodeFlags(), aggregatorFlags(), egressSelection(""), string(config.AuditPolicy))
	return hex.EncodeToString(digest.Sum(nil))
}

func controllerManager() component {
	return component{name: "kube-controller-manager", flags: append(controllerFlags("controller-manager.kubeconfig"),
		"--root-ca-file=ca.crt", "--service-account-private-key-file=service-account.key",
	)}
}

// scheduler is the scheduler of a cluster that has no node for a reason, or has one: then the reason is empty.
func scheduler(noNode string) component {
	flags := controllerFlags("scheduler.kubeconfig")
	if noNode != "" {
		flags = append(flags, "--no-node="+noNode)
	}
	return component{name: "kube-scheduler", flags: flags}
}

// controllerFlags are those of all clients of the API server. Each is alone, so it elects no leader; it has no clients;
// and it need not spare the server: at the default of 20 requests a second the controllers begin a second later.
func controllerFlags(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=500", "--kube-api-burst=1000", noStreamingLists(),
	}
}

// noStreamingLists makes lists be lists. As a stream (WatchList), a list ends with a bookmark, for which a quiet API
// server takes a second: each informer of each operator would begin a second later.
func noStreamingLists(others ...string) string {
	return "--feature-gates=" + strings.Join(append(others, "WatchListClient=false"), ",")
}
