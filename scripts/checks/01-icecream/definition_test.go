// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package icecream_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
	"lva.io/operators/scripts/checks/icecream"
)

// columns checks the table that kubectl get prints. The API server creates the table, and kubectl only requests it.
func columns() types.Feature {
	return features.New("print columns").
		Assess("SoldOut, ToppingsCount and Age", check.Assess(assess(func(v visit) {
			const expected = "`kubectl get icecreams` has the columns SoldOut and ToppingsCount, " +
				"with the values of the status, and Age"
			created, err := v.icecreams.Create(v.ctx,
				icecream.New("sundae", []string{"vanilla"}, []string{"cream"}), metav1.CreateOptions{})
			v.OK(v.t, "creating an icecream", err)
			created.Object["status"] = map[string]any{"soldOut": true, "toppingsCount": int64(1)}
			_, statusErr := v.icecreams.UpdateStatus(v.ctx, created, metav1.UpdateOptions{})
			raw, err := v.discovery.RESTClient().Get().AbsPath("/apis/demo.lva.io/v1/icecreams").
				SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(v.ctx)
			v.OK(v.t, "asking for a table", err)
			var table metav1.Table
			v.OK(v.t, "reading the table", json.Unmarshal(raw, &table))
			shown := tableLine(&table)
			var wrong []string
			for _, want := range []struct{ name, kind, value string }{
				{"SoldOut", "boolean", "true"},
				{"ToppingsCount", "integer", "1"},
				{"Age", "date", ""},
			} {
				at := slices.IndexFunc(table.ColumnDefinitions, func(d metav1.TableColumnDefinition) bool {
					return d.Name == want.name
				})
				if at < 0 {
					wrong = append(wrong, "the table has no column "+want.name)
					continue
				}
				if kind := table.ColumnDefinitions[at].Type; kind != want.kind {
					wrong = append(wrong, fmt.Sprintf("the column %s has the type %s instead of %s", want.name, kind, want.kind))
				}
				if table.ColumnDefinitions[at].Priority > 0 {
					wrong = append(wrong, fmt.Sprintf("the column %s is shown with -o wide only", want.name))
				}
				// Without a status subresource there is no status to show. Another check reports that.
				if got := fmt.Sprint(table.Rows[0].Cells[at]); want.value != "" && statusErr == nil && got != want.value {
					wrong = append(wrong, fmt.Sprintf("the column %s shows %s where the status says %s", want.name, got, want.value))
				}
			}
			if len(wrong) > 0 {
				v.Fail(v.t, expected, strings.Join(wrong, "; "), shown...)
			}
		}))).Feature()
}

func tableLine(table *metav1.Table) []string {
	var names, cells []string
	for i, column := range table.ColumnDefinitions {
		names = append(names, column.Name)
		if len(table.Rows) > 0 {
			cells = append(cells, fmt.Sprint(table.Rows[0].Cells[i]))
		}
	}
	return []string{"columns: " + strings.Join(names, " | "), "first row: " + strings.Join(cells, " | ")}
}

// explained reads the OpenAPI document from which kubectl explain takes its text.
func explained() types.Feature {
	return features.New("every field is explained").
		Assess("in the OpenAPI document", check.Assess(assess(func(v visit) {
			definition, err := v.kinds.Get(v.ctx, "icecreams.demo.lva.io", metav1.GetOptions{})
			v.OK(v.t, "reading the CustomResourceDefinition", err)
			root, _, _ := unstructured.NestedMap(version(definition), "schema", "openAPIV3Schema")
			silent := unexplained("icecream", root)
			for i, field := range silent {
				silent[i] = fmt.Sprintf("`kubectl explain %s` has no description", field)
			}
			if len(silent) > 0 {
				v.Fail(v.t, "every field has a description, and so has the kind itself",
					fmt.Sprintf("%d have none", len(silent)), silent...)
			}
		}))).
		Assess("the fields are there", check.Assess(assess(func(v visit) {
			definition, err := v.kinds.Get(v.ctx, "icecreams.demo.lva.io", metav1.GetOptions{})
			v.OK(v.t, "reading the CustomResourceDefinition", err)
			described := version(definition)
			for _, field := range [][]string{
				{"spec", "flavour"},
				{"spec", "topping"},
				{"status", "soldOut"},
				{"status", "toppingsCount"},
				{"status", "conditions"},
			} {
				path := []string{"schema", "openAPIV3Schema", "properties", field[0], "properties", field[1], "description"}
				if text, _, _ := unstructured.NestedString(described, path...); text == "" {
					v.Fail(v.t, "`kubectl explain icecream."+strings.Join(field, ".")+"` explains the field", "there is no such field")
				}
			}
		}))).Feature()
}

// version returns the version of a definition that the lectures describe. A submission may have others as well.
func version(definition *unstructured.Unstructured) map[string]any {
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		if version, ok := version.(map[string]any); ok && version["name"] == icecream.Resource.Version {
			return version
		}
	}
	return nil
}

// unexplained returns the paths of all fields without a description, including the schema itself.
func unexplained(path string, schema map[string]any) []string {
	var silent []string
	if text, _ := schema["description"].(string); strings.TrimSpace(text) == "" {
		silent = append(silent, path)
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		// apiVersion, kind and metadata are Kubernetes' own. The text of metadata comes from the API server.
		if property, ok := property.(map[string]any); ok && name != "metadata" {
			silent = append(silent, unexplained(path+"."+name, property)...)
		}
	}
	// The items of a list have no text of their own, but their fields do.
	if items, ok := schema["items"].(map[string]any); ok {
		if fields, ok := items["properties"].(map[string]any); ok {
			for name, field := range fields {
				if field, ok := field.(map[string]any); ok {
					silent = append(silent, unexplained(path+"."+name, field)...)
				}
			}
		}
	}
	slices.Sort(silent)
	return silent
}
