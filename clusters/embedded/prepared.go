// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"lva.io/operators/clusters/await"
	"lva.io/operators/clusters/filelock"
	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/process"
)

// A prepared store is the data of an etcd after an API server has started for the first time: the namespaces, the
// bootstrap roles, the priority classes, the flow schemas. Two start-up hooks of an API server wait a second before
// they check whether their objects exist (k8s.io/kubernetes/pkg/registry/{rbac,scheduling}/rest). A cluster that begins
// with a copy of the store has these objects, and does not wait for the hooks, which have nothing to do.
//
// The store holds no secrets, and no data of a certificate authority, because its API server had none. It is created
// once for each program, and is stored beside it.

// preparedHooks are the start-up hooks that a cluster with a prepared store does not wait for.
var preparedHooks = []string{
	"poststarthook/rbac/bootstrap-roles",
	"poststarthook/scheduling/bootstrap-system-priority-classes",
}

// dataDir is etcd's folder in the run folder. preparedPrefix is the prefix of the names of the prepared stores, which
// are beside the program.
const (
	dataDir        = "data"
	preparedPrefix = "prepared-"
)

// preparation must be incremented when prepare changes what it writes to the store, so that older stores are no longer
// used.
const preparation = 2

// etcdGrace is how long etcd may take to write its data to disk when it is asked to end. It takes milliseconds.
const etcdGrace = 10 * time.Second

// preparedStore returns the folder of the program's prepared store, which it creates if there is none. It returns an
// empty string if the folder is read-only. Clusters then start without a prepared store.
func preparedStore(ctx context.Context, program *multicall.Program) (dir string, err error) {
	file, err := os.Stat(program.Path)
	if err != nil {
		return "", nil // the start returns this error
	}
	digest := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %s %d",
		program.Version, file.Size(), file.ModTime().UnixNano(), flagsDigest(), preparation))
	beside := filepath.Dir(program.Path)
	dir = filepath.Join(beside, preparedPrefix+hex.EncodeToString(digest[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	unlock, err := filelock.Wait(ctx, filepath.Join(beside, preparedPrefix+"stores.lock"))
	if err != nil {
		return "", ignoreUnwritable(err)
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil // another process was faster
	}
	if err := removeStores(beside); err != nil {
		return "", ignoreUnwritable(err)
	}
	unfinished := dir + ".new"
	if err := prepare(ctx, program, unfinished); err != nil {
		return "", ignoreUnwritable(err)
	}
	if err := os.Rename(unfinished, dir); err != nil {
		return "", ignoreUnwritable(err)
	}
	return dir, nil
}

// removeStores removes the outdated stores in a folder, and what interrupted processes have left there. Before it
// removes a store, it renames it, so that no other process takes the rest for a complete store.
func removeStores(dir string) error {
	outdated, err := filepath.Glob(filepath.Join(dir, preparedPrefix+"[0-9a-f]*")) // with .new and .removed
	if err != nil {
		return err
	}
	for _, old := range outdated {
		if filepath.Ext(old) == "" {
			removed := old + ".removed"
			// An interrupted process may have left a folder of this name.
			if err := errors.Join(os.RemoveAll(removed), os.Rename(old, removed)); err != nil {
				return err
			}
			old = removed
		}
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	return nil
}

// ignoreUnwritable drops the error of a folder that this user cannot write to, or that no user can write to any more.
func ignoreUnwritable(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}

// prepare starts etcd and an API server, ends them when the server is ready, and copies etcd's data.
func prepare(ctx context.Context, program *multicall.Program, to string) (err error) {
	scope, err := process.NewScope(process.Options{})
	if err != nil {
		return err
	}
	c := newCluster(program, scope)
	close(c.working) // no part of it runs in the background
	defer func() { err = errors.Join(err, c.Stop()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errSlow)
	defer cancel()
	if c.port, err = reservePort(0); err != nil {
		return err
	}
	if err := writeFiles(c.Dir, c.port.Port, startOptions{}); err != nil {
		return err
	}
	// The API server would write a certificate authority to the store, as the one that it trusts. So this server has none,
	// and authenticates its only client by a token.
	token := rand.Text()
	if err := secretFiles(c.Dir, map[string][]byte{
		"tokens.csv": fmt.Appendf(nil, "%s,preparation,1,system:masters\n", token),
	}); err != nil {
		return err
	}
	if c.config, err = tokenConfig(c.Kubeconfig, token); err != nil {
		return err
	}
	server := apiServer(c.port.Port, false)
	server.flags = append(
		slices.DeleteFunc(server.flags, func(flag string) bool { return strings.HasPrefix(flag, "--client-ca-file=") }),
		"--token-auth-file=tokens.csv",
	)
	if err := c.launch(program, etcd(false), server); err != nil {
		return err
	}
	if err := c.waitAPIReady(ctx); err != nil {
		return err
	}
	if err := removeOwnService(ctx, c.config); err != nil {
		return err
	}
	store, api := c.processes[0], c.processes[1]
	api.Kill()
	store.Stop(etcdGrace)
	return copyStore(filepath.Join(c.Dir, dataDir), to, 0o755, 0o644) // others may use the same program
}

// removeOwnService removes the Service kubernetes, because it has this API server's port, and no other API server
// corrects it. The server creates the Service shortly after it is ready, and checks it again after 10 s
// (k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice).
func removeOwnService(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	services := client.CoreV1().Services(metav1.NamespaceDefault)
	return await.Until(ctx, 20*time.Millisecond, "the Service kubernetes", func(ctx context.Context) (string, error) {
		err := services.Delete(ctx, "kubernetes", metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return "the API server has not created it", nil
		}
		return "", err
	})
}

// tokenConfig returns the configuration of a client that has a token instead of a certificate.
func tokenConfig(kubeconfig, token string) (*rest.Config, error) {
	loaded, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	for name := range loaded.AuthInfos {
		loaded.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	return clientcmd.NewDefaultClientConfig(*loaded, nil).ClientConfig()
}

// takeStore copies a prepared store into a run folder. It returns false if there is none, if its owner lets no other
// user read it, or if another process is removing it, because the program was built again.
func takeStore(store, to string) (taken bool, err error) {
	if store == "" {
		return false, nil
	}
	if err = copyStore(store, to, 0o700, 0o600); err == nil {
		_, err = os.Stat(store) // files may be missing from the copy if the store was renamed meanwhile
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return false, os.RemoveAll(to)
	}
	return err == nil, err
}

// copyStore copies the folder of an etcd that is not running. Most of its write-ahead log is empty, because etcd
// allocates 64 MB for a segment, and one segment in advance.
func copyStore(from, to string, folders, files fs.FileMode) error {
	err := filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, below)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, folders)
		case strings.HasSuffix(name, ".tmp"):
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, ".wal") {
			content = content[:usedOf(content)]
		}
		return os.WriteFile(target, content, files)
	})
	if err != nil {
		return fmt.Errorf("copying etcd's data: %w", err)
	}
	return nil
}

// usedOf returns the length of a segment of the write-ahead log without the zeros at its end. It keeps at least one
// zero after the last record, because that marks the end of the log.
func usedOf(segment []byte) int {
	const page = 4096
	used := len(bytes.TrimRight(segment, "\x00"))
	return min(len(segment), (used/page+1)*page)
}
