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

// serviceNetwork is kubeadm's. Its first address is that of the Service kubernetes.
const serviceNetwork = "10.96.0.0/16"

var kubernetesServiceIP = net.IPv4(10, 96, 0, 1)

// component describes one program of the control plane and how it is started. All file names are relative to the run
// folder.
type component struct {
	name  string
	flags []string
	env   []string // in addition to environment()
}

// environment returns the environment of the programs. It leaves out variables that a user may have set for another
// cluster. For example, each flag of etcd is also a variable (ETCD_NAME), and etcd refuses to start when both are set.
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
		// The only member elects itself after it has heard from no other member for a while, by default up to a second. Until
		// then, the API server can't start.
		"--heartbeat-interval=20", "--election-timeout=100",
	}
	if !durable {
		// A cluster that lives for seconds need not survive a power failure, and syncing to disk is slow.
		flags = append(flags, "--unsafe-no-fsync")
	}
	return component{name: "etcd", flags: flags}
}

func apiServer(port int, durable bool) component {
	flags := []string{
		"--etcd-servers=unix://etcd-client:0",
		// The server also advertises the address that it listens on. By default it uses the address of the default route, and
		// exits on a machine that has none. No client uses the advertised address: no endpoints are created (see below), and
		// kubeconfigs contain an address.
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port), "--permit-port-sharing",
		"--tls-cert-file=apiserver.crt", "--tls-private-key-file=apiserver.key", "--client-ca-file=ca.crt",
		"--anonymous-auth=false", "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=service-account.pub", "--service-account-signing-key-file=service-account.key",
		"--service-cluster-ip-range=" + serviceNetwork, "--endpoint-reconciler-type=none",
		"--egress-selector-config-file=egress.yaml",
		"--allow-privileged", noStreamingLists("WatchList=false"),
		// In blocking mode, a request is in the log before it is answered.
		"--audit-policy-file=audit-policy.yaml", "--audit-log-path=audit.log", "--audit-log-mode=blocking",
	}
	if durable {
		// A playground may run for weeks.
		flags = append(flags, "--audit-log-maxsize=20", "--audit-log-maxbackup=1") // MB, files
	} else {
		// A grading run reads the log as it grows, so the log must not be rotated. By default the server rotates it at 100
		// MB, a size that hundreds of stories reach.
		flags = append(flags, "--audit-log-maxsize=1000000") // MB: never
	}
	// A slot of a grade must fit into an old laptop. So the garbage collector runs when the heap has grown by half, and
	// not only when it has doubled.
	return component{name: "kube-apiserver", flags: flags, env: []string{"GOGC=50"}}
}

// flagsDigest returns a digest of how a playground's programs are started. A playground that an older version of this
// repository has started is restarted.
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

// scheduler returns the scheduler of a cluster. noNode is the reason why the cluster has no node, or empty if it has
// one.
func scheduler(noNode string) component {
	flags := controllerFlags("scheduler.kubeconfig")
	if noNode != "" {
		flags = append(flags, "--no-node="+noNode)
	}
	return component{name: "kube-scheduler", flags: flags}
}

// controllerFlags returns the flags of all clients of the API server. Each is the only replica, so it needs no leader
// election, and it serves no clients. It need not spare the server: at the default of 20 requests a second, the
// controllers would be ready a second later.
func controllerFlags(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=500", "--kube-api-burst=1000", noStreamingLists(),
	}
}

// noStreamingLists turns off streaming lists (WatchList). A list that is a stream ends with a bookmark, for which a
// quiet API server takes a second. Each informer of each operator would start a second later.
func noStreamingLists(others ...string) string {
	return "--feature-gates=" + strings.Join(append(others, "WatchListClient=false"), ",")
}
