// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package farm

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// columns makes Tables.
type columns struct{}

// ConvertToTable implements rest.TableConvertor.
func (columns) ConvertToTable(_ context.Context, o, _ runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name"},
		{Name: "Weight", Type: "number"},
		{Name: "Height", Type: "number"},
		{Name: "Age", Type: "string"},
	}}
	var llamas []Llama
	switch found := o.(type) {
	case *LlamaList:
		llamas, table.ListMeta = found.Items, found.ListMeta
	case *Llama:
		llamas, table.ResourceVersion = []Llama{*found}, found.ResourceVersion
	}
	for i := range llamas {
		l := &llamas[i]
		table.Rows = append(table.Rows, metav1.TableRow{
			Cells:  []any{l.Name, l.Spec.Weight, l.Spec.Height, duration.HumanDuration(time.Since(l.CreationTimestamp.Time))},
			Object: runtime.RawExtension{Object: l},
		})
	}
	return table, nil
}
