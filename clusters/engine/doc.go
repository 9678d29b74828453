// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package engine makes sure that Docker's engine runs on this machine. On Debian, as root, it installs and starts the
// engine. It also stops an engine that it started itself, and removes everything in it. It does not touch an engine
// that was already there, and knows nothing of the containers in it (clusters/docker and clusters/kind do).
package engine
