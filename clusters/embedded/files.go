// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"lva.io/operators/clusters/config"
)

const (
	adminKubeconfig = "admin.kubeconfig"
	egressSocket    = "egress.sock"
)

// clients are the users for whom a cluster has a kubeconfig: file name, user, groups.
var clients = []struct{ file, user, group string }{
	{adminKubeconfig, "operator-labs-admin", "system:masters"},
	// The controllers could each have an account of their own (--use-service-account-credentials), as kubeadm does;
	// it costs a second at the start and nobody here attacks them.
	{"controller-manager.kubeconfig", "system:kube-controller-manager", "system:masters"},
	{"scheduler.kubeconfig", "system:kube-scheduler", ""},
}

// writeFiles makes all that the programs read: keys, certificates, kubeconfigs, the audit policy. A folder that has them
// from an earlier start keeps them, so that kubeconfigs and tokens that were handed out go on working.
func writeFiles(dir string, port int) error {
	if _, err := os.Stat(filepath.Join(dir, adminKubeconfig)); err == nil {
		return nil
	}
	ca, err := newAuthority()
	if err != nil {
		return fmt.Errorf("making the cluster's certificate authority: %w", err)
	}
	server, err := ca.server(kubernetesServiceIP)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"ca.crt": ca.PEM, "apiserver.crt": server.certificate, "apiserver.key": server.key, "audit-policy.yaml": config.AuditPolicy,
	}
	if err := serviceAccountKey(files); err != nil {
		return err
	}
	host := fmt.Sprintf("https://127.0.0.1:%d", port)
	for _, client := range clients {
		pair, err := ca.client(client.user, client.group)
		if err != nil {
			return err
		}
		if files[client.file], err = Kubeconfig(host, ca.PEM, clientcmdapi.AuthInfo{
			ClientCertificateData: pair.certificate, ClientKeyData: pair.key,
		}); err != nil {
			return err
		}
	}
	// The file that says that all are there comes last.
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

// portOf is the API server's port in a kubeconfig of an earlier start, or 0 if there is none: one that was handed out
// must go on working.
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

// serviceAccountKey makes the key with which the API server signs the tokens of ServiceAccounts.
func serviceAccountKey(files map[string][]byte) error {
	key, keyPEM, err := newKey()
	if err != nil {
		return fmt.Errorf("making the key of the ServiceAccounts: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("making the key of the ServiceAccounts: %w", err)
	}
	files["service-account.key"], files["service-account.pub"] = keyPEM, pemBlock("PUBLIC KEY", public)
	return nil
}

// Kubeconfig writes a kubeconfig with one context for one user of the cluster at host, a URL.
func Kubeconfig(host string, ca []byte, user clientcmdapi.AuthInfo) ([]byte, error) {
	const name = "operator-labs"
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

// loadConfig reads a kubeconfig for our own clients, which must not be slowed down by client-side limits.
func loadConfig(file string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	config.QPS, config.Burst = -1, -1
	return config, nil
}
