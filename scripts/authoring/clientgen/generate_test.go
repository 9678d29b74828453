// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package clientgen

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// lay writes files into a new folder.
func lay(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestMarkedTypes(t *testing.T) {
	t.Parallel()
	dir := lay(t, map[string]string{
		"api/shop/v1/types.go": "package v1\n\n// Sundae is one.\n// +genclient\ntype Sundae struct{}\n\n" +
			"//+genclient\ntype Cone struct{}\n",
		"api/farm/v2/types.go": "package v2\n\n//   +genclient\ntype Llama struct{}\n",
		"api/farm/v1/types.go": "package v1\n\n// It has no +genclient, and no\n" +
			"// +genclient:nonNamespaced\ntype Alpaca struct{}\n",
		"internal/x/y/z/code.go": "package z\n\n// +genclient\ntype Z struct{}\n",
	})
	versions, err := marked(dir)
	if want := []string{"farm/v2", "shop/v1"}; err != nil || !slices.Equal(versions, want) {
		t.Errorf("marked() = %v, %v, want %v", versions, err, want)
	}
	if wanted, err := Requested(dir); err != nil || !wanted {
		t.Errorf("Requested() = %t, %v", wanted, err)
	}
}

func TestModuleWithoutMarkedTypesKeepsFiles(t *testing.T) {
	t.Parallel()
	dir := lay(t, map[string]string{"internal/generated/kept.go": "package generated\n"})
	if wanted, err := Requested(dir); err != nil || wanted {
		t.Errorf("Requested() = %t, %v", wanted, err)
	}
	if err := (Generator{}).Generate(t.Context(), dir); !errors.Is(err, ErrNoTypes) {
		t.Errorf("Generate() error = %v, want ErrNoTypes", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "internal/generated/kept.go")); err != nil {
		t.Error(err)
	}
}

func TestGenerated(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"internal/generated/listers/shop/v1/sundae.go": true,
		"internal/generated.go":                        false,
		"internal/controller/generated/x.go":           false,
	} {
		if Generated(name) != want {
			t.Errorf("Generated(%s) = %t", name, !want)
		}
	}
}
