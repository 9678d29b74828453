// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"fmt"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"lva.io/operators/scripts/classes/class"
)

func revokeCommand() *cobra.Command {
	flags := &classFlags{}
	var keepWork bool
	command := &cobra.Command{
		Use:   "revoke ROSTER",
		Short: "Revoke the access of the students of a roster, and delete what they have on the cluster",
		Long: "revoke ends the access of each student of the roster, " +
			"and removes the namespaces with all that is in them, the\n" +
			"students' objects of shared kinds, and the kubeconfigs here. With --keep-work only the access ends.",
		Args: oneRoster,
		RunE: func(command *cobra.Command, args []string) error {
			students, err := class.ReadRoster(args[0])
			if err != nil {
				return err
			}
			opened, err := flags.open(command.Context())
			if err != nil {
				return err
			}
			var revoked []class.Revoked
			err = withBar(fmt.Sprintf("revoke %d students", len(students)), opened, func() (err error) {
				revoked, err = opened.Revoke(command.Context(), students, keepWork)
				return err
			})
			if err != nil {
				return err
			}
			were := 0
			for _, student := range revoked {
				if student.Existed {
					were++
				} else {
					fmt.Printf("%s was not invited.\n", student.Name)
				}
			}
			what := "with all their objects"
			if keepWork {
				what = "and kept their namespaces"
			}
			fmt.Printf("Revoked %s, %s.\n", english.Plural(were, "student", ""), what)
			return nil
		},
	}
	flags.add(command)
	command.Flags().BoolVar(&keepWork, "keep-work", false, "leave the namespaces, and what is in them")
	return command
}
