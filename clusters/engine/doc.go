// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package engine sees to it that Docker's engine runs on this machine. On Debian, as root, it installs and starts the
// engine; an engine that it started by itself it also ends, with everything that is in it. It does not touch an engine
// that was there, and knows nothing of what runs in it (clusters/docker and clusters/kind do).
package engine
