// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// manifests are the objects of config/default. In a run of a process the grader applies only the APIService and the
// account, under its own names, so the checks read the manifests for the rest.
type manifests struct {
	built   chan struct{} // closed when they are built
	objects []map[string]any
	err     error
}

// buildManifests requests config/default from the grader, which builds it while other checks run.
func (v visit) buildManifests() {
	m := &v.kept.manifests
	if m.built != nil {
		return
	}
	m.built = make(chan struct{})
	go func() {
		defer close(m.built)
		m.objects, m.err = v.Submission.Manifests(v.ctx)
	}()
}

// builtManifests returns the objects of config/default. There are none if kustomize can't build it from the files of
// the submission, for example because it downloads some. In that case the checks of the manifests decide nothing.
func (v visit) builtManifests() []map[string]any {
	v.t.Helper()
	v.buildManifests()
	<-v.kept.manifests.built
	if err := v.kept.manifests.err; !errors.Is(err, fs.ErrNotExist) {
		v.OK(v.t, "building config/default", err)
	}
	return v.kept.manifests.objects
}

// ofKind returns the objects of a kind.
func ofKind(objects []map[string]any, kinds ...string) (found []map[string]any) {
	for _, object := range objects {
		if slices.Contains(kinds, textOf(object, "kind")) {
			found = append(found, object)
		}
	}
	return found
}

// keysOf returns the namespaces and names of objects.
func keysOf(objects []map[string]any) (keys []string) {
	for _, object := range objects {
		keys = append(keys, keyOf(object))
	}
	return keys
}

// podTemplate is the template of the Pods of a Deployment or StatefulSet.
type podTemplate struct {
	namespace string
	template  map[string]any
}

// podTemplates returns the templates of the Deployments and StatefulSets among objects.
func podTemplates(objects []map[string]any) (templates []podTemplate) {
	for _, workload := range ofKind(objects, "Deployment", "StatefulSet") {
		template, _, _ := unstructured.NestedMap(workload, "spec", "template")
		templates = append(templates, podTemplate{textOf(workload, "metadata", "namespace"), template})
	}
	return templates
}

// account returns the namespace and name of the Pods' ServiceAccount.
func (p podTemplate) account() string {
	name := textOf(p.template, "spec", "serviceAccountName")
	if name == "" {
		name = "default"
	}
	return p.namespace + "/" + name
}

