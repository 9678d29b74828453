// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"lva.io/operators/clusters/certificates"
	"lva.io/operators/clusters/config"
)

const (
	adminKubeconfig = "admin.kubeconfig"
	egressSocket    = "egress.sock"
)

// egressSelection returns the configuration with which the API server connects to Services: it requests each connection
// at a socket in the run folder, which is also its working folder. The name is relative, because the name of a socket
// can have only about a hundred bytes.
func egressSelection(socket string) string {
	return `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: ` + socket + "\n"
}

// hosts are the host names in the API server's certificate.
var hosts = []string{
	"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
}

// client is a user with a kubeconfig.
type client struct{ file, user, group string }

// kubeconfig returns the user's kubeconfig for the API server at host.
func (c client) kubeconfig(ca *certificates.Authority, host string) ([]byte, error) {
	pair, err := ca.Client(c.user, groupsOf(c.group)...)
	if err != nil {
		return nil, err
	}
	return Kubeconfig(host, ca.PEM, clientcmdapi.AuthInfo{
		ClientCertificateData: pair.Certificate,
		ClientKeyData:         pair.Key,
	})
}

// clients are the users who have a kubeconfig: file name, user, group.
var clients = []client{
	{adminKubeconfig, "operator-labs-admin", "system:masters"},
	// The controllers could each have an account of their own (--use-service-account-credentials), as with kubeadm. That
	// costs a second at the start, and there are no attackers here.
	{"controller-manager.kubeconfig", "system:kube-controller-manager", "system:masters"},
	{"scheduler.kubeconfig", "system:kube-scheduler", ""},
}

// writeFiles writes all files that the programs read: keys, certificates, kubeconfigs, settings. A folder that has keys
// from an earlier start keeps them, so that existing kubeconfigs and tokens continue to work.
func writeFiles(dir string, port int, options startOptions) error {
	socket := egressSocket
	if options.node != nil {
		socket = nodeEgress
	}
	if err := secretFiles(dir, map[string][]byte{
		"audit-policy.yaml": config.AuditPolicy, "egress.yaml": []byte(egressSelection(socket)),
	}); err != nil {
		return err
	}
	if err := writeFrontProxy(dir); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, adminKubeconfig)); err == nil {
		return nil
	}
	ca, err := certificates.NewAuthority("operator-labs")
	if err != nil {
		return err
	}
	server, err := ca.Server("kube-apiserver", hosts, net.IPv4(127, 0, 0, 1), kubernetesServiceIP, nodeIP)
	if err != nil {
		return err
	}
	files := map[string][]byte{"ca.crt": ca.PEM, "apiserver.crt": server.Certificate, "apiserver.key": server.Key}
	// The API server signs the tokens of ServiceAccounts with this key.
	if files["service-account.key"], files["service-account.pub"], err = certificates.NewKey(); err != nil {
		return err
	}
	host := fmt.Sprintf("https://127.0.0.1:%d", port)
	for _, client := range clients {
		if files[client.file], err = client.kubeconfig(ca, host); err != nil {
			return err
		}
	}
	ofNode, err := nodeFiles(ca, host)
	if err != nil {
		return err
	}
	maps.Copy(files, ofNode)
	// The administrator's kubeconfig comes last, because it marks the set as complete.
	admin := files[adminKubeconfig]
	delete(files, adminKubeconfig)
	if err := secretFiles(dir, files); err != nil {
		return err
	}
	const unfinished = adminKubeconfig + ".new"
	if err := secretFiles(dir, map[string][]byte{unfinished: admin}); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, unfinished), filepath.Join(dir, adminKubeconfig))
}

// secretFiles writes files that only their owner can read.
func secretFiles(dir string, files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("writing the cluster's files: %w", err)
		}
	}
	return nil
}

// portOf returns the API server's port in a kubeconfig of an earlier start, or 0 if there is none. A kubeconfig that
// was handed out must continue to work.
func portOf(kubeconfig string) (int, error) {
	if _, err := os.Stat(kubeconfig); errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	config, err := loadConfig(kubeconfig)
	if err != nil {
		return 0, err
	}
	host, err := url.Parse(config.Host)
	if err != nil {
		return 0, fmt.Errorf("reading the API server's URL in %s: %w", kubeconfig, err)
	}
	port, err := strconv.Atoi(host.Port())
	if err != nil {
		return 0, fmt.Errorf("reading the API server's port in %s: %w", kubeconfig, err)
	}
	return port, nil
}

// Context is the name of the context in an embedded cluster's kubeconfigs.
const Context = "operator-labs"

// Kubeconfig returns a kubeconfig with one context for one user of the cluster at host, a URL.
func Kubeconfig(host string, ca []byte, user clientcmdapi.AuthInfo) ([]byte, error) {
	const name = Context
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{Server: host, CertificateAuthorityData: ca}
	kubeconfig.AuthInfos[name] = &user
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	content, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return content, nil
}

// loadConfig reads a kubeconfig for our own clients, without client-side rate limits.
func loadConfig(file string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	config.QPS, config.Burst = -1, -1
	return config, nil
}
