// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package llama_test

import (
	"encoding/json"
	"fmt"
	"math"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"lva.io/operators/scripts/checks/check"
)

// These are the llamas of a farm that starts for the first time: see the task.
var (
	carla = herdLlama{"default", "carla", 130.5, 1.1}
	pedro = herdLlama{"farm", "pedro", 0.1, 0.3}
)

type herdLlama struct {
	namespace, name string
	weight, height  float64
}

func list() types.Feature {
	return features.New("list").
		Assess("the llamas of one namespace", check.Assess(step(func(v visit) {
			for _, one := range []herdLlama{carla, pedro} {
				a := v.want(v.send(v.ctx, http.MethodGet, llamas(one.namespace), nil), "the llamas of a namespace can be listed",
					http.StatusOK)
				if kind := textOf(a.object(), "kind"); kind != "LlamaList" {
					v.fail(a, "a list is a LlamaList", fmt.Sprintf("the answer's kind is %q", kind))
				}
				if names := a.names(); !slices.Contains(names, one.name) {
					v.fail(a,
						fmt.Sprintf("the list of the namespace %s has the llama %s, which a new farm has", one.namespace, one.name),
						fmt.Sprintf("it has %v", names))
				}
				for _, item := range a.items() {
					if textOf(item, "metadata", "namespace") != one.namespace {
						v.fail(a, "a list of a namespace has only the llamas of this namespace",
							fmt.Sprintf("the list of %s has %s of the namespace %q",
								one.namespace, nameOf(item), textOf(item, "metadata", "namespace")))
					}
					if uidOf(item) == "" || versionOf(item) == "" {
						v.fail(a, "each llama has a UID and a resourceVersion",
							fmt.Sprintf("%s has the UID %q and the resourceVersion %q", nameOf(item), uidOf(item), versionOf(item)))
					}
				}
				// An informer lists with resourceVersion=0, which any list satisfies.
				cached := v.send(v.ctx, http.MethodGet, llamas(one.namespace)+"?resourceVersion=0", nil)
				if !slices.Contains(cached.names(), one.name) {
					v.fail(cached, "a list with resourceVersion=0, which informers send, has "+one.name,
						fmt.Sprintf("the answer is %s, with %v", cached.summary(), cached.names()))
				}
				if versionOf(a.object()) == "" {
					v.fail(a, "a list has a resourceVersion, from which a watch can go on", "metadata.resourceVersion is not set")
				}
			}
		}))).
		Assess("by client-go, and of none", check.Assess(step(func(v visit) {
			a := v.send(v.ctx, http.MethodGet, llamas("kube-public"), nil)
			found, err := v.dynamic.Resource(llamaResource).Namespace("kube-public").List(v.ctx, metav1.ListOptions{})
			if err != nil {
				v.fail(a, "client-go can list a namespace without llamas", err.Error())
			}
			if len(found.Items) != 0 {
				v.fail(a, "the list of a namespace without llamas is empty", fmt.Sprintf("it has %d llamas", len(found.Items)))
			}
			v.grantAndWithdraw() // for the check authorization
		}))).Feature()
}

func get() types.Feature {
	return features.New("get").
		Assess("by its name", check.Assess(step(func(v visit) {
			for _, one := range []herdLlama{carla, pedro} {
				path := llama(one.namespace, one.name)
				a := v.want(v.send(v.ctx, http.MethodGet, path, nil), "GET "+path+" answers the llama "+one.name, http.StatusOK)
				object := a.object()
				if textOf(object, "kind") != "Llama" || nameOf(object) != one.name ||
					textOf(object, "metadata", "namespace") != one.namespace {
					v.fail(a, "a get answers the Llama that was asked for",
						fmt.Sprintf("it answers kind %q, name %q, namespace %q",
							textOf(object, "kind"), nameOf(object), textOf(object, "metadata", "namespace")))
				}
				if _, err := v.dynamic.Resource(llamaResource).Namespace(one.namespace).Get(v.ctx,
					one.name, metav1.GetOptions{}); err != nil {
					v.fail(a, "client-go can get a llama", err.Error())
				}
			}
		}))).Feature()
}

