// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gobuild

import (
	"bufio"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"lva.io/operators/clusters/process"
)

// keptVariables are the variables with which a user or a company configures the sources of modules and the folders of
// caches. They keep the values from the environment or from `go env -w`. The project sets all other variables of the go
// command, so that all programs here are built with the same settings and share compiled packages.
var keptVariables = []string{
	"GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE", "GOVCS", "GOAUTH",
	"GOPATH", "GOMODCACHE", "GOCACHE", "GOCACHEPROG",
}

// runtimeVariables are variables that every Go program reads. They change the speed of the compiler, but not its
// output.
var runtimeVariables = []string{"GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GODEBUG", "GOTRACEBACK"}

// Environment returns the environment in which this project builds Go code: no workspace, no cgo, no toolchain but the
// installed one, and none of the user's settings except the sources of modules and the folders of caches. HOME is
// always set, because the go command has no caches without it.
func Environment() []string {
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case slices.Contains(keptVariables, name):
			return !usable(name, value)
		case name == "GOROOT":
			return !isInstallation(value)
		case name == "XDG_CACHE_HOME":
			return !filepath.IsAbs(value)
		}
		// Variables of the go command have no underscore, unlike GOOGLE_APPLICATION_CREDENTIALS and the like.
		return strings.HasPrefix(name, "GO") && !strings.Contains(name, "_") && !slices.Contains(runtimeVariables, name)
	})
	for name, value := range written() {
		if os.Getenv(name) == "" && usable(name, value) {
			environment = append(environment, name+"="+value)
		}
	}
	if !filepath.IsAbs(os.Getenv("HOME")) {
		environment = append(environment, "HOME="+home())
	}
	// The file of `go env -w` was read above. Its other settings are for other work, or break the go command.
	return append(environment, "GOENV=off", "GOWORK=off", "CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOFLAGS=-mod=readonly")
}

// ModuleCache returns the folder of the module cache, in the environment in which this project builds Go code.
func ModuleCache() string {
	set := map[string]string{}
	for _, variable := range Environment() {
		name, value, _ := strings.Cut(variable, "=")
		set[name] = value
	}
	if cache := set["GOMODCACHE"]; cache != "" {
		return cache
	}
	if paths := filepath.SplitList(set["GOPATH"]); len(paths) > 0 {
		return filepath.Join(paths[0], "pkg", "mod")
	}
	return filepath.Join(set["HOME"], "go", "pkg", "mod")
}

// usable reports whether the go command accepts a value. A folder of a cache must be absolute.
func usable(name, value string) bool {
	switch name {
	case "GOPATH", "GOMODCACHE", "GOCACHE":
		return filepath.IsAbs(value)
	}
	return value != ""
}

// isInstallation reports whether a folder holds an installation of Go: otherwise the go command finds its own.
func isInstallation(dir string) bool {
	for _, part := range []string{"pkg/tool", "src/runtime"} {
		if info, err := os.Stat(filepath.Join(dir, part)); err != nil || !info.IsDir() {
			return false
		}
	}
	return filepath.IsAbs(dir)
}

// written reads the values of keptVariables that `go env -w` wrote. Like the go command, it ignores lines that it does
// not understand.
func written() map[string]string {
	name := os.Getenv("GOENV")
	if name == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return nil
		}
		name = filepath.Join(dir, "go", "env")
	}
	file, err := os.Open(name)
	if err != nil {
		return nil // also GOENV=off
	}
	defer file.Close()
	settings := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok && slices.Contains(keptVariables, name) {
			settings[name] = value
		}
	}
	return settings
}

// home is the folder for the go command's caches when HOME is not set: the user's own, or one that only the user can
// enter.
func home() string {
	if current, err := user.Current(); err == nil && filepath.IsAbs(current.HomeDir) {
		if info, err := os.Stat(current.HomeDir); err == nil && info.IsDir() {
			return current.HomeDir
		}
	}
	root, err := process.Root()
	if err != nil {
		return "" // the go command reports that it is missing
	}
	return filepath.Join(root, "home")
}
