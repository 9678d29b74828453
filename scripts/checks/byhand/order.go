// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package byhand

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"lva.io/operators/clusters/existing"
	"lva.io/operators/scripts/services/acme"
)

// These objects store the order in the cluster: the data that proving the names requires, and the data to find the
// order again.
const (
	// Namespace is the namespace of lab 06's site.
	Namespace = "icecream-web"
	// ConfigMap has the account's public key and the tokens. See JWKFile and TokensFile.
	ConfigMap = "acme-order"
	// JWKFile is the file with the account's public key as a JSON Web Key.
	JWKFile = "account.jwk"
	// TokensFile is the file with a line for each name: the name, a space, its token.
	TokensFile = "tokens"

	secret                               = "acme-order-account"
	keyField, orderField, directoryField = "key.pem", "order", "directory"
)

// Names are the names that a student proves.
var Names = []string{"chocolate.lab.test", "vanilla.lab.test"}

// fieldOwner is the field manager of everything that this package applies.
const fieldOwner = "operator-labs"

// ErrNoOrder means that nothing has been ordered in the cluster.
var ErrNoOrder = errors.New("nothing has been ordered yet")

// Place creates an account at the server with this directory, orders a certificate for the names, and stores the order
// in the cluster. It replaces an earlier order.
func Place(ctx context.Context, client kubernetes.Interface, directory string, through *http.Client,
	names ...string,
) (*acme.Account, *acme.Order, error) {
	account, err := acme.Register(ctx, directory, through)
	if err != nil {
		return nil, nil, err
	}
	order, err := account.Order(ctx, names...)
	if err != nil {
		return nil, nil, err
	}
	return account, order, publish(ctx, client, directory, account, order)
}

func publish(ctx context.Context, client kubernetes.Interface, directory string, account *acme.Account,
	order *acme.Order,
) error {
	jwk, err := account.JWK()
	if err != nil {
		return err
	}
	key, err := account.Key()
	if err != nil {
		return err
	}
	var tokens strings.Builder
	for _, c := range order.Challenges {
		fmt.Fprintf(&tokens, "%s %s\n", c.Name, c.Token)
	}
	ours := map[string]string{existing.Label: "true"}
	how := metav1.ApplyOptions{FieldManager: fieldOwner, Force: true}
	core := client.CoreV1()
	// A namespace that is being deleted rejects the objects below, and its error reports that.
	if _, err := core.Namespaces().Apply(ctx, applycorev1.Namespace(Namespace).WithLabels(ours), how); err != nil {
		return fmt.Errorf("creating the namespace %s: %w", Namespace, err)
	}
	if _, err := core.ConfigMaps(Namespace).Apply(ctx, applycorev1.ConfigMap(ConfigMap, Namespace).WithLabels(ours).
		WithData(map[string]string{JWKFile: string(jwk), TokensFile: tokens.String()}), how); err != nil {
		return fmt.Errorf("writing the ConfigMap %s: %w", ConfigMap, err)
	}
	if _, err := core.Secrets(Namespace).Apply(ctx,
		applycorev1.Secret(secret, Namespace).WithLabels(ours).WithType(corev1.SecretTypeOpaque).
			WithStringData(map[string]string{keyField: string(key), orderField: order.URL, directoryField: directory}),
		how); err != nil {
		return fmt.Errorf("writing the Secret %s: %w", secret, err)
	}
	return nil
}

// Resume finds the order in the cluster. The error is ErrNoOrder if there is none.
func Resume(ctx context.Context, client kubernetes.Interface, through *http.Client) (*acme.Order, error) {
	kept, err := client.CoreV1().Secrets(Namespace).Get(ctx, secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, ErrNoOrder
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Secret %s: %w", secret, err)
	}
	account, err := acme.Resume(ctx, string(kept.Data[directoryField]), through, kept.Data[keyField])
	if err != nil {
		return nil, err
	}
	return account.Open(ctx, string(kept.Data[orderField]))
}