func allNamespaces() types.Feature {
	return features.New("all namespaces").
		Assess("the llamas of each", check.Assess(step(func(v visit) {
			a := v.want(v.send(v.ctx, http.MethodGet, llamas(""), nil),
				"the llamas of all namespaces can be listed, as kubectl get llamas -A does", http.StatusOK)
			for _, one := range []herdLlama{carla, pedro} {
				if !slices.ContainsFunc(a.items(), func(item map[string]any) bool {
					return nameOf(item) == one.name && textOf(item, "metadata", "namespace") == one.namespace
				}) {
					v.fail(a, fmt.Sprintf("the list of all namespaces has %s of the namespace %s", one.name, one.namespace),
						fmt.Sprintf("it has %v", a.names()))
				}
			}
			if output, ok, err := v.kubectl("", "get", "llamas", "-A"); ok &&
				(err != nil || !strings.Contains(output, pedro.name)) {
				v.Fail(v.t, "kubectl get llamas -A shows pedro", "it prints: "+strings.TrimSpace(output))
			}
		}))).Feature()
}

func mediaTypes() types.Feature {
	return features.New("media types").
		Assess("each answer says what it is", check.Assess(step(func(v visit) {
			for _, path := range []string{
				root, llamas(carla.namespace),
				llama(carla.namespace, carla.name), llama(carla.namespace, "nobody"),
			} {
				a := v.send(v.ctx, http.MethodGet, path, nil)
				if a.object() == nil {
					continue // there is no answer in JSON, which other checks report
				}
				if media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")); media != "application/json" {
					v.fail(a, "the answer to GET "+path+" has the Content-Type application/json",
						fmt.Sprintf("it has %q", a.header.Get("Content-Type")))
				}
			}
		}))).
		Assess("others are refused", check.Assess(step(func(v visit) {
			for _, path := range []string{llamas(carla.namespace), llama(carla.namespace, carla.name)} {
				if v.send(v.ctx, http.MethodGet, path, nil).code != http.StatusOK {
					continue // another check reports that
				}
				for _, accept := range []string{"text/html", "application/xml,image/png"} {
					a := v.want(v.send(v.ctx, http.MethodGet, path, nil, "Accept", accept),
						"GET "+path+" with Accept: "+accept+" answers 406", http.StatusNotAcceptable)
					if !a.isStatus("NotAcceptable") {
						v.fail(a, "the answer is a Status with the reason NotAcceptable", "the answer is "+a.summary())
					}
				}
				for _, accept := range []string{
					"*/*", "application/vnd.kubernetes.protobuf,application/json", "text/html, application/json;q=0.9",
				} {
					v.want(v.send(v.ctx, http.MethodGet, path, nil, "Accept", accept),
						"GET "+path+" with Accept: "+accept+", which allows JSON, answers 200", http.StatusOK)
				}
			}
		}))).
		Assess("metadata alone", check.Assess(step(func(v visit) {
			if plain := v.send(v.ctx, http.MethodGet,
				llamas(carla.namespace), nil); !slices.Contains(plain.names(), carla.name) {
				return // another check reports that
			}
			// The garbage collector and the deletion of a namespace send this request.
			client, err := metadata.NewForConfig(v.Config)
			v.OK(v.t, "making a client", err)
			found, err := client.Resource(llamaResource).Namespace(carla.namespace).List(v.ctx, metav1.ListOptions{})
			if err != nil || !slices.ContainsFunc(found.Items, func(o metav1.PartialObjectMetadata) bool {
				return o.Name == carla.name
			}) {
				a := v.send(v.ctx, http.MethodGet, llamas(carla.namespace), nil, "Accept", acceptMetadata)
				observed := "it does not have carla"
				if err != nil {
					observed = err.Error()
				}
				v.fail(a, "client-go's metadata client lists llamas (PartialObjectMetadataList)", observed)
			}
			one, err := client.Resource(llamaResource).Namespace(carla.namespace).Get(v.ctx, carla.name, metav1.GetOptions{})
			if plain := v.send(v.ctx, http.MethodGet, llama(carla.namespace, carla.name), nil); plain.code == http.StatusOK &&
				(err != nil || string(one.UID) != uidOf(plain.object())) {
				a := v.send(v.ctx, http.MethodGet, llama(carla.namespace, carla.name), nil, "Accept", acceptPartial)
				observed := "it gets another uid"
				if err != nil {
					observed = err.Error()
				}
				v.fail(a, "client-go's metadata client gets carla (PartialObjectMetadata), with the uid "+uidOf(plain.object()),
					observed)
			}
			v.want(v.send(v.ctx, http.MethodGet, llamas(carla.namespace), nil, "Accept", acceptPartial),
				"a list for a client that asks for PartialObjectMetadata, the form of one object, answers 406, or 200 with a list",
				http.StatusNotAcceptable, http.StatusOK)
		}))).Feature()
}

