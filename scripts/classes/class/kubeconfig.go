// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package class

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// contextName is the name of the context, the cluster and the user in a student's kubeconfig: one word to type, as in
// `kubectl --context class`.
const contextName = "class"

// keep is how long a kubeconfig must still be valid to be kept as it is.
const keep = 7 * 24 * time.Hour

// kubeconfig creates the student's kubeconfig, unless a valid one exists.
func (c *Class) kubeconfig(
	ctx context.Context, clients *clients, student Student, account *corev1.ServiceAccount,
) (Invited, error) {
	lifetime := c.Lifetime
	if lifetime == 0 {
		lifetime = DefaultLifetime
	}
	admin := rest.CopyConfig(c.Config)
	// The student's kubeconfig must contain what the administrator's refers to as files on this machine.
	if err := rest.LoadTLSFiles(admin); err != nil {
		return Invited{}, fmt.Errorf("reading the certificate authority of the cluster: %w", err)
	}
	server := c.Server
	if server == "" {
		server = admin.Host
	}
	invited := Invited{Student: student, Kubeconfig: c.kubeconfigFile(student)}
	cluster := &clientcmdapi.Cluster{
		Server: server, CertificateAuthorityData: admin.CAData,
		TLSServerName: admin.ServerName, InsecureSkipTLSVerify: admin.Insecure,
	}
	if expires, ok := validUntil(invited.Kubeconfig, cluster, account.UID); ok && !c.Renew &&
		time.Until(expires) > min(keep, lifetime/2) {
		invited.Expires = expires
		// Another program may have made it readable.
		return invited, os.Chmod(invited.Kubeconfig, 0o600)
	}
	token, err := clients.CoreV1().ServiceAccounts(accounts).CreateToken(ctx, student.Name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(lifetime / time.Second))},
	}, metav1.CreateOptions{})
	if err != nil {
		return Invited{}, fmt.Errorf("requesting a token: %w", err)
	}
	invited.Expires, invited.New = token.Status.ExpirationTimestamp.Time, true
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[contextName] = cluster
	kubeconfig.AuthInfos[contextName] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	kubeconfig.Contexts[contextName] = &clientcmdapi.Context{
		Cluster: contextName, AuthInfo: contextName, Namespace: student.Namespace(),
	}
	kubeconfig.CurrentContext = contextName
	content, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return Invited{}, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	head := fmt.Sprintf("# The account of %s on the class's cluster, with the namespace %s. It expires at %s.\n"+
		"# Anyone with this file can act as %[1]s. Keep it secret.\n",
		student.Name, student.Namespace(), invited.Expires.UTC().Format(time.RFC3339))
	return invited, writeSecret(invited.Kubeconfig, append([]byte(head), content...))
}

func (c *Class) kubeconfigFile(student Student) string {
	return filepath.Join(c.Out, student.Name+".kubeconfig")
}

// validUntil returns when an existing kubeconfig expires, if it is for this cluster and for the account with this UID.
// An account that was revoked and created again has another UID.
func validUntil(file string, cluster *clientcmdapi.Cluster, account types.UID) (time.Time, bool) {
	kubeconfig, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return time.Time{}, false
	}
	have, user := kubeconfig.Clusters[contextName], kubeconfig.AuthInfos[contextName]
	if have == nil || user == nil || have.Server != cluster.Server || have.TLSServerName != cluster.TLSServerName ||
		!bytes.Equal(have.CertificateAuthorityData, cluster.CertificateAuthorityData) {
		return time.Time{}, false
	}
	parts := strings.Split(user.Token, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, false
	}
	var claims struct {
		Expires    int64 `json:"exp"`
		Kubernetes struct {
			ServiceAccount struct{ UID types.UID }
		} `json:"kubernetes.io"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Kubernetes.ServiceAccount.UID != account {
		return time.Time{}, false
	}
	return time.Unix(claims.Expires, 0), true
}

// writeSecret writes a file that only its owner can read. It writes the whole file or nothing.
func writeSecret(file string, content []byte) error {
	beside := renameio.WithTempDir(filepath.Dir(file))
	if err := renameio.WriteFile(file, content, 0o600, beside, renameio.WithStaticPermissions(0o600)); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// ListFile is the list of invited students, for a program that writes e-mails. It has no secrets.
const ListFile = "students.csv"

func (c *Class) writeList(invited []Invited) error {
	var list bytes.Buffer
	writer := csv.NewWriter(&list)
	rows := [][]string{{"name", "email", "namespace", "kubeconfig", "expires"}}
	for _, student := range invited {
		rows = append(rows, []string{
			student.Name, student.Email, student.Namespace(),
			filepath.Base(student.Kubeconfig), student.Expires.UTC().Format(time.RFC3339),
		})
	}
	if err := writer.WriteAll(rows); err != nil {
		return fmt.Errorf("writing the list of students: %w", err)
	}
	return writeSecret(c.listFile(), list.Bytes())
}

func (c *Class) listFile() string { return filepath.Join(c.Out, ListFile) }

// Try uses a kubeconfig as the student would. The error explains why it does not work.
func Try(ctx context.Context, invited Invited) error {
	config, err := clientcmd.BuildConfigFromFlags("", invited.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of %s: %w", invited.Name, err)
	}
	config.Timeout = 10 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("using the kubeconfig of %s: %w", invited.Name, err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(
		ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{},
	)
	if err != nil {
		return fmt.Errorf("using the kubeconfig of %s at %s: %w", invited.Name, config.Host, err)
	}
	if want := "system:serviceaccount:" + accounts + ":" + invited.Name; review.Status.UserInfo.Username != want {
		return fmt.Errorf("using the kubeconfig of %s: the API server authenticates it as %s",
			invited.Name, review.Status.UserInfo.Username)
	}
	return nil
}
