// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lva.io/operators/scripts/limited"
)

// manifests are those of config/default, put together by kustomize. In a run of a process the grader brings only the APIService and the
// account, and other names into the cluster, so what config/default says of the rest is judged by its text.
type manifests struct {
	built   chan struct{} // closed when they are
	objects []map[string]any
}

// buildManifests begins to put config/default together, which goes on beside other checks.
func (v visit) buildManifests() {
	if v.kept.manifests.built != nil {
		return
	}
	v.kept.manifests.built = make(chan struct{})
	ctx := context.WithoutCancel(v.ctx)
	go func() {
		defer close(v.kept.manifests.built)
		v.kept.manifests.objects = v.kustomized(ctx)
	}()
}

// manifestsOf are the objects of config/default. There are none if it can't be put together from the files of the submission, as one that
// takes some from the network: then nothing is judged.
func (v visit) manifestsOf() []map[string]any {
	v.buildManifests()
	<-v.kept.manifests.built
	return v.kept.manifests.objects
}

// kustomizationNames are how kustomize calls its file.
var kustomizationNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// manifestFolder is what is put together, and manifestFiles how many files it may need at most.
const (
	manifestFolder = "config/default"
	manifestFiles  = 200
)

func (v visit) kustomized(ctx context.Context) (objects []map[string]any) {
	if v.Kubectl == "" {
		return nil
	}
	dir, err := os.MkdirTemp("", "manifests")
	if err != nil {
		return nil
	}
	defer os.RemoveAll(dir)
	if !v.fetch(ctx, dir, manifestFolder, map[string]bool{}) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, kubectlTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, v.Kubectl, "kubectl", "kustomize", filepath.Join(dir, filepath.FromSlash(manifestFolder)))
	const nobody = "http://127.0.0.1:0"
	command.Env = []string{"HOME=" + dir, "PATH=/usr/bin:/bin", "HTTP_PROXY=" + nobody, "HTTPS_PROXY=" + nobody}
	output := limited.NewOutput(answerLimit)
	command.Stdout = output
	if command.Run() != nil {
		return nil
	}
	for document := range strings.SplitSeq(output.String(), "\n---") {
		var object map[string]any
		if yaml.Unmarshal([]byte(document), &object) != nil {
			return nil
		}
		if object != nil {
			objects = append(objects, object)
		}
	}
	return objects
}

// fetch copies a folder's kustomization, and what it names, from the submission. It reports whether there is one.
func (v visit) fetch(ctx context.Context, dir, folder string, seen map[string]bool) bool {
	for _, name := range kustomizationNames {
		content, ok := v.copyFile(ctx, dir, path.Join(folder, name), seen)
		if !ok {
			continue
		}
		var kustomization any
		if yaml.Unmarshal(content, &kustomization) != nil {
			return false
		}
		for _, text := range texts(kustomization) {
			if _, file, ok := strings.Cut(text, "="); ok { // of a generator
				text = file
			}
			named := path.Join(folder, text)
			if text == "" || strings.Contains(text, "\n") || path.IsAbs(text) || strings.HasPrefix(named, "..") || seen[named] {
				continue
			}
			if _, ok := v.copyFile(ctx, dir, named, seen); !ok {
				seen[named] = true
				v.fetch(ctx, dir, named, seen)
			}
		}
		return true
	}
	return false
}

// copyFile copies a file of the submission, if there is one.
func (v visit) copyFile(ctx context.Context, dir, name string, seen map[string]bool) ([]byte, bool) {
	if len(seen) > manifestFiles {
		return nil, false
	}
	content, err := v.Submission.File(ctx, name)
	if err != nil {
		return nil, false
	}
	seen[name] = true
	to := filepath.Join(dir, filepath.FromSlash(name))
	return content, os.MkdirAll(filepath.Dir(to), 0o700) == nil && os.WriteFile(to, content, 0o600) == nil
}

// texts are all in a document.
func texts(part any) (all []string) {
	switch part := part.(type) {
	case string:
		return []string{part}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(part)) {
			all = append(all, texts(part[key])...)
		}
	case []any:
		for _, inside := range part {
			all = append(all, texts(inside)...)
		}
	}
	return all
}

// ofKind are the objects of a kind.
func ofKind(objects []map[string]any, kinds ...string) (found []map[string]any) {
	for _, object := range objects {
		if slices.Contains(kinds, textOf(object, "kind")) {
			found = append(found, object)
		}
	}
	return found
}

// keysOf are the namespaces and names of objects.
func keysOf(objects []map[string]any) (keys []string) {
	for _, object := range objects {
		keys = append(keys, keyOf(object))
	}
	return keys
}