func notFound() types.Feature {
	return features.New("what does not exist").
		Assess("a llama, and a path", check.Assess(step(func(v visit) {
			path := llama(carla.namespace, "nobody")
			a := v.want(v.send(v.ctx, http.MethodGet, path, nil), "GET of a llama that does not exist answers 404",
				http.StatusNotFound)
			if !a.isStatus("NotFound") || textOf(a.object(), "details", "name") != "nobody" ||
				textOf(a.object(), "details", "kind") != "llamas" {
				v.fail(a,
					`the answer is a Status with the reason NotFound, and details with the name "nobody" and the kind "llamas"`,
					fmt.Sprintf("kind is %q, reason %q, details.name %q, details.kind %q",
						textOf(a.object(), "kind"), textOf(a.object(), "reason"),
						textOf(a.object(), "details", "name"), textOf(a.object(), "details", "kind")))
			}
			v.about(a, "llamas", "nobody")
			a = v.want(v.send(v.ctx, http.MethodGet, resources(carla.namespace, "alpacas"), nil),
				"GET of a resource that is not served answers 404", http.StatusNotFound)
			v.namesNothing(a)
			for _, path := range []string{
				llama(carla.namespace, carla.name) + "/fleece", root + "/llamas/" + carla.name,
				root + "/namespaces/" + carla.namespace,
			} {
				v.namesNothing(v.want(v.send(v.ctx, http.MethodGet, path, nil),
					"GET of a path that does not exist, "+path+", answers 404", http.StatusNotFound))
			}
		}))).Feature()
}

// namesNothing fails the check if the answer to a path that does not exist names an object.
func (v visit) namesNothing(a answer) {
	v.t.Helper()
	if textOf(a.object(), "details", "name") != "" {
		v.fail(a, "the Status for a path that does not exist names no object, unlike that for an object that does not exist",
			"details.name is "+textOf(a.object(), "details", "name"))
	}
}

// exactly holds numbers that 32-bit floats, a conversion to text of a fixed length, or an omitted field would change.
var exactly = []float64{0.1, 16777217, 1e21, 123456789.12345679, 1e-7, 0, math.MaxFloat64, math.SmallestNonzeroFloat64}

