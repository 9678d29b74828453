// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package intake finds the submissions of a class: in folders, archives and Git repositories, and in the exports of
// Gradescope and Moodle. It finds the Go module that belongs to a lab (Find), and says in a sentence why something
// can't be graded. Its input comes from strangers, so everything has a limit, no link is followed out of a submission,
// and nothing of it is run. It grades nothing.
package intake
