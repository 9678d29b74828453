// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package existing

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Label marks the objects that we have created in a cluster. Objects without it belong to others.
const Label = "operators.lva.io/installed"

// answerTimeout is how long a cluster may take to return its version.
const answerTimeout = 10 * time.Second

// Cluster is the cluster of a context of a kubeconfig.
type Cluster struct {
	// Context is the context's name.
	Context string
	// Version is the Kubernetes release.
	Version string

	config     *rest.Config
	kubeconfig *clientcmdapi.Config // of this context alone, with the content of all files that it names
}

// Open finds a context, connects to its cluster, and reads the cluster's version. Without a file, it reads the
// kubeconfig that kubectl would read: $KUBECONFIG, or ~/.kube/config.
func Open(ctx context.Context, file, name string) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	all, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if _, found := all.Contexts[name]; !found {
		names := slices.Sorted(maps.Keys(all.Contexts))
		if len(names) == 0 {
			return nil, fmt.Errorf("there is no context %q: the kubeconfig (%s) has none; set KUBECONFIG to one that has",
				name, files(rules))
		}
		return nil, fmt.Errorf("there is no context %q in the kubeconfig (%s): it has %s",
			name, files(rules), strings.Join(names, ", "))
	}
	all.CurrentContext = name
	if err := clientcmdapi.MinifyConfig(all); err != nil {
		return nil, fmt.Errorf("reading the context %s: %w", name, err)
	}
	if err := clientcmdapi.FlattenConfig(all); err != nil {
		return nil, fmt.Errorf("reading the context %s: %w", name, err)
	}
	c := &Cluster{Context: name, kubeconfig: all}
	if c.config, err = clientcmd.NewDefaultClientConfig(*all, nil).ClientConfig(); err != nil {
		return nil, fmt.Errorf("reading the context %s: %w", name, err)
	}
	c.config.QPS, c.config.Burst = -1, -1
	c.config.WarningHandler = rest.NoWarnings{} // deprecation warnings are for the users of a kind
	if err := c.ask(); err != nil {
		return nil, err
	}
	return c, context.Cause(ctx)
}

func files(rules *clientcmd.ClientConfigLoadingRules) string {
	if rules.ExplicitPath != "" {
		return rules.ExplicitPath
	}
	return strings.Join(rules.Precedence, string(os.PathListSeparator))
}

// ask reads the cluster's version.
func (c *Cluster) ask() error {
	client, err := c.discovery()
	if err != nil {
		return err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return fmt.Errorf("the cluster of the context %s, %s, did not report its version: "+
			"check that it runs and that you have access: %w",
			c.Context, c.config.Host, err)
	}
	c.Version = version.GitVersion
	return nil
}

// discovery returns a discovery client that gives up when no answer comes.
func (c *Cluster) discovery() (*discovery.DiscoveryClient, error) {
	config := c.Config()
	config.Timeout = answerTimeout
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return client, nil
}

// Config returns the access that the context gives, without client-side rate limits. Each call returns a copy.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// WriteKubeconfig writes a kubeconfig with this context alone. Only its owner can read the file.
func (c *Cluster) WriteKubeconfig(file string) error {
	content, err := clientcmd.Write(*c.kubeconfig)
	if err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

// Right is a permission that an account may need.
type Right struct{ Verb, Group, Resource string }

func (r Right) String() string {
	return strings.TrimSuffix(r.Verb+" "+r.Resource+"."+r.Group, ".")
}

// MissingRights returns those of the rights that the context's account does not have in the whole cluster.
func (c *Cluster) MissingRights(ctx context.Context, rights ...Right) (missing []Right, err error) {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	for _, right := range rights {
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: right.Verb, Group: right.Group, Resource: right.Resource,
				}},
			}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("checking your rights in the cluster of the context %s: %w", c.Context, err)
		}
		if !review.Status.Allowed {
			missing = append(missing, right)
		}
	}
	return missing, nil
}