func numbers() types.Feature {
	return features.New("numbers").
		Assess("those of the farm", check.Assess(step(func(v visit) {
			for _, one := range []herdLlama{carla, pedro} {
				a := v.want(v.send(v.ctx, http.MethodGet, llamas(one.namespace), nil), "the llamas of a namespace can be listed",
					http.StatusOK)
				for _, item := range a.items() {
					if nameOf(item) != one.name {
						continue
					}
					v.exact(a, item, "weight", one.weight)
					v.exact(a, item, "height", one.height)
				}
			}
		}))).
		Assess("and others, where llamas can be created", check.Assess(step(func(v visit) {
			for i, number := range exactly {
				a := v.send(v.ctx, http.MethodPost, llamas(ns), newLlama(fmt.Sprintf("number-%d", i), number, number))
				if a.code != http.StatusCreated {
					return // another check reports that
				}
				a = v.send(v.ctx, http.MethodGet, llama(ns, fmt.Sprintf("number-%d", i)), nil)
				if a.code == http.StatusOK {
					v.exact(a, a.object(), "weight", number)
					v.exact(a, a.object(), "height", number)
				}
			}
			list := v.send(v.ctx, http.MethodGet, llamas(ns), nil)
			v.replacesNumbers()
			for _, item := range list.items() {
				var i int
				if _, err := fmt.Sscanf(nameOf(item), "number-%d", &i); err == nil && i < len(exactly) {
					v.exact(list, item, "weight", exactly[i])
					v.exact(list, item, "height", exactly[i])
				}
			}
		}))).Feature()
}

// replacesNumbers fails the check unless an update and a patch store the float next to the stored one. Other checks
// report updates and patches that are not served.
func (v visit) replacesNumbers() {
	v.t.Helper()
	for i, number := range exactly {
		name := fmt.Sprintf("number-%d", i)
		next := math.Nextafter(number, 1)
		if i == 0 {
			next = 0
		}
		object := runtimeCopy(v.send(v.ctx, http.MethodGet, llama(ns, name), nil).object())
		if unstructured.SetNestedField(object, next, "spec", "weight") != nil ||
			v.send(v.ctx, http.MethodPut, llama(ns, name), object).code != http.StatusOK {
			return
		}
		a := v.send(v.ctx, http.MethodGet, llama(ns, name), nil)
		v.exact(a, a.object(), "weight", next)
		v.exact(a, a.object(), "height", number)
		patched := v.send(v.ctx, http.MethodPatch, llama(ns, name), map[string]any{"spec": map[string]any{"height": next}},
			"Content-Type", string(apitypes.MergePatchType))
		if patched.code == http.StatusOK {
			a := v.send(v.ctx, http.MethodGet, llama(ns, name), nil)
			v.exact(a, a.object(), "height", next)
		}
	}
}

// exact fails the check unless a number is unchanged.
func (v visit) exact(a answer, object map[string]any, field string, want float64) {
	v.t.Helper()
	if got, ok := numberOf(object, "spec", field).(float64); !ok || got != want {
		text, _ := json.Marshal(numberOf(object, "spec", field))
		v.fail(a, fmt.Sprintf("spec.%s of %s is %v", field, nameOf(object), want), "it is "+string(text))
	}
}

// acceptTable requests a table, as kubectl get does.
const acceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

func table() types.Feature {
	return features.New("tables").
		Assess("of a list and of one", check.Assess(step(func(v visit) {
			for _, path := range []string{llamas(carla.namespace), llama(carla.namespace, carla.name)} {
				v.row(path, carla.name, []column{
					{"Name", carla.name}, {"Weight", carla.weight}, {"Height", carla.height}, {"Age", nil},
				})
			}
			// Another check reports a server that refuses it.
			if v.send(v.ctx, http.MethodPost, llamas(ns), newLlama("weightless", 0, 0)).code == http.StatusCreated {
				v.row(llamas(ns), "weightless", []column{{"Name", "weightless"}, {"Weight", 0}, {"Height", 0}, {"Age", nil}})
			}
			v.rowsHaveObjects(llamas(carla.namespace), carla.name)
			if output, ok, err := v.kubectl("", "get", "llamas", "-n", carla.namespace); ok &&
				(err != nil || !strings.Contains(output, "WEIGHT")) {
				v.Fail(v.t, "kubectl get llamas shows the columns", "it prints: "+strings.TrimSpace(output))
			}
		}))).Feature()
}

// column is a column of a Table: its name, and its cell for one object. The server chooses any of columnTypes.
type column struct {
	name string
	cell any // nil allows anything, and a list of texts requires a text with all of them
}

// columnTypes are the types of a Table's columns, from metav1.TableColumnDefinition.
var columnTypes = sets.New("string", "number", "integer", "boolean", "date")