// podsOf are what the Deployments and StatefulSets among objects make Pods of: the namespace, and the template.
func podsOf(objects []map[string]any) (templates []podTemplate) {
	for _, workload := range ofKind(objects, "Deployment", "StatefulSet") {
		template, _, _ := unstructured.NestedMap(workload, "spec", "template")
		templates = append(templates, podTemplate{textOf(workload, "metadata", "namespace"), template})
	}
	return templates
}

type podTemplate struct {
	namespace string
	template  map[string]any
}

// list is one of the template's lists of objects.
func (p podTemplate) list(fields ...string) (found []map[string]any) {
	return objectsIn(p.template, fields...)
}

func objectsIn(object map[string]any, fields ...string) (found []map[string]any) {
	all, _, _ := unstructured.NestedSlice(object, fields...)
	for _, one := range all {
		if one, ok := one.(map[string]any); ok {
			found = append(found, one)
		}
	}
	return found
}

// injectsAuthority fails the check unless config/default lets cert-manager write the authority of the server's certificate into the
// APIService, and gives that certificate to the server.
func (v visit) injectsAuthority() {
	v.t.Helper()
	objects := v.manifestsOf()
	certificates := ofKind(objects, "Certificate")
	for _, registration := range ofKind(objects, "APIService") {
		if nameOf(registration) != apiService {
			continue
		}
		if skip, _, _ := unstructured.NestedBool(registration, "spec", "insecureSkipTLSVerify"); skip {
			v.Fail(v.t, "in config/default the APIService has no insecureSkipTLSVerify", "it is true", "APIService "+apiService)
		}
		v.injects(registration, certificates, objects)
		v.servesCertificate(registration, certificates, objects)
	}
}

// injects fails the check unless an APIService names a Certificate that there is, or has its authority already.
func (v visit) injects(registration map[string]any, certificates, objects []map[string]any) {
	v.t.Helper()
	const expected = "in config/default the APIService has a caBundle, or names in the annotation cert-manager.io/inject-ca-from the NAMESPACE/NAME of a Certificate"
	annotations, _, _ := unstructured.NestedStringMap(registration, "metadata", "annotations")
	from, secret := annotations["cert-manager.io/inject-ca-from"], annotations["cert-manager.io/inject-ca-from-secret"]
	switch {
	case textOf(registration, "spec", "caBundle") != "":
	case from != "":
		if names := keysOf(certificates); !slices.Contains(names, from) {
			v.Fail(v.t, expected, fmt.Sprintf("it names %s, and there are the Certificates %s", from, strings.Join(names, ", ")), "APIService "+apiService)
		}
	case secret != "":
		secrets := keysOf(ofKind(objects, "Secret"))
		for _, certificate := range certificates {
			secrets = append(secrets, textOf(certificate, "metadata", "namespace")+"/"+textOf(certificate, "spec", "secretName"))
		}
		if !slices.Contains(secrets, secret) {
			v.Fail(v.t, expected, fmt.Sprintf("it takes it from the Secret %s, and there are the Secrets %s", secret, strings.Join(secrets, ", ")), "APIService "+apiService)
		}
	case annotations["cert-manager.io/inject-apiserver-ca"] != "":
	default:
		v.Fail(v.t, expected, "it has neither", "APIService "+apiService)
	}
}

// servesCertificate fails the check unless a Certificate is for the Service of the APIService, and the Pods mount its Secret.
func (v visit) servesCertificate(registration map[string]any, certificates, objects []map[string]any) {
	v.t.Helper()
	if len(certificates) == 0 {
		return // it comes from elsewhere
	}
	host := textOf(registration, "spec", "service", "name") + "." + textOf(registration, "spec", "service", "namespace") + ".svc"
	var names, secrets []string
	for _, certificate := range certificates {
		found, _, _ := unstructured.NestedStringSlice(certificate, "spec", "dnsNames")
		if names = append(names, found...); slices.Contains(found, host) {
			secrets = append(secrets, textOf(certificate, "spec", "secretName"))
		}
	}
	if len(secrets) == 0 {
		v.Fail(v.t, "in config/default a Certificate has the DNS name "+host+", by which the API server verifies the server", "the DNS names are "+strings.Join(names, ", "), "APIService "+apiService)
	}
	var mounted []string
	for _, pod := range podsOf(objects) {
		for _, volume := range pod.list("spec", "volumes") {
			if name := textOf(volume, "secret", "secretName"); name != "" {
				mounted = append(mounted, name)
			}
		}
	}
	if len(mounted) > 0 && !slices.ContainsFunc(mounted, func(name string) bool { return slices.Contains(secrets, name) }) {
		v.Fail(v.t, "in config/default the server mounts the Secret of the Certificate for "+host+": "+strings.Join(secrets, ", "), "it mounts "+strings.Join(mounted, ", "))
	}
}

