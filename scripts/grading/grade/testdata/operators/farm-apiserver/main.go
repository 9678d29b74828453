// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command libraryfarm serves llamas with k8s.io/apiserver, and keeps them in etcd.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/cli"
	"k8s.io/kube-openapi/pkg/common"
	sampleopenapi "k8s.io/sample-apiserver/pkg/generated/openapi"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/libraryfarm/farm"
)

func main() {
	scheme := runtime.NewScheme()
	farm.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme)
	options := genericoptions.NewRecommendedOptions("/registry/"+farm.Group, codecs.LegacyCodec(farm.Version))
	options.Admission = nil // it validates in its strategy, and asks no webhooks
	options.Features.EnablePriorityAndFairness = false
	options.SecureServing.BindPort = 9443
	command := &cobra.Command{
		Use: "libraryfarm", SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error { return run(c, scheme, codecs, options) },
	}
	command.SetContext(genericapiserver.SetupSignalContext())
	options.AddFlags(command.Flags())
	os.Exit(cli.Run(command))
}

// withoutProtobuf refuses protobuf, which these types don't support. Without it, a client that asks for protobuf first,
// as the namespace controller does, gets an error instead of JSON.
type withoutProtobuf struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes()),
		func(known runtime.SerializerInfo) bool {
			return known.MediaType == runtime.ContentTypeProtobuf
		})
}

func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := sampleopenapi.GetOpenAPIDefinitions(ref) // for those of apimachinery
	maps.Copy(all, farm.Definitions(ref))
	return all
}

func run(
	c *cobra.Command, scheme *runtime.Scheme, codecs serializer.CodecFactory, options *genericoptions.RecommendedOptions,
) error {
	if options.CoreAPI.CoreAPIKubeconfigPath == "" {
		options.CoreAPI.CoreAPIKubeconfigPath = os.Getenv("KUBECONFIG")
	}
	for _, err := range options.Validate() {
		return err
	}
	config := genericapiserver.NewRecommendedConfig(codecs)
	namer := openapi.NewDefinitionNamer(scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	config.OpenAPIConfig.Info.Title, config.OpenAPIV3Config.Info.Title = "libraryfarm", "libraryfarm"
	config.FeatureGate, config.EffectiveVersion =
		utilfeature.DefaultFeatureGate, compatibility.DefaultBuildEffectiveVersion()
	config.ShutdownWatchTerminationGracePeriod = 2 * time.Second // so that watches end, instead of being cut off
	if err := options.ApplyTo(config); err != nil {
		return fmt.Errorf("configuring the server: %w", err)
	}
	server, err := config.Complete().New("libraryfarm", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return fmt.Errorf("making the server: %w", err)
	}
	llamas, err := farm.NewStorage(scheme, config.RESTOptionsGetter)
	if err != nil {
		return fmt.Errorf("opening the storage: %w", err)
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(farm.Group, scheme, metav1.ParameterCodec, codecs)
	group.NegotiatedSerializer = withoutProtobuf{codecs}
	group.VersionedResourcesStorageMap[farm.Version.Version] = map[string]rest.Storage{"llamas": llamas}
	if err := server.InstallAPIGroup(&group); err != nil {
		return fmt.Errorf("serving the group: %w", err)
	}
	server.AddPostStartHookOrDie("herd", func(hook genericapiserver.PostStartHookContext) error {
		return farm.Begin(hook, llamas)
	})
	return server.PrepareRun().RunWithContext(c.Context())
}