// secrets returns the names of the Secrets in the Pods' volumes.
func (p podTemplate) secrets() (names []string) {
	for _, volume := range objectsIn(p.template, "spec", "volumes") {
		names = append(names, textOf(volume, "secret", "secretName"))
		for _, source := range objectsIn(volume, "projected", "sources") {
			names = append(names, textOf(source, "secret", "name"))
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// volumeOf returns the volume of a container's folder. It returns nil if the folder is on none.
func (p podTemplate) volumeOf(container map[string]any, folder string) map[string]any {
	name, longest := "", -1
	for _, mount := range objectsIn(container, "volumeMounts") {
		at := strings.TrimSuffix(textOf(mount, "mountPath"), "/")
		if len(at) > longest && strings.HasPrefix(folder+"/", at+"/") {
			name, longest = textOf(mount, "name"), len(at)
		}
	}
	for _, volume := range objectsIn(p.template, "spec", "volumes") {
		if longest >= 0 && textOf(volume, "name") == name {
			return volume
		}
	}
	return nil
}

// objectsIn returns a list of objects in a field.
func objectsIn(object map[string]any, fields ...string) (found []map[string]any) {
	all, _, _ := unstructured.NestedSlice(object, fields...)
	for _, one := range all {
		if one, ok := one.(map[string]any); ok {
			found = append(found, one)
		}
	}
	return found
}

// injectsAuthority fails the check unless config/default has cert-manager inject the CA of the server's certificate
// into the APIService, and gives that certificate to the server.
func (v visit) injectsAuthority() {
	v.t.Helper()
	objects := v.builtManifests()
	certificates := ofKind(objects, "Certificate")
	for _, registration := range ofKind(objects, "APIService") {
		if nameOf(registration) != apiService {
			continue
		}
		if skip, _, _ := unstructured.NestedBool(registration, "spec", "insecureSkipTLSVerify"); skip {
			v.Fail(v.t, "in config/default the APIService has no insecureSkipTLSVerify", "it is true", "APIService "+apiService)
		}
		v.namesAuthority(registration, certificates, objects)
		v.mountsCertificate(registration, certificates, objects)
	}
}

// namesAuthority fails the check unless an APIService has a caBundle, or an annotation with which cert-manager finds a
// CA.
func (v visit) namesAuthority(registration map[string]any, certificates, objects []map[string]any) {
	v.t.Helper()
	const expected = "in config/default the APIService has a caBundle, " +
		"or its annotation cert-manager.io/inject-ca-from has the NAMESPACE/NAME of a Certificate"
	annotations, _, _ := unstructured.NestedStringMap(registration, "metadata", "annotations")
	from, secret := annotations["cert-manager.io/inject-ca-from"], annotations["cert-manager.io/inject-ca-from-secret"]
	switch {
	case textOf(registration, "spec", "caBundle") != "":
	case from != "":
		if names := keysOf(certificates); !slices.Contains(names, from) {
			v.Fail(v.t, expected, fmt.Sprintf("it names %s, and there are the Certificates %s", from, strings.Join(names, ", ")),
				"APIService "+apiService)
		}
	case secret != "":
		secrets := keysOf(ofKind(objects, "Secret"))
		for _, certificate := range certificates {
			secrets = append(secrets, textOf(certificate, "metadata", "namespace")+"/"+textOf(certificate, "spec", "secretName"))
		}
		if !slices.Contains(secrets, secret) {
			v.Fail(v.t, expected, fmt.Sprintf("it takes the CA from the Secret %s, and there are the Secrets %s",
				secret, strings.Join(secrets, ", ")), "APIService "+apiService)
		}
	case annotations["cert-manager.io/inject-apiserver-ca"] != "":
	default:
		v.Fail(v.t, expected, "it has neither", "APIService "+apiService)
	}
}

// mountsCertificate fails the check unless a Certificate is for the APIService's Service, and the Pods mount its
// Secret.
func (v visit) mountsCertificate(registration map[string]any, certificates, objects []map[string]any) {
	v.t.Helper()
	if len(certificates) == 0 {
		return // the certificate does not come from cert-manager
	}
	suffix := "." + textOf(registration, "spec", "service", "namespace") + ".svc"
	host := textOf(registration, "spec", "service", "name") + suffix
	var names, secrets, mounted []string
	for _, certificate := range certificates {
		found, _, _ := unstructured.NestedStringSlice(certificate, "spec", "dnsNames")
		names = append(names, found...)
		if slices.Contains(found, host) || slices.Contains(found, "*"+suffix) {
			secrets = append(secrets, textOf(certificate, "spec", "secretName"))
		}
	}
	if len(secrets) == 0 {
		v.Fail(v.t, "in config/default a Certificate has the DNS name "+host+", by which the API server verifies the server",
			"the DNS names are "+strings.Join(names, ", "), "APIService "+apiService)
	}
	for _, pod := range podTemplates(objects) {
		mounted = append(mounted, pod.secrets()...)
	}
	if len(mounted) > 0 &&
		!slices.ContainsFunc(mounted, func(name string) bool { return slices.Contains(secrets, name) }) {
		v.Fail(v.t,
			"in config/default the server mounts the Secret of the Certificate for "+host+": "+strings.Join(secrets, ", "),
			"it mounts "+strings.Join(mounted, ", "))
	}
}

// authReaderRole is the Role in kube-system that allows reading the front proxy's ConfigMap.
const authReaderRole = "extension-apiserver-authentication-reader"

// bindsAccount fails the check unless config/default binds the account of the server's Pods to roles: by a
// ClusterRoleBinding, and to authReaderRole in its namespace.
func (v visit) bindsAccount() {
	v.t.Helper()
	objects := v.builtManifests()
	var accounts []string
	for _, pod := range podTemplates(objects) {
		accounts = append(accounts, pod.account())
	}
	bindings := ofKind(objects, "RoleBinding", "ClusterRoleBinding")
	if len(accounts) == 0 || len(bindings) == 0 {
		return
	}
	bound := false
	for _, binding := range bindings {
		binds := slices.ContainsFunc(objectsIn(binding, "subjects"), func(subject map[string]any) bool {
			return includesAny(subject, accounts)
		})
		bound = bound || binds && textOf(binding, "kind") == "ClusterRoleBinding"
		if textOf(binding, "roleRef", "name") != authReaderRole {
			continue
		}
		const expected = "in config/default a RoleBinding in kube-system binds the account of the server " +
			"to the Role " + authReaderRole + " there"
		kind, role := textOf(binding, "kind"), textOf(binding, "roleRef", "kind")
		namespace := textOf(binding, "metadata", "namespace")
		if kind != "RoleBinding" || role != "Role" || namespace != "kube-system" {
			v.Fail(v.t, expected, fmt.Sprintf("%s is a %s to a %s in the namespace %q, "+
				"and a binding gives rights in its own namespace only", nameOf(binding), kind, role, namespace))
		}
		if !binds {
			v.Fail(v.t, expected, fmt.Sprintf("%s binds other subjects, and the account of the server is %s",
				nameOf(binding), strings.Join(accounts, ", ")))
		}
	}
	if !bound {
		v.Fail(v.t, "in config/default a ClusterRoleBinding binds the account of the server, "+strings.Join(accounts, ", "),
			"none does")
	}
}

// includesAny reports whether a subject of a binding is one of the accounts (NAMESPACE/NAME), or a group or user that
// includes one.
func includesAny(subject map[string]any, accounts []string) bool {
	return slices.ContainsFunc(accounts, func(account string) bool {
		namespace, name, _ := strings.Cut(account, "/")
		switch named := textOf(subject, "name"); textOf(subject, "kind") {
		case "ServiceAccount":
			return named == name && textOf(subject, "namespace") == namespace
		case "User":
			return named == "system:serviceaccount:"+namespace+":"+name
		case "Group":
			return slices.Contains([]string{
				"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated",
			}, named)
		}
		return false
	})
}

// defaultDataDir is the default of --data-dir.
const defaultDataDir = "/data"

// dataDirOf returns the folder in which a container's server stores its data.
func dataDirOf(container map[string]any) string {
	folder := defaultDataDir
	args, _, _ := unstructured.NestedStringSlice(container, "args")
	for _, arg := range args {
		if value, ok := strings.CutPrefix(strings.TrimLeft(arg, "-"), "data-dir="); ok {
			folder = strings.TrimSuffix(value, "/")
		}
	}
	return folder
}

// keepsStorage fails the check if config/default has the folder of --data-dir on a volume that does not outlive the
// Pod.
func (v visit) keepsStorage() {
	v.t.Helper()
	const expected = "in config/default the folder of --data-dir is on a volume " +
		"that outlives the Pod, such as a PersistentVolumeClaim"
	objects := v.builtManifests()
	claims := keysOf(ofKind(objects, "PersistentVolumeClaim"))
	for _, pod := range podTemplates(objects) {
		for _, container := range objectsIn(pod.template, "spec", "containers") {
			folder := dataDirOf(container)
			volume := pod.volumeOf(container, folder)
			if _, empty := volume["emptyDir"]; empty {
				v.Fail(v.t, expected,
					fmt.Sprintf("%s is on the emptyDir %s, which is deleted with its Pod", folder, textOf(volume, "name")))
			}
			if claim := textOf(volume, "persistentVolumeClaim", "claimName"); claim != "" &&
				!slices.Contains(claims, pod.namespace+"/"+claim) {
				v.Fail(v.t, expected, fmt.Sprintf("there is no PersistentVolumeClaim %s/%s", pod.namespace, claim))
			}
		}
	}
}
