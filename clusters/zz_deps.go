//go:build deps

package clusters

import (
 _ "helm.sh/helm/v3/pkg/action"
 _ "helm.sh/helm/v3/pkg/chart/loader"
 _ "helm.sh/helm/v3/pkg/cli"
 _ "sigs.k8s.io/kind/pkg/cluster"
 _ "sigs.k8s.io/kind/pkg/cmd"
 _ "sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
 _ "github.com/google/go-containerregistry/pkg/v1/layout"
 _ "github.com/google/go-containerregistry/pkg/v1/tarball"
 _ "github.com/google/go-containerregistry/pkg/v1/mutate"
 _ "github.com/klauspost/compress/zstd"
 _ "sigs.k8s.io/e2e-framework/pkg/features"
 _ "sigs.k8s.io/e2e-framework/pkg/env"
 _ "k8s.io/kubectl/pkg/cmd"
 _ "k8s.io/cli-runtime/pkg/genericclioptions"
 _ "github.com/spf13/cobra"
)