func (c column) shows(cell any) bool {
	switch want := c.cell.(type) {
	case nil:
		return true
	case []string:
		return !slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(fmt.Sprint(cell), part) })
	default:
		return fmt.Sprint(cell) == fmt.Sprint(want)
	}
}

// row fails the check unless the answer for a path is a Table with these columns, and with an object of this name.
func (v visit) row(path, name string, want []column) {
	v.t.Helper()
	a := v.want(v.send(v.ctx, http.MethodGet, path, nil, "Accept", acceptTable),
		"GET "+path+" answers a Table", http.StatusOK)
	var t metav1.Table
	if err := json.Unmarshal(a.body, &t); err != nil || t.Kind != "Table" || t.APIVersion != "meta.k8s.io/v1" {
		v.fail(a, "GET "+path+" answers a Table of meta.k8s.io/v1 to who asks for one",
			fmt.Sprintf("it answers kind %q, apiVersion %q", t.Kind, t.APIVersion))
	}
	var names, wanted []string
	var shown []int
	for i, column := range t.ColumnDefinitions {
		if !columnTypes.Has(column.Type) {
			v.fail(a, "the type of a column is one of "+english.OxfordWordSeries(sets.List(columnTypes), "or"),
				fmt.Sprintf("the type of %s is %q", column.Name, column.Type))
		}
		if column.Priority == 0 {
			names, shown = append(names, column.Name), append(shown, i)
		}
	}
	for _, column := range want {
		wanted = append(wanted, column.name)
	}
	if !slices.Equal(names, wanted) {
		v.fail(a, fmt.Sprintf("the columns are %v", wanted), fmt.Sprintf("they are %v", names))
	}
	i := slices.IndexFunc(t.Rows, func(row metav1.TableRow) bool { return len(row.Cells) > 0 && row.Cells[0] == name })
	if i < 0 {
		v.fail(a, "a row begins with the name "+name, fmt.Sprintf("none of %d rows does", len(t.Rows)))
	}
	row := t.Rows[i]
	if len(row.Cells) != len(t.ColumnDefinitions) {
		v.fail(a, "the row of "+name+" has a cell for each column", fmt.Sprintf("the cells are %v", row.Cells))
	}
	for i, column := range want {
		if cell := row.Cells[shown[i]]; !column.shows(cell) {
			v.fail(a, fmt.Sprintf("in the row of %s, the cell %s is %v", name, column.name, column.cell),
				fmt.Sprintf("it is %v", cell))
		}
	}
	var object map[string]any
	if json.Unmarshal(row.Object.Raw, &object) != nil || nameOf(object) != name {
		v.fail(a, "each row has the object's metadata, from which kubectl takes the namespace",
			"the row of "+name+" has no object with this name")
	}
	if i := slices.Index(names, "Age"); i >= 0 {
		age := fmt.Sprint(row.Cells[shown[i]])
		if _, err := time.Parse(time.RFC3339, age); err == nil || !strings.ContainsAny(age, "0123456789") {
			v.fail(a, "in the row of "+name+", the cell Age is the time since its creation, such as 5m",
				fmt.Sprintf("it is %q", age))
		}
	}
}

// rowsHaveObjects fails the check unless the rows of a Table have complete objects for a client that requests them, as
// kubectl get --sort-by does.
func (v visit) rowsHaveObjects(path, name string) {
	v.t.Helper()
	path += "?includeObject=Object"
	a := v.want(v.send(v.ctx, http.MethodGet, path, nil, "Accept", acceptTable),
		"GET "+path+" answers a Table", http.StatusOK)
	rows, _, _ := unstructured.NestedSlice(a.object(), "rows")
	for _, row := range rows {
		row, _ := row.(map[string]any)
		if textOf(row, "object", "metadata", "name") == name && numberOf(row, "object", "spec") == nil {
			v.fail(a,
				"with includeObject=Object each row has the complete object, in which kubectl get --sort-by looks up the field",
				"the object of "+name+" has no spec")
		}
	}
}