// authReaderRole lets one read how the front proxy can be recognized. It is in kube-system.
const authReaderRole = "extension-apiserver-authentication-reader"

// bindsAccount fails the check unless the bindings of config/default give their rights to the account of the server's Pods, and the one for
// the front proxy's ConfigMap where that is.
func (v visit) bindsAccount() {
	v.t.Helper()
	objects := v.manifestsOf()
	var accounts []string
	for _, pod := range podsOf(objects) {
		name := textOf(pod.template, "spec", "serviceAccountName")
		if name == "" {
			name = "default"
		}
		accounts = append(accounts, pod.namespace+"/"+name)
	}
	bindings := ofKind(objects, "RoleBinding", "ClusterRoleBinding")
	if len(accounts) == 0 || len(bindings) == 0 {
		return
	}
	bound := false
	for _, binding := range bindings {
		subjects := subjectsOf(binding)
		ours := slices.ContainsFunc(subjects, func(subject string) bool { return slices.Contains(accounts, subject) })
		bound = bound || ours && textOf(binding, "kind") == "ClusterRoleBinding"
		if textOf(binding, "roleRef", "name") != authReaderRole {
			continue
		}
		const expected = "in config/default a RoleBinding in kube-system gives the account of the server the Role " + authReaderRole + ", which is there, too"
		if kind, role, namespace := textOf(binding, "kind"), textOf(binding, "roleRef", "kind"), textOf(binding, "metadata", "namespace"); kind != "RoleBinding" || role != "Role" || namespace != "kube-system" {
			v.Fail(v.t, expected, fmt.Sprintf("%s is a %s to a %s in the namespace %q, and a binding gives rights in its own namespace only", nameOf(binding), kind, role, namespace))
		}
		if !ours {
			v.Fail(v.t, expected, fmt.Sprintf("it gives it to %s, and the account of the server is %s", strings.Join(subjects, ", "), strings.Join(accounts, ", ")))
		}
	}
	if !bound {
		v.Fail(v.t, "in config/default a ClusterRoleBinding gives rights to the account of the server, "+strings.Join(accounts, ", "), "none does")
	}
}

// subjectsOf are the accounts that a binding is for.
func subjectsOf(binding map[string]any) (all []string) {
	for _, subject := range objectsIn(binding, "subjects") {
		if textOf(subject, "kind") == "ServiceAccount" {
			all = append(all, textOf(subject, "namespace")+"/"+textOf(subject, "name"))
		}
	}
	return all
}

// defaultDataDir is where a server stores that is told nothing else.
const defaultDataDir = "/data"

// keepsStorage fails the check if the folder in which the server of config/default stores goes with its Pod.
func (v visit) keepsStorage() {
	v.t.Helper()
	objects := v.manifestsOf()
	claims := keysOf(ofKind(objects, "PersistentVolumeClaim"))
	for _, pod := range podsOf(objects) {
		for _, container := range pod.list("spec", "containers") {
			folder := defaultDataDir
			args, _, _ := unstructured.NestedStringSlice(container, "args")
			for _, arg := range args {
				if value, ok := strings.CutPrefix(strings.TrimLeft(arg, "-"), "data-dir="); ok {
					folder = value
				}
			}
			for _, mount := range objectsIn(container, "volumeMounts") {
				if at := textOf(mount, "mountPath"); at != folder && !strings.HasPrefix(folder, strings.TrimSuffix(at, "/")+"/") {
					continue
				}
				for _, volume := range pod.list("spec", "volumes") {
					const expected = "in config/default the folder of --data-dir is on a volume that outlives the Pod, as a PersistentVolumeClaim"
					if _, empty := volume["emptyDir"]; empty && textOf(volume, "name") == textOf(mount, "name") {
						v.Fail(v.t, expected, fmt.Sprintf("%s is on the emptyDir %s, which is deleted with its Pod", folder, textOf(volume, "name")))
					}
					if claim := textOf(volume, "persistentVolumeClaim", "claimName"); claim != "" && textOf(volume, "name") == textOf(mount, "name") && !slices.Contains(claims, pod.namespace+"/"+claim) {
						v.Fail(v.t, expected, fmt.Sprintf("there is no PersistentVolumeClaim %s/%s", pod.namespace, claim))
					}
				}
			}
		}
	}
}
