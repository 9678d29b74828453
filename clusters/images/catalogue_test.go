// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import "testing"

func TestTheCatalogueIsRight(t *testing.T) {
	if _, err := Load(); err != nil {
		t.Fatal(err)
	}
}
