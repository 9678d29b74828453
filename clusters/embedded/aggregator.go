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

// Files of the run folder by which aggregated API servers know the API server, their front proxy. Their authority is
// not the one of the cluster's users: a user's certificate is not accepted as the front proxy's.
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

// writeFrontProxy makes the files of the front proxy, unless a folder has them from an earlier start.
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
	// The file that says that all are there comes last.
	if err := secretFiles(dir, map[string][]byte{frontProxyCert: pair.Certificate, frontProxyKey: pair.Key}); err != nil {
		return err
	}
	return secretFiles(dir, map[string][]byte{frontProxyCA: ca.PEM})
}

// aggregatorFlags let the API server come to aggregated API servers as their front proxy.
func aggregatorFlags() []string {
	return []string{
		"--requestheader-client-ca-file=" + frontProxyCA, "--requestheader-allowed-names=" + frontProxyName,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + frontProxyCert, "--proxy-client-key-file=" + frontProxyKey,
	}
}
