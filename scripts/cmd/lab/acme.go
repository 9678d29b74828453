// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"lva.io/operators/scripts/checkout"
	"lva.io/operators/scripts/checkout/cli"
	"lva.io/operators/scripts/checks/byhand"
	"lva.io/operators/scripts/services/acme"
)

// acmeTimeout is the time limit for an ACME server to validate some names.
const acmeTimeout = 2 * time.Minute

// acmeFlags name the cluster and the ACME server.
type acmeFlags struct {
	flags      deployFlags
	kubeconfig string
	server     string
}

func (f *acmeFlags) register(command *cobra.Command) {
	command.Flags().StringVar(&f.flags.placement.Cluster, "cluster", onPlayground, "where: playground, kind, or kind:NAME")
	command.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "the cluster of this kubeconfig's current context instead")
	command.Flags().StringVar(&f.server, "server", "",
		"the directory URL of a public ACME server; default: the cluster's Pebble")
}

func acmeCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "acme", GroupID: groupPlayground,
		Short: "Order a certificate whose names you prove by hand: lab 06's first part", Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var ordering, validating acmeFlags
	var names []string
	order := &cobra.Command{
		Use: "order", Short: "Order a certificate, and put its tokens into the cluster: `make order`", Args: cli.NoArguments,
		Long: "order makes a new account at the ACME server, orders one certificate for all names, " +
			"and writes the account's public key and the\n" +
			"tokens into the ConfigMap " + byhand.ConfigMap + " of the namespace " + byhand.Namespace + ". " +
			"An earlier order is forgotten.",
		RunE: func(command *cobra.Command, _ []string) error {
			return ordering.do(command.Context(), func(
				ctx context.Context, client kubernetes.Interface, directory string, httpClient *http.Client,
			) error {
				_, order, err := byhand.Place(ctx, client, directory, httpClient, names...)
				if err != nil {
					return err
				}
				printOrder(order)
				return nil
			})
		},
	}
	ordering.register(order)
	order.Flags().StringSliceVar(&names, "names", byhand.Names, "the names, separated by commas")
	validate := &cobra.Command{
		Use: "validate", Short: "Ask the ACME server to validate all names, and show the results: `make validate`",
		Args: cli.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return validating.do(command.Context(), func(
				ctx context.Context, client kubernetes.Interface, _ string, httpClient *http.Client,
			) error {
				order, err := byhand.Resume(ctx, client, httpClient)
				if errors.Is(err, byhand.ErrNoOrder) {
					return errors.New("nothing has been ordered yet: type `make order` in the lab's folder first")
				} else if err != nil {
					return err
				}
				return validateOrder(ctx, order)
			})
		},
	}
	validating.register(validate)
	command.AddCommand(order, validate)
	return command
}

// do connects to the cluster and to the ACME server, and runs a function with both connections.
func (f *acmeFlags) do(
	ctx context.Context, do func(context.Context, kubernetes.Interface, string, *http.Client) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, acmeTimeout)
	defer cancel()
	config, err := f.config(ctx)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	if f.server != "" {
		return do(ctx, client, f.server, http.DefaultClient)
	}
	// A user of this command does not need port forwarding's log lines about closed connections.
	utilruntime.ErrorHandlers = nil
	server, err := byhand.Connect(ctx, config)
	if err != nil {
		return fmt.Errorf("%w; `make up ADDONS=cert-manager,pebble,ingress` starts a playground with it", err)
	}
	defer server.Close()
	return do(ctx, client, byhand.Directory, server.Client)
}

func (f *acmeFlags) config(ctx context.Context) (*rest.Config, error) {
	file := f.kubeconfig
	if file == "" {
		repo, err := checkout.Find()
		if err != nil {
			return nil, err
		}
		target, err := f.flags.target(repo)
		if err != nil {
			return nil, err
		}
		if file, err = target.Kubeconfig(ctx, repo); err != nil {
			return nil, err
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", file, err)
	}
	return config, nil
}

func printOrder(order *acme.Order) {
	fmt.Fprintf(os.Stderr,
		"Ordered: %s\nThe ConfigMap %s of the namespace %s has the account's public key and these tokens:\n",
		order.URL, byhand.ConfigMap, byhand.Namespace)
	for _, c := range order.Challenges {
		fmt.Printf("http://%s%s\n", c.Name, c.Path())
	}
}

// validateOrder prints the result of each name. It returns an error if a name is not valid.
func validateOrder(ctx context.Context, order *acme.Order) error {
	authorizations, err := order.Validate(ctx)
	if err != nil {
		return err
	}
	invalid := 0
	for _, a := range authorizations {
		fmt.Println(strings.TrimSpace(fmt.Sprintf("%s: %s %s", a.Name, a.Status, a.Problem)))
		if a.Status != "valid" {
			invalid++
		}
	}
	if invalid > 0 {
		return errors.New("an invalid authorization stays invalid: run `make order` to order again")
	}
	chain, err := order.Finalize(ctx)
	if err != nil {
		return err
	}
	printCertificate(chain[0])
	return nil
}

func printCertificate(leaf *x509.Certificate) {
	fmt.Printf("The certificate for %v is issued by %s, and valid until %s.\n",
		leaf.DNSNames, leaf.Issuer.CommonName, leaf.NotAfter.Format(time.DateOnly))
}
