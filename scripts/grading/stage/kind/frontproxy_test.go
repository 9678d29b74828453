// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package kind

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Unit tests have no kind cluster. A script replaces docker and checks the command that it gets.
func TestFrontProxyFilesAreReadableByTheOwnerOnly(t *testing.T) {
	folder, dir := t.TempDir(), t.TempDir()
	const cat = "#!/bin/sh\n[ \"$1 $2 $3\" = 'exec lab-control-plane cat' ] && echo \"content of $4\"\n"
	if err := os.WriteFile(filepath.Join(folder, "docker"), []byte(cat), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	files, err := FrontProxy{Node: "lab-control-plane"}.Files(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		files.Cert: "content of /etc/kubernetes/pki/front-proxy-client.crt\n",
		files.Key:  "content of /etc/kubernetes/pki/front-proxy-client.key\n",
	} {
		content, err := os.ReadFile(file)
		if err != nil || string(content) != want {
			t.Errorf("%s: got %q, error = %v", file, content, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got mode %v, error = %v", file, info.Mode(), err)
		}
	}
	if _, err := (FrontProxy{Node: "another"}).Files(t.Context(), t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "from the node another") {
		t.Errorf("Files() from a node without the files: error = %v", err)
	}
}
