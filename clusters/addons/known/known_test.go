// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package known

import (
	"strings"
	"testing"
)

func TestCheckNamesUnknownAddon(t *testing.T) {
	t.Parallel()
	if err := Check(Names()); err != nil {
		t.Errorf("Check() of all add-ons: %v", err)
	}
	if err := Check(nil); err != nil {
		t.Errorf("Check() of no add-on: %v", err)
	}
	err := Check([]string{CertManager, "vault"})
	if err == nil || !strings.Contains(err.Error(), `no add-on "vault"`) ||
		!strings.Contains(err.Error(), "cert-manager, ingress, pebble") {
		t.Errorf("Check() of an unknown add-on: %v", err)
	}
}
