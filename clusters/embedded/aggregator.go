// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"lva.io/operators/clusters/certificates"
)

// The files of the run folder that identify the API server to aggregated API servers as their front proxy. The
// authority that signs them is not the one that signs the users' certificates, so that no user's certificate is
// accepted as the front proxy's.
const (
	frontProxyCA   = "front-proxy-ca.crt"
	frontProxyCert = "front-proxy-client.crt"
	frontProxyKey  = "front-proxy-client.key"
	frontProxyName = "operator-labs-proxy-client"
)

// FrontProxy names PEM files with the certificate and the key that the API server presents to aggregated API servers.
type FrontProxy struct{ Cert, Key string }

// FrontProxy returns the files of this cluster's front proxy.
func (c *Cluster) FrontProxy() FrontProxy {
	in := func(file string) string { return filepath.Join(c.Dir, file) }
	return FrontProxy{Cert: in(frontProxyCert), Key: in(frontProxyKey)}
}

// writeFrontProxy creates the files of the front proxy, unless the folder has them from an earlier start.
func writeFrontProxy(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, frontProxyCA)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ca, err := certificates.NewAuthority("operator-labs-front-proxy")
	if err != nil {
		return err
	}
	pair, err := ca.Client(frontProxyName)
	if err != nil {
		return err
	}
	// The file of the CA comes last, because it marks the set as complete.
	if err := secretFiles(dir, map[string][]byte{frontProxyCert: pair.Certificate, frontProxyKey: pair.Key}); err != nil {
		return err
	}
	return secretFiles(dir, map[string][]byte{frontProxyCA: ca.PEM})
}

// aggregatorFlags returns the flags with which the API server connects to aggregated API servers as their front proxy.
func aggregatorFlags() []string {
	return []string{
		"--requestheader-client-ca-file=" + frontProxyCA, "--requestheader-allowed-names=" + frontProxyName,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + frontProxyCert, "--proxy-client-key-file=" + frontProxyKey,
	}
}
